"""Whether a hierarchy can be evaluated in constant space, each refusal with a witness.

In order, bottom up: predicates satisfiable, no silent cycle, every state useful (trim), each
automaton unambiguous, parallel parts defined on the same inputs, ⊗ left-distributive over ⊕ where
paths are joined. What fails decides how the query may run: unambiguous and consistent in constant
space by tokens (Theorem 4); ambiguous at rank 0 by joining tokens; the rest is refused with the
lower bound that says why (Theorems 5 and 6) unless its cost is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ensue import errors
from ensue.automaton.walks import reached_along
from ensue.quantities.language import (
    Nfa,
    Word,
    ambiguous_word,
    distinguishing_word,
    underlying,
)
from ensue.quantities.laws import distributes
from ensue.quantities.model import Automaton, Expression, Function, Invocation, Step
from ensue.quantities.predicates import Alphabet, Letter, alphabet
from ensue.quantities.tokens import silent_order
from ensue.scalar.kinds import Kind

LINEAR = "linear space"
EXPONENTIAL = "exponential space"


@dataclass(frozen=True)
class Report:
    """What was found, and how the query may run.

    Examples:
        >>> report = q.sum("x").check()
        >>> report.rank, report.tokens, report.constant_space
        (0, True, True)
    """

    rank: int
    size: int
    letters: int
    ambiguity: errors.AmbiguousError | None = None
    inconsistency: errors.InconsistentError | None = None
    distributive: str = ""  # "known", "tested", "declared" or "" where ⊕ is never used
    notes: tuple[str, ...] = field(default=())

    @property
    def constant_space(self) -> bool:
        """Whether memory stays the same however long the stream is.

        Examples:
            >>> q.sum("x").check().constant_space
            True
        """
        return self.inconsistency is None and (self.ambiguity is None or self.rank == 0)

    @property
    def tokens(self) -> bool:
        """Whether the token evaluation of Theorem 4 applies.

        Examples:
            >>> q.sum("x").check().tokens
            True
        """
        return self.ambiguity is None and self.inconsistency is None

    @property
    def space(self) -> str:
        """How much memory the query needs, and the theorem that says so.

        Examples:
            >>> q.sum("x").check().space
            'constant space: unambiguous and parallel-consistent (Theorem 4)'
        """
        if self.tokens:
            return "constant space: unambiguous and parallel-consistent (Theorem 4)"
        if self.constant_space:
            return "constant space: rank 0, paths that meet are joined by the collect operation"
        if self.ambiguity is not None:
            return f"{LINEAR} in the stream: ambiguous at rank {self.rank} (Theorem 5)"
        return f"{EXPONENTIAL} in the query: parallel parts are not synchronised (Theorem 6)"

    def __str__(self) -> str:
        lines = [f"rank {self.rank}, size {self.size}, {self.letters} kinds of event", self.space]
        if self.distributive:
            lines.append(f"fold distributes over collect: {self.distributive}")
        return "\n".join([*lines, *self.notes])


def check(
    automaton: Automaton,
    kinds: Mapping[str, Kind] | None = None,
    *,
    allow: str | None = None,
    assume: str | None = None,
) -> Report:
    """The report of a hierarchy; raises what cannot run, unless `allow` names its cost.

    `assume="unambiguous"` is the declaration for predicates that cannot be decided.
    """
    if allow not in (None, LINEAR, EXPONENTIAL):
        raise errors.AutomatonError(
            f"allow={allow!r} is not a cost", remedy=f"use {LINEAR!r} or {EXPONENTIAL!r}"
        )
    if assume not in (None, "unambiguous"):
        raise errors.AutomatonError(
            f"assume={assume!r} is not a declaration", remedy="use assume='unambiguous'"
        )
    report = _Check(automaton, kinds, assume == "unambiguous").report()
    _permit(automaton, report, allow)
    return report


def _permit(automaton: Automaton, report: Report, allow: str | None) -> None:
    if report.ambiguity is not None:
        joins = any(a.collect is not None for a in automaton.hierarchy())
        if not joins:
            raise report.ambiguity
        if report.rank and allow != LINEAR:
            raise _refusal(report.ambiguity, LINEAR, "5", "the length of the stream")
    elif report.inconsistency is not None and allow is None:
        raise _refusal(report.inconsistency, EXPONENTIAL, "6", "the size of the query")


def _refusal(
    problem: errors.AutomatonError, cost: str, theorem: str, grows: str
) -> errors.AutomatonError:
    return type(problem)(
        f"{problem.problem}; evaluating such a query needs memory that grows with {grows} "
        f"(Theorem {theorem})",
        remedy=f"{problem.remedy}; or accept the cost with allow={cost!r}",
    )


class _Check:
    def __init__(
        self, automaton: Automaton, kinds: Mapping[str, Kind] | None, unambiguous: bool
    ) -> None:
        self._automaton = automaton
        self._assumed = unambiguous
        self._alphabet: Alphabet = alphabet(automaton.predicates(), kinds)
        letters = self._alphabet.letters
        self._all = frozenset(range(len(letters)))
        self._certain = frozenset(i for i, letter in enumerate(letters) if letter.certain)
        self._ambiguity: errors.AmbiguousError | None = None
        self._inconsistency: errors.InconsistentError | None = None
        self._notes: list[str] = []
        self._apart: set[int] = set()  # invocations whose parts have different domains

    def report(self) -> Report:
        self._satisfiable()
        for automaton in self._automaton.hierarchy():
            silent_order(automaton)
        for automaton in reversed(list(self._automaton.hierarchy())):
            self._one(automaton)
        distributive = self._distributive() if self._ambiguity is not None else ""
        return Report(
            rank=self._automaton.rank,
            size=self._automaton.size,
            letters=len(self._alphabet.letters),
            ambiguity=self._ambiguity,
            inconsistency=self._inconsistency,
            distributive=distributive,
            notes=tuple(self._notes),
        )

    def _satisfiable(self) -> None:
        needed = {
            transition.predicate
            for automaton in self._automaton.hierarchy()
            for transition in automaton.transitions
            if isinstance(transition, Step) and not transition.spare
        }
        for index, predicate in enumerate(self._alphabet.predicates):
            if predicate in needed and not any(
                letter.holds >> index & 1 for letter in self._alphabet.letters
            ):
                raise errors.UnsatisfiableError(
                    f"no event satisfies the predicate {predicate}",
                    remedy="correct the predicate, or leave the part out",
                )

    def _one(self, automaton: Automaton) -> None:
        self._trim(automaton)
        for transition in automaton.transitions:
            if isinstance(transition, Invocation) and len(transition.automata) > 1:
                self._consistent(automaton, transition)
        nfa = underlying(automaton, self._alphabet, frozenset(self._apart))
        # A declaration settles what is undecided; an input that is known to have two readings
        # is no matter of declaration.
        word = ambiguous_word(nfa, self._certain)
        if word is None and self._assumed:
            if "unambiguous by declaration" not in self._notes:
                self._notes.append("unambiguous by declaration")
            return
        if word is None and self._certain != self._all:
            doubtful = ambiguous_word(nfa, self._all)
            if doubtful is not None:
                raise self._undecided(automaton, doubtful, "two ways to read")
        if word is not None and self._ambiguity is None:
            self._ambiguity = errors.AmbiguousError(
                f"{automaton.name} reads the input {self._shown(word)} in two ways",
                remedy="make the parts exclusive, so that each input has one reading"
                + (
                    ""
                    if automaton.collect
                    else ", or join the readings by a collect operation: "
                    "quantify.automaton(fold, collect='max')"
                ),
            )

    def _trim(self, automaton: Automaton) -> None:
        """Every predicate is satisfiable and every invoked automaton trim: the graph decides."""
        forward = {(t.source, t.target) for t in automaton.transitions}
        backward = {(target, source) for source, target in forward}
        for seeds, edges, what in (
            (automaton.initial, forward, "no input reaches it"),
            (automaton.final, backward, "nothing is accepted from it"),
        ):
            useful = reached_along(seeds, edges)
            for state in automaton.states:
                if state not in useful:
                    raise errors.UnsatisfiableError(
                        f"the state {state} of {automaton.name} is useless: {what}",
                        remedy="remove the state, or correct the transitions around it",
                    )

    def _consistent(self, automaton: Automaton, transition: Invocation) -> None:
        if self._ambiguity is not None:
            # Counting paths decides equality for unambiguous automata only.
            self._apart.add(id(transition))
            return
        apart = frozenset(self._apart)
        nfas = [underlying(a, self._alphabet, apart) for a in transition.automata]
        for index, other in enumerate(nfas[1:], start=2):
            word = distinguishing_word(nfas[0], other, self._certain)
            if word is None and self._certain != self._all:
                doubtful = distinguishing_word(nfas[0], other, self._all)
                if doubtful is not None and not self._assumed:
                    raise self._undecided(automaton, doubtful, "only one side defined on")
            if word is None:
                continue
            self._apart.add(id(transition))
            sides = (transition.automata[0].name, transition.automata[index - 1].name)
            having, lacking = sides if _accepts(nfas[0], word) else sides[::-1]
            if self._inconsistency is None:
                self._inconsistency = errors.InconsistentError(
                    f"in {transition.operation} the parts {having} (argument "
                    f"{1 if having == sides[0] else index}) and {lacking} are not defined on the "
                    f"same inputs: only {having} is defined on {self._shown(word)}",
                    remedy="give both parts the same structure, differing only in their values",
                )

    def _undecided(self, automaton: Automaton, word: Word, what: str) -> errors.UndecidedError:
        if all(letter.certain or letter.by_type for letter in map(self._letter, word)):
            columns = ", ".join(self._alphabet.untyped)
            return errors.UndecidedError(
                f"{automaton.name}: it depends on the types of the columns ({columns}) whether "
                f"there are {what} an input such as {self._shown(word)}",
                remedy="give the types: check(table) or check(schema); eval and the like know them",
            )
        unsure = [
            str(p)
            for p in self._alphabet.predicates
            if isinstance(p, Function) or (isinstance(p, Expression) and "(" in str(p))
        ] or [str(p) for p in self._alphabet.predicates]
        return errors.UndecidedError(
            f"{automaton.name}: the solver cannot decide whether some event satisfies "
            f"{' and '.join(unsure)} together, and there may be {what} an input such as "
            f"{self._shown(word)}",
            remedy="declare it: quantify.disjoint(p, q) for predicates that exclude each other, or "
            "check(assume='unambiguous')",
        )

    def _letter(self, index: int) -> Letter:
        return self._alphabet.letters[index]

    def _shown(self, word: Word) -> str:
        events = [self._letter(index).shown(self._alphabet.predicates) for index in word]
        return "[" + ", ".join(events) + "]" if events else "with no event at all"

    # -- left-distributivity ---------------------------------------------------------------------

    def _distributive(self) -> str:
        """How it is known that ⊗ distributes over ⊕ wherever paths may be joined."""
        joining = [a for a in self._automaton.hierarchy() if a.collect is not None]
        verdicts = {distributes(automaton) for automaton in joining}
        order = ["tested", "declared", "known"]
        return next((verdict for verdict in order if verdict in verdicts), "")


def _accepts(nfa: Nfa, word: Word) -> bool:
    states = set(nfa.initial)
    for letter in word:
        states = {target for state in states for target, _ in nfa.moves[state][letter]}
    return bool(states & set(nfa.final))

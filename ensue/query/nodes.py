"""Pattern nodes: the regular expression over labels, as a frozen tree.

The tree is what the text said, nothing more: quantifiers are not expanded and nothing is
simplified (`automaton/compile.py` expands). Order matters everywhere: the first alternative is the
preferred one (SQL:2016 row pattern preferment).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from ensue.query.duration import duration_text


class Policy(Enum):
    """What may lie between two consecutive events of a match."""

    STRICT = "strict"  # nothing: the next row of the partition
    NEXT = "next"  # what does not fit (skip-till-next-match)
    ANY = "any"  # anything (skip-till-any-match)


@dataclass(frozen=True)
class Gap:
    """The joint between two parts: its policy and an optional bound on the time it may take."""

    policy: Policy = Policy.STRICT
    within: int | None = None  # microseconds, or units of a numeric order column
    # `within` is a duration. Not in the text that names a query in stored state, which was there
    # before; only one of the two fits an order column.
    timed: bool = field(default=True, repr=False)
    # The policy stands in the text, so `select` leaves it; once a query is built it says nothing.
    said: bool = field(default=False, repr=False, compare=False)


STRICT_GAP = Gap()


@dataclass(frozen=True)
class Empty:
    """`()`: matches no row."""


@dataclass(frozen=True)
class Label:
    """A primary pattern variable, spelt as it is reported."""

    name: str


@dataclass(frozen=True)
class AnchorStart:
    """`^`: before the first row of the partition."""


@dataclass(frozen=True)
class AnchorEnd:
    """`$`: after the last row of the partition."""


@dataclass(frozen=True)
class Concatenation:
    """Parts one after the other; `gaps[i]` joins part i to part i + 1."""

    parts: tuple[Node, ...]
    gaps: tuple[Gap, ...]

    def __post_init__(self) -> None:
        assert len(self.gaps) == len(self.parts) - 1


@dataclass(frozen=True)
class Alternation:
    """Options in order of preference."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repetition:
    """`part` at least `least` and at most `most` times (None: no bound)."""

    part: Node
    least: int
    most: int | None
    greedy: bool = True
    gap: Gap = STRICT_GAP  # between iterations
    exhaust: bool = False  # event patterns: what follows may not use an event that the loop can
    until: Label | None = None  # event patterns: the loop ends before such an event


@dataclass(frozen=True)
class Permutation:
    """All parts, each once, in any order; orders preferred lexicographically as listed."""

    parts: tuple[Node, ...]
    gap: Gap = STRICT_GAP  # between parts


@dataclass(frozen=True)
class Exclusion:
    """`{- part -}`: matched as usual, left out of ALL ROWS output."""

    part: Node


@dataclass(frozen=True)
class Negation:
    """`!part`: no such event inside the gap it stands in (event patterns only)."""

    part: Label


Node = (
    Empty
    | Label
    | AnchorStart
    | AnchorEnd
    | Concatenation
    | Alternation
    | Repetition
    | Permutation
    | Exclusion
    | Negation
)


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Concatenation(parts=parts) | Permutation(parts=parts):
            return parts
        case Alternation(options=options):
            return options
        case Repetition(part=part, until=until) if until is not None:
            return (part, until)
        case Repetition(part=part) | Exclusion(part=part) | Negation(part=part):
            return (part,)
        case _:
            return ()


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each part changed; what a negation or `until` names stays."""
    match node:
        case Concatenation(parts=parts) | Permutation(parts=parts):
            return replace(node, parts=tuple(map(change, parts)))
        case Alternation(options=options):
            return replace(node, options=tuple(map(change, options)))
        case Repetition(part=part) | Exclusion(part=part):
            return replace(node, part=change(part))
        case _:
            return node


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def labels(node: Node) -> tuple[str, ...]:
    """Names of all labels in order of first appearance."""
    return tuple(dict.fromkeys(n.name for n in walk(node) if isinstance(n, Label)))


def concatenate(parts: list[Node], gaps: list[Gap] | None = None) -> Node:
    """A concatenation, or its only part, or `()`."""
    if not parts:
        return Empty()
    if len(parts) == 1:
        return parts[0]
    return Concatenation(tuple(parts), tuple(gaps or [STRICT_GAP] * (len(parts) - 1)))


def is_strict(node: Node) -> bool:
    """Whether every joint is strict and nothing is negated: a row pattern."""
    for n in walk(node):
        if isinstance(n, Negation) or any(gap != STRICT_GAP for gap in _own_gaps(n)):
            return False
        if isinstance(n, Repetition) and (n.exhaust or n.until):
            return False
    return True


def gaps(node: Node) -> Iterator[Gap]:
    """Every joint of the pattern."""
    for n in walk(node):
        yield from _own_gaps(n)


def _own_gaps(node: Node) -> tuple[Gap, ...]:
    if isinstance(node, Concatenation):
        return node.gaps
    return (node.gap,) if isinstance(node, (Repetition, Permutation)) else ()


def unseen(node: Node) -> frozenset[str]:
    """Labels that are in no match: the negated ones and those that end a loop."""
    hidden: set[str] = set()
    for n in walk(node):
        if isinstance(n, Negation):
            hidden.add(n.part.name)
        elif isinstance(n, Repetition) and n.until is not None:
            hidden.add(n.until.name)
    return frozenset(hidden)


def with_blank(node: Node, policy: Policy) -> Node:
    """The pattern in which a blank (a strict joint that no mark asks for) means `policy`."""

    def joint(gap: Gap) -> Gap:
        blank = gap.policy is Policy.STRICT and not gap.said
        return replace(gap, policy=policy) if blank else gap

    changed = rebuilt(node, lambda part: with_blank(part, policy))
    match changed:
        case Concatenation(gaps=gaps):
            return replace(changed, gaps=tuple(map(joint, gaps)))
        case Repetition(gap=gap) | Permutation(gap=gap):
            return replace(changed, gap=joint(gap))
        case _:
            return changed


_POSTFIX = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_BARE = re.compile(r"[^\W\d]\w*")
_WORDS = ("PERMUTE", "WITHIN")  # of the grammar, so that a label of this name is quoted
_ARROW = {Policy.STRICT: " ", Policy.NEXT: " -> ", Policy.ANY: " ->> "}


def pattern_text(node: Node, *, folds: bool = True) -> str:
    """The pattern as text that parses back to the same tree: different trees, different texts.

    Labels are quoted where SQL would fold them to upper case; without `folds` they stand as typed.
    """
    return _text(node, 0, folds)


def loop_policies(gaps: tuple[Gap, ...] | list[Gap]) -> list[Policy]:
    """Per part that these gaps join, the policy inside it if it is a loop that does not say one.

    It is that of the arrow before; the first part, with nothing before it, has that of the arrow
    after: `F{3} -> S` is three F's, then an S, whatever lies between any of them.
    """
    return [gap.policy for gap in (*gaps[:1], *gaps)]


def quote_label(name: str, *, folds: bool = True) -> str:
    """A label as text: bare where it is read back as it is, else in double quotes."""
    bare = name.isidentifier() and name.upper() == name and name.isascii()
    if not folds:
        bare = _BARE.fullmatch(name) is not None and name.upper() not in _WORDS
    return name if bare else '"' + name.replace('"', '""') + '"'


def _text(node: Node, level: int, folds: bool, policy: Policy = Policy.STRICT) -> str:
    # level: 0 = anything, 1 = inside a concatenation, 2 = under a quantifier
    # policy: what a loop takes from its place, so that it need not be said
    match node:
        case Empty():
            return "()"
        case Label(name=name):
            return quote_label(name, folds=folds)
        case AnchorStart():
            return "^"
        case AnchorEnd():
            return "$"
        case Concatenation(parts=parts, gaps=gaps):
            first, *inside = loop_policies(gaps)
            text = _text(parts[0], 1, folds, first)
            for gap, part, own in zip(gaps, parts[1:], inside, strict=True):
                bound = f"{_bound(gap, folds)} " if gap.within is not None else ""
                text += _ARROW[gap.policy] + bound + _text(part, 1, folds, own)
            return f"({text})" if level > 0 else text
        case Alternation(options=options):
            text = " | ".join(_text(option, 1, folds) for option in options)
            return f"({text})" if level > 0 else text
        case Repetition(part=part, least=least, most=most, greedy=greedy):
            quantifier = _POSTFIX.get((least, most))
            if quantifier is None and most == least:
                quantifier = f"{{{least}}}"
            if quantifier is None:
                quantifier = f"{{{least},{'' if most is None else most}}}"
            lazy = "" if greedy else "?"
            text = _text(part, 2, folds) + quantifier + lazy + _marks(node, policy, folds)
            return f"({text})" if level > 1 else text
        case Permutation(parts=parts):
            listed = ", ".join(_text(part, 0, folds) for part in parts)
            return f"PERMUTE({listed}){_marks(node, policy, folds)}"
        case Exclusion(part=part):
            return "{- " + _text(part, 0, folds) + " -}"
        case Negation(part=part):
            return "!" + _text(part, 2, folds)


def _bound(gap: Gap, folds: bool) -> str:
    assert gap.within is not None
    if not gap.timed:
        return f"within {gap.within} units"
    # What stored state and streams are distinguished by stays in microseconds.
    return f"within {gap.within} us" if folds else f"within {duration_text(gap.within)}"


def _marks(node: Repetition | Permutation, policy: Policy, folds: bool) -> str:
    """What a loop says of itself, in brackets; nothing where its place says it."""
    marks = [] if node.gap.policy is policy else [node.gap.policy.value]
    if node.gap.within is not None:
        marks.append(_bound(node.gap, folds))
    if isinstance(node, Repetition) and node.exhaust:
        marks.append("greedy")
    if isinstance(node, Repetition) and node.until is not None:
        marks.append(f"until {quote_label(node.until.name, folds=folds)}")
    return f"[{', '.join(marks)}]" if marks else ""

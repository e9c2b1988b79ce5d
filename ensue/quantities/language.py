"""The languages of automata over letters: emptiness, trimness, unambiguity, equivalence.

`underlying` builds the NFA of a hierarchy (paper, "Checking if an NSA is an SA"): an invocation
becomes silent transitions to and from a copy of its first automaton's NFA, so the NFA is linear in
the hierarchy and has one accepting path where the automaton has one. That presumes parallel parts
with equal domains; where they are not, the copy is that of the product of all parts. Unambiguity
is reachability in NFA × NFA. Equivalence follows Stearns and Hunt: for unambiguous automata the
number of accepting paths of a word is 0 or 1, so languages are equal exactly if path counts are;
the vector of path counts moves linearly with each letter, so only as many words as there are
states need to be looked at, one per dimension of the space the vectors span. Cubic in states,
times letters.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from ensue import errors
from ensue.automaton.walks import reached_along
from ensue.quantities.model import Automaton, Invocation, Silent, Step
from ensue.quantities.predicates import Alphabet

MAX_PRODUCT = 20_000
Word = tuple[int, ...]  # letters, by index in the alphabet


@dataclass
class Nfa:
    """States 0..n-1; `moves[state][letter]` are (target, number of ways) after ε-elimination."""

    states: int
    initial: dict[int, int]  # state -> number of silent ways to it
    final: dict[int, int]
    moves: list[list[list[tuple[int, int]]]]
    letters: int


@dataclass
class _Raw:
    """Before ε-elimination."""

    count: int
    steps: list[tuple[int, frozenset[int], int]]  # source, letters, target
    silent: list[tuple[int, int]]
    initial: list[int]
    final: list[int]


def underlying(
    automaton: Automaton, alphabet: Alphabet, inconsistent: frozenset[int] = frozenset()
) -> Nfa:
    """The NFA of the hierarchy; `inconsistent` are ids of invocations that need the product."""
    raw = _Raw(0, [], [], [], [])
    states = _place(automaton, alphabet, raw, inconsistent)
    raw.initial = [states[s] for s in automaton.initial]
    raw.final = [states[s] for s in automaton.final]
    return _without_silent(raw, alphabet)


def _place(
    automaton: Automaton, alphabet: Alphabet, raw: _Raw, inconsistent: frozenset[int]
) -> dict[str, int]:
    states = {state: raw.count + i for i, state in enumerate(automaton.states)}
    raw.count += len(states)
    for transition in automaton.transitions:
        source, target = states[transition.source], states[transition.target]
        match transition:
            case Step(predicate=predicate):
                bit = alphabet.bit(predicate)
                letters = frozenset(
                    i for i, letter in enumerate(alphabet.letters) if letter.holds & bit
                )
                raw.steps.append((source, letters, target))
            case Silent():
                raw.silent.append((source, target))
            case Invocation(automata=automata) if id(transition) in inconsistent:
                parts = [underlying(a, alphabet, inconsistent) for a in automata]
                _embed(_product(parts), raw, source, target)
            case Invocation(automata=automata):
                inside = _place(automata[0], alphabet, raw, inconsistent)
                raw.silent += [(source, inside[s]) for s in automata[0].initial]
                raw.silent += [(inside[s], target) for s in automata[0].final]
    return states


def _product(parts: list[Nfa]) -> Nfa:
    """All parts at once: accepts what every part accepts; exponential in their number."""
    numbers: dict[tuple[int, ...], int] = {}
    waiting: list[tuple[int, ...]] = []

    def number(states: tuple[int, ...]) -> int:
        if states not in numbers:
            if len(numbers) == MAX_PRODUCT:
                raise errors.LimitError(
                    f"parallel parts with different domains have more than {MAX_PRODUCT} joint "
                    "states",
                    remedy="give the parts the same structure",
                )
            numbers[states] = len(numbers)
            waiting.append(states)
        return numbers[states]

    def joined(choices: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
        return [
            (number(tuple(state for state, _ in chosen)), prod(ways for _, ways in chosen))
            for chosen in itertools.product(*choices)
        ]

    initial = dict(joined([list(part.initial.items()) for part in parts]))
    moves: list[list[list[tuple[int, int]]]] = []
    for states in waiting:  # grows while it is read
        moves.append(
            [
                joined([part.moves[s][letter] for part, s in zip(parts, states, strict=True)])
                for letter in range(parts[0].letters)
            ]
        )
    final = {
        at: 1
        for states, at in numbers.items()
        if all(s in part.final for part, s in zip(parts, states, strict=True))
    }
    return Nfa(len(numbers), initial, final, moves, parts[0].letters)


def _embed(nfa: Nfa, raw: _Raw, source: int, target: int) -> None:
    first = raw.count
    raw.count += nfa.states
    for state, ways in nfa.initial.items():
        raw.silent += [(source, first + state)] * ways
    for state in nfa.final:
        raw.silent.append((first + state, target))
    for state in range(nfa.states):
        for letter, moves in enumerate(nfa.moves[state]):
            for end, ways in moves:
                raw.steps += [(first + state, frozenset([letter]), first + end)] * ways


def _without_silent(raw: _Raw, alphabet: Alphabet) -> Nfa:
    """Counts of silent ways are kept, so that two silent paths still show as ambiguity."""
    ways = _silent_ways(raw)
    letters = range(len(alphabet.letters))
    moves: list[list[list[tuple[int, int]]]] = []
    outgoing: dict[int, list[tuple[frozenset[int], int]]] = {}
    for source, taken, target in raw.steps:
        outgoing.setdefault(source, []).append((taken, target))
    for state in range(raw.count):
        row = []
        for letter in letters:
            reached: dict[int, int] = {}
            for taken, target in outgoing.get(state, ()):
                if letter in taken:
                    for end, number in ways[target].items():
                        reached[end] = reached.get(end, 0) + number
            row.append(sorted(reached.items()))
        moves.append(row)
    initial: dict[int, int] = {}
    for state in raw.initial:
        for end, number in ways[state].items():
            initial[end] = initial.get(end, 0) + number
    return Nfa(raw.count, initial, dict.fromkeys(raw.final, 1), moves, len(letters))


def _silent_ways(raw: _Raw) -> list[dict[int, int]]:
    following: dict[int, list[int]] = {}
    for source, target in raw.silent:
        following.setdefault(source, []).append(target)
    ways: list[dict[int, int] | None] = [None] * raw.count

    def from_state(state: int) -> dict[int, int]:
        known = ways[state]
        if known is None:
            known = {state: 1}
            for target in following.get(state, ()):
                for end, number in from_state(target).items():
                    known[end] = known.get(end, 0) + number
            ways[state] = known
        return known

    return [from_state(state) for state in range(raw.count)]


def ambiguous_word(nfa: Nfa, allowed: frozenset[int]) -> Word | None:
    """A shortest word over the `allowed` letters with two accepting paths, or None.

    A pair of states with a mark "the paths have parted" is followed from the initial pairs; two
    paths that end in one pair of final states, parted, are two accepting paths.
    """
    backward = (
        (target, state)
        for state, by_letter in enumerate(nfa.moves)
        for moves in by_letter
        for target, _ in moves
    )
    useless = set(range(nfa.states)) - reached_along(nfa.final, backward)
    seen: dict[tuple[int, int, bool], tuple[tuple[int, int, bool], int] | None] = {}
    queue: deque[tuple[int, int, bool]] = deque()
    for p, ways in nfa.initial.items():
        for q in nfa.initial:
            if p in useless or q in useless:
                continue
            node = (p, q, p != q or ways > 1)
            if node not in seen:
                seen[node] = None
                queue.append(node)
    while queue:
        node = queue.popleft()
        p, q, parted = node
        if parted and p in nfa.final and q in nfa.final:
            return _trace(seen, node)
        for letter in allowed:
            for first, ways in nfa.moves[p][letter]:
                for second, _ in nfa.moves[q][letter]:
                    if first in useless or second in useless:
                        continue
                    after = (first, second, parted or first != second or (p == q and ways > 1))
                    if after not in seen:
                        seen[after] = (node, letter)
                        queue.append(after)
    return None


def _trace(
    seen: dict[tuple[int, int, bool], tuple[tuple[int, int, bool], int] | None],
    node: tuple[int, int, bool],
) -> Word:
    letters: list[int] = []
    before = seen[node]
    while before is not None:
        node, letter = before
        letters.append(letter)
        before = seen[node]
    return tuple(reversed(letters))


def distinguishing_word(a: Nfa, b: Nfa, allowed: frozenset[int]) -> Word | None:
    """A word that one of two unambiguous automata accepts and the other does not, or None."""
    size = a.states + b.states

    def vector(first: dict[int, int], second: dict[int, int], sign: int) -> list[Fraction]:
        values = [Fraction(0)] * size
        for state, number in first.items():
            values[state] += number
        for state, number in second.items():
            values[a.states + state] += sign * number
        return values

    start = vector(a.initial, b.initial, -1)
    accept = vector(a.final, b.final, 1)
    basis: dict[int, list[Fraction]] = {}  # by the position of the leading one
    queue: deque[tuple[list[Fraction], Word]] = deque([(start, ())])
    while queue:
        counts, word = queue.popleft()
        if sum((x * y for x, y in zip(counts, accept, strict=True)), Fraction(0)):
            return word
        if not _extend(basis, counts):
            continue
        for letter in sorted(allowed):
            after = [Fraction(0)] * size
            for state, number in enumerate(counts):
                if number:
                    offset = 0 if state < a.states else a.states
                    nfa = b if offset else a
                    for target, ways in nfa.moves[state - offset][letter]:
                        after[offset + target] += number * ways
            queue.append((after, (*word, letter)))
    return None


def _extend(basis: dict[int, list[Fraction]], vector: list[Fraction]) -> bool:
    """Add to a basis in echelon form; False where the vector lies in its span."""
    rest = list(vector)
    for position in range(len(rest)):
        if not rest[position]:
            continue
        row = basis.get(position)
        if row is None:
            scale = rest[position]
            basis[position] = [value / scale for value in rest]
            return True
        scale = rest[position]
        rest = [x - scale * y for x, y in zip(rest, row, strict=True)]
    return False

"""Approximate matching by brute force, straight from Definition 1.

Every serialisation of the pattern with at most so many letters beyond the stream's length is
spelt out; each of its letters is either an event (later than the one before, in the window, its
condition holding) or missing. A match is a set of (label, row) pairs with the least total cost over
all ways to get it; of equal cost, the fewest missing letters, then those that come latest, then by
label.

A condition is read on the serialisation, missing letters included: each of its AND-parts that
reads a missing event holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query
from tests.oracle_sequences import Oracle, in_window

Row = dict[str, Any]
Pairs = tuple[tuple[str, int], ...]
Entry = tuple[str, int | None]  # label, and row or missing
Answer = tuple[Fraction, tuple[tuple[int, str], ...]]  # total, (position among events, label)


def words(node: nodes.Node, longest: int) -> Iterator[tuple[str, ...]]:
    """Serialisations of at most so many letters, possibly repeated."""
    match node:
        case nodes.Empty():
            yield ()
        case nodes.Label(name=name):
            if longest >= 1:
                yield (name,)
        case nodes.Exclusion(part=part):
            yield from words(part, longest)
        case nodes.Alternation(options=options):
            for option in options:
                yield from words(option, longest)
        case nodes.Concatenation(parts=parts):
            if not parts:
                yield ()
                return
            for head in words(parts[0], longest):
                rest = nodes.concatenate(list(parts[1:])) if len(parts) > 1 else nodes.Empty()
                for tail in words(rest, longest - len(head)):
                    yield head + tail
        case nodes.Permutation(parts=parts):
            if not parts:
                yield ()
                return
            for index, part in enumerate(parts):
                others = nodes.Permutation(parts[:index] + parts[index + 1 :])
                for head in words(part, longest):
                    for tail in words(others, longest - len(head)):
                        yield head + tail
        case nodes.Repetition(part=part, least=least, most=most):
            if least == 0:
                yield ()
            if most == 0:
                return
            again = nodes.Repetition(part, max(0, least - 1), None if most is None else most - 1)
            for head in words(part, longest):
                if not head and least == 0:
                    continue  # an empty round changes nothing
                if not head:
                    yield from words(again, longest)
                    continue
                for tail in words(again, longest - len(head)):
                    yield head + tail
        case _:
            raise AssertionError(node)


class MissingOracle:
    def __init__(self, query: Query, rows: list[Row]) -> None:
        assert query.missing is not None
        self.query, self.rows, self.missing = query, rows, query.missing
        self.found: dict[Pairs, tuple[Fraction, int, tuple[tuple[int, int], ...]]] = {}
        self._plain = Oracle(query, rows)
        weights = [Fraction(c) for c in (self._cost(x) for x in query.labels) if c]
        least = min(weights, default=Fraction(1))
        room = int(self.missing.bound / least) if least else 0
        # letters that cost nothing: one round more of them than the pattern's own
        free = [x for x in query.labels if self._cost(x) == 0]
        self.longest = len(rows) + room + (2 * len(free) + 2 if free else 0)

    def _cost(self, label: str) -> Fraction | None:
        if label in self.missing.required:
            return None
        return dict(self.missing.weights).get(label, Fraction(1))

    def matches(self) -> dict[Pairs, Answer]:
        for word in dict.fromkeys(words(self.query.pattern, self.longest)):
            self._place(word, 0, (), Fraction(0))
        labels = self.query.labels
        return {
            pairs: (cost, tuple((-place, labels[label]) for place, label in gone))
            for pairs, (cost, _, gone) in self.found.items()
        }

    def _place(self, word: tuple[str, ...], at: int, entries: tuple[Entry, ...], cost: Any) -> None:
        if at == len(word):
            self._complete(entries, cost)
            return
        label = word[at]
        price = self._cost(label)
        if price is not None and cost + price <= self.missing.bound:
            self._place(word, at + 1, (*entries, (label, None)), cost + price)
        taken = [row for _, row in entries if row is not None]
        for row in range(taken[-1] + 1 if taken else 0, len(self.rows)):
            if taken and not self._in_window(taken[0], row):
                break
            if self._fits(label, row, entries):
                self._place(word, at + 1, (*entries, (label, row)), cost)

    def _complete(self, entries: tuple[Entry, ...], cost: Fraction) -> None:
        pairs = tuple((label, row) for label, row in entries if row is not None)
        if not pairs:
            return
        gone, place = [], 0
        for label, row in entries:
            if row is None:
                gone.append((-place, self.query.labels.index(label)))
            else:
                place += 1
        answer = (cost, len(gone), tuple(gone))
        if pairs not in self.found or answer < self.found[pairs]:
            self.found[pairs] = answer

    def _in_window(self, first: int, row: int) -> bool:
        return in_window(self.query, self.rows, first, row)

    # -- conditions ------------------------------------------------------------------------------

    def _fits(self, label: str, row: int, before: tuple[Entry, ...]) -> bool:
        # Missing events count when one is looked up; a part that finds one of them holds.
        entries: Any = (*before, (label, row))
        return all(
            self._reads_missing(part, entries) or self._plain._value(part, row, entries) is True
            for part in _parts(self.query.definition(label))
        )

    def _reads_missing(self, part: c.Condition, entries: tuple[Entry, ...]) -> bool:
        for node in c.walk(part):
            if isinstance(node, (c.Navigate, c.Aggregate)):
                names = self.query.members(node.variable)
                mine = [row for label, row in entries if label in names]
                if isinstance(node, c.Aggregate):
                    if None in mine:
                        return True
                elif len(mine) > node.offset:
                    first = node.anchor is c.Anchor.FIRST
                    if mine[node.offset if first else -1 - node.offset] is None:
                        return True
        return False


def _parts(condition: c.Condition) -> list[c.Condition]:
    if isinstance(condition, c.Call) and condition.function == "and":
        left, right = condition["this"], condition["expression"]
        assert isinstance(left, c.Condition) and isinstance(right, c.Condition)
        return _parts(left) + _parts(right)
    return [condition]


def matches(query: Query, rows: list[Row]) -> dict[Pairs, Answer]:
    """Each match in rows that are in order: its cost, and what is missing where."""
    return MissingOracle(query, rows).matches()

"""What a search must ask, row by row: brute force, on top of the oracles of the attempts.

Of a row pattern: all ways from a start, the preferred first. At a row the ways are asked that no
way preferred to them has completed before. Of an event pattern: the partial matches that a row is
put to, each on its own.
"""

from __future__ import annotations

import math
from typing import Any

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query
from tests import oracle
from tests.oracle import _find_matches, _in_window, _Match, _skip
from tests.oracle_sequences import Pairs, State
from tests.oracle_why import _DONE, Need, _Attempt, _Wait
from tests.oracle_why import Rest as RowRest
from tests.oracle_why import Round as RowRound
from tests.oracle_why_events import _Waits

Word = tuple[str, ...]
Ask = tuple[Word, str, bool | None]


class _Ways(_Attempt):
    def __init__(self, query: Query, partition: list[dict[str, Any]], start: int, number: int):
        self.waits: list[_Wait] = []
        self.log: list[tuple[Word, str, bool | None]] = []  # a complete way has no label
        first = _Match(query, partition, start, number)
        self._walk(query.pattern, first, self._complete, _DONE, None)

    def _complete(self, match: _Match) -> None:
        self.log.append((_word(match), "", True))

    def _walk(
        self,
        node: nodes.Node,
        match: _Match,
        rest: RowRest,
        need: Need,
        begun: RowRound | None,
    ) -> None:
        if (
            isinstance(node, nodes.Label)
            and need[1] is not None
            and match.end < len(match.partition)
        ):
            longer = match.extended(node.name, False)
            if _in_window(longer):
                held = longer.value(match.query.definition(node.name))
                self.log.append((_word(match), node.name, held))
        super()._walk(node, match, rest, need, begun)

    def asked(self) -> set[Ask]:
        least, found = math.inf, set()
        for word, label, held in self.log:
            if len(word) >= least:
                continue
            if label:
                found.add((word, label, held))
            else:
                least = len(word)
        return found


def _word(match: _Match) -> Word:
    return tuple(step.label for step in match.steps)


def of_rows(
    query: Query, partition: list[dict[str, Any]]
) -> tuple[dict[int, set[Ask]], list[tuple[int, Word]]]:
    """Per start that the search reaches, what is asked; and the matches."""
    oracle._patience[0] = 10_000_000
    matches = _find_matches(query, partition)
    asked: dict[int, set[Ask]] = {}
    for row in range(len(partition)):
        if not any(m.start < row < _skip(m) for m in matches):
            number = 1 + sum(m.start < row for m in matches)
            asked[row] = _Ways(query, partition, row, number).asked()
    return asked, [(match.start, _word(match)) for match in matches]


class OfEvents(_Waits):
    """`live`: partial matches and the rows that they are put to; `found`: the matches."""

    def __init__(self, query: Query, rows: list[dict[str, Any]]) -> None:
        self.live: set[tuple[int, Pairs]] = set()
        super().__init__(query, rows)
        for wait in self.waits:
            self._lives(wait.pairs, wait.row)

    def held(self, label: str, row: int, pairs: Pairs) -> bool | None:
        parts = c.conjuncts(self.query.definition(label))
        values = [self._value(part, row, (*pairs, (label, row))) for part in parts]
        return False if False in values else None if None in values else True

    def _complete(self, state: State) -> None:
        super()._complete(state)
        state = state.at_end()
        if not self._searching and state.pairs in self.found:
            if state.nots:
                self._lives(state.pairs, len(self.rows))
            elif state.not_next is not None:
                self._lives(state.pairs, state.last + 1)

    def _lives(self, pairs: Pairs, until: int) -> None:
        for row in range(pairs[-1][1] + 1, min(until + 1, len(self.rows))):
            if self._in_window(pairs[0][1], row):
                self.live.add((row, pairs))

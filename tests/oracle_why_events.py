"""Why the starts of an event pattern failed: brute force, on top of the oracle of the matches.

Every wait for an event is noted with where it ended and why. The attempt of a start is the partial
match with most events, of several the one with the earliest events; of what it waited for, that
after which the pattern needs the fewest events, and of equal waits the one that lasted longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.nodes import Gap, Policy
from ensue.query.query import Query, SkipMode
from ensue.query.sql import describe
from ensue.why.account import ORDER
from tests.oracle_sequences import Oracle, Pairs, Rest, State, _heads


@dataclass(frozen=True)
class _Wait:
    pairs: Pairs
    label: str
    need: int
    row: int
    reason: str
    missing: tuple[str, ...] = ()


class _Waits(Oracle):
    def __init__(self, query: Query, rows: list[dict[str, Any]]) -> None:
        super().__init__(query, rows)
        self.waits: list[_Wait] = []
        self.heads: set[tuple[float, int]] = set()
        # While everything fits: the events of a match, the fewest, of several the first by label.
        self._least: tuple[str, ...] | None = None
        self._searching = False
        self.reported = self.matches()

    def _need(self, label: str, state: State, rest: Rest) -> tuple[str, ...]:
        """The events more that the pattern needs, if all of them fit."""
        self._searching, self._least = True, None
        rest(State((*state.pairs, (label, -1))))
        self._searching = False
        assert self._least is not None
        return self._least[len(state.pairs) :]

    def _take(
        self,
        label: str,
        gap: Gap,
        state: State,
        rest: Rest,
        rivals: tuple[nodes.Node, ...],
        ending: tuple[str | None, bool, int, int] | None,
    ) -> None:
        if self._searching:
            if self._least is None or len(state.pairs) < len(self._least):
                rest(State((*state.pairs, (label, -1))))
            return
        need = self._need(label, state, rest)
        if not state.pairs:
            self.heads.add((len(need), self.query.labels.index(label)))
        else:
            row, reason = self._stop(label, gap, state, rivals, ending)
            self.waits.append(_Wait(state.pairs, label, len(need), row, reason, need))
        super()._take(label, gap, state, rest, rivals, ending)

    def _stop(
        self,
        label: str,
        gap: Gap,
        state: State,
        rivals: tuple[nodes.Node, ...],
        ending: tuple[str | None, bool, int, int] | None,
    ) -> tuple[int, str]:
        """Where a wait ends that takes no event, and why; that it takes none is not checked."""
        for row in range(state.last + 1, len(self.rows)):
            if not self._in_window(state.pairs[0][1], row):
                return row, "within"
            if gap.within is not None and self._time(row) - self._time(state.last) > gap.within:
                return row, "within"
            if self._forbidden(row, state):
                return row, "forbidden"
            first = row == state.last + 1 and state.not_next is not None
            if first and self._fits(str(state.not_next), row, state):
                return row, "forbidden"
            if state.greed is not None and self._fits(state.greed, row, state):
                return row, "forbidden"
            ended = ending is not None and ending[0] and self._fits(ending[0], row, state)
            if ended and ending is not None and ending[1]:
                return row, "forbidden"
            if gap.policy is not Policy.ANY and self._fits(label, row, state):
                return row, "forbidden"  # it fits, and `until` keeps it from being taken
            if gap.policy is Policy.STRICT:
                return row, self._strict(label, row, state, ending)
            rival = any(self._fits(head, row, state) for part in rivals for head in _heads(part))
            if gap.policy is Policy.NEXT and rival:
                return row, "forbidden"
        return len(self.rows), "end"

    def _strict(
        self, label: str, row: int, state: State, ending: tuple[str | None, bool, int, int] | None
    ) -> str:
        if ending is not None and 0 < ending[2] < ending[3]:
            return "repetition"
        for later in range(row + 1, len(self.rows)):
            if self._in_window(state.pairs[0][1], later) and self._fits(label, later, state):
                return "not adjacent"
        pairs = (*state.pairs, (label, row))
        parts = c.conjuncts(self.query.definition(label))
        values = [self._value(part, row, pairs) for part in parts]
        return "condition" if False in values else "null"

    def _complete(self, state: State) -> None:
        if self._searching:
            names = tuple(name for name, _ in state.pairs)
            known = self._least
            if known is None or self._rank(names) < self._rank(known):
                self._least = names
            return
        super()._complete(state)
        names = state.nots | ({state.not_next} if state.not_next else set())
        if not state.pairs or state.pairs in self.found or not names:
            return
        ordered = [name for name in self.query.labels if name in names]
        row, reason = state.last + 1, "end"
        while row < len(self.rows):
            if not self._in_window(state.pairs[0][1], row):
                reason = "within"
                break
            came = [name for name in ordered if self._fits(name, row, state)]
            if came or self._gone(row, state):
                ordered, reason = came or ordered, "forbidden"
                break
            row += 1
        self.waits.append(_Wait(state.pairs, f"!{ordered[0]}", 0, row, reason))

    def _rank(self, names: tuple[str, ...]) -> tuple[int, list[int]]:
        return len(names), [self.query.labels.index(name) for name in names]

    def attempt(self, start: int) -> dict[str, Any]:
        labels = self.query.labels
        mine = [wait for wait in self.waits if wait.pairs[0][1] == start]
        if not mine:
            name = labels[min(self.heads)[1]]
            return {"matched": [], "row": start, "variable": name, "reason": "no start"}
        deepest = max(len(wait.pairs) for wait in mine)
        paths = [wait.pairs for wait in mine if len(wait.pairs) == deepest]
        path = min(paths, key=lambda pairs: [(row, labels.index(name)) for name, row in pairs])

        def near(wait: _Wait) -> tuple[float, int]:
            return wait.need, -1 if wait.need == 0 else labels.index(wait.label)

        waits = [wait for wait in mine if wait.pairs == path]
        waits = [wait for wait in waits if near(wait) == min(map(near, waits))]
        wait = max(waits, key=lambda wait: (wait.row, -ORDER.index(wait.reason)))
        row = min(wait.row, len(self.rows) - 1)
        matched = [name for name, _ in path]
        told = {"matched": matched, "row": row, "variable": wait.label, "reason": wait.reason}
        return told | {"missing": list(wait.missing), "nearly": self._nearly(wait)}

    def _nearly(self, wait: _Wait) -> str | None:
        """Of the rows that a wait let pass: which parts held at most of them, and which did not."""
        if wait.reason not in ("end", "within") or wait.need == 0:
            return None
        parts = c.conjuncts(self.query.definition(wait.label))
        passed = []
        for row in range(wait.pairs[-1][1] + 1, wait.row):
            values = [self._value(part, row, (*wait.pairs, (wait.label, row))) for part in parts]
            held = [value is True for value in values]
            if any(held) and not all(held):
                passed.append((sum(held), row, held, values))
        if not passed:
            return None
        _, _, held, values = max(passed, key=lambda one: one[:2])
        count = sum(one[2] == held for one in passed)
        wrong = values.index(False) if False in values else values.index(None)
        told = " and ".join(describe(part) for part, fits in zip(parts, held, strict=True) if fits)
        at = "row, but" if count == 1 else "rows, but at the last of them"
        return f"; {told} held at {count} {at} {describe(parts[wrong])}"


def starts(
    query: Query, rows: list[dict[str, Any]], lacks: bool = False, texts: bool = False
) -> list[dict[str, Any]]:
    """What is to be said of every start row of a partition; with what it `lacks`, or in words."""
    oracle = _Waits(query, rows)
    order, labels = query.order_by[0].column, query.labels
    answers = []
    for start in range(len(rows)):
        own = [pairs for pairs in oracle.reported if pairs[0][1] == start]
        answer = {"row": start, "start": rows[start][order], "matches": len(own)}
        answer |= dict.fromkeys(("matched", "stopped_at", "variable", "reason"))
        before = [pairs for pairs in oracle.reported if pairs[0][1] < start]
        skips = query.skip.mode is not SkipMode.NONE
        if skips and any(oracle._resume(pairs) > start for pairs in before):
            answer |= {"matched": [], "stopped_at": rows[start][order], "reason": "consumed"}
        elif own:
            longest = min(
                own, key=lambda p: (-len(p), [(row, labels.index(name)) for name, row in p])
            )
            answer["matched"] = [name for name, _ in longest]
        else:
            attempt = oracle.attempt(start)
            answer["stopped_at"] = rows[attempt.pop("row")][order]
            missing, nearly = attempt.pop("missing", None), attempt.pop("nearly", None)
            if texts:
                answer["nearly"] = nearly
            answer |= attempt
            if lacks and missing is not None:
                answer["missing"] = missing
        answers.append(answer)
    return answers

"""Rows that were expected to match: the first rule they break, against brute force."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator.notices import Notices
from ensue.query import nodes
from ensue.query.query import Query, SkipMode
from ensue.run import why
from ensue.run.asked_rows import Expected
from tests import oracle
from tests.generate import short_streams, small_patterns, stream_query, stream_table
from tests.oracle import _find_matches, _in_window, _Match, _partitions, _skip
from tests.oracle_trace import OfEvents, _Ways
from tests.short_streams import rows_of, table
from tests.unit.test_sequences_exhaustive import CORRELATED, PATTERNS
from tests.unit.test_why_events import MORE

Pairs = tuple[tuple[str, int], ...]
Told = Callable[[Pairs], tuple[int, set[Any]]]


def asked(query: Query, data: pa.Table, key: int, pairs: Pairs) -> tuple[list[str], str | None]:
    wanted = Expected.of(query, "partition", pairs, None)
    (row,) = why.run_expected(query, data, wanted, key, Notices()).to_pylist()
    assert (row["text"] is None) == (row["reason"] is None)
    return row["matched"], row["reason"]


def check_alone(
    query: Query, data: pa.Table, key: int, rows: list[int], labels: list[str], told: Told
) -> Any:
    """Rows without labels: every way to label them is tried, and none gets farther."""
    ways = [tuple(zip(word, rows, strict=True)) for word in product(labels, repeat=len(rows))]
    verdicts = {way: told(way) for way in ways}
    whole = {way for way, (_, reasons) in verdicts.items() if None in reasons}
    most = max(taken for taken, _ in verdicts.values())
    wanted = Expected.of(query, "partition", rows, None)
    (row,) = why.run_expected(query, data, wanted, key, Notices()).to_pylist()
    where = f"{query.pattern}, {rows}: {row}"
    sure = {way for way in whole if verdicts[way][1] == {None}}
    if row["reason"] is None:
        assert tuple(zip(row["matched"], rows, strict=True)) in whole, where
        return None
    assert not sure, (where, sure)
    assert len(row["matched"]) == most, (where, most)
    allowed = set[Any]()
    for way, (taken, reasons) in verdicts.items():
        names = [name for name, _ in way]
        if taken == most and names[:most] == row["matched"]:
            told_of = most == len(rows) or row["variable"] in (None, "^", names[most])
            allowed |= reasons if told_of else set()
    assert row["reason"] in allowed, (where, allowed)
    return row["reason"]


# -- row patterns ---------------------------------------------------------------------------------


def of_rows(query: Query, partition: list[dict[str, Any]], pairs: Pairs) -> tuple[int, set[Any]]:
    """How many of the rows are taken, and the reasons that the definitions allow."""
    start, matches = pairs[0][1], _find_matches(query, partition)
    number = 1 + sum(m.start < start for m in matches)
    log = _Ways(query, partition, start, number).log
    for index, (label, row) in enumerate(pairs):
        word = tuple(name for name, _ in pairs[:index])
        if row != start + index:
            return index, {"not adjacent"}
        held = {value for before, name, value in log if (before, name) == (word, label)}
        if True in held:
            continue
        if held:
            return index, {"null" if None in held else "condition"}
        match = _Match(query, partition, start, number)
        for name in (*word, label):
            match = match.extended(name, False)
        return index, {"missing", "repetition", "no start"} | (
            {"within"} - {_in_window(match) and "within"}
        )
    words = tuple(label for label, _ in pairs)
    if (words, "", True) not in log:
        return len(pairs), {"missing", "repetition", "condition"}
    mine = [tuple(step.label for step in m.steps) for m in matches if m.start == start]
    used = any(m.start < start < _skip(m) for m in matches)
    return len(pairs), {"consumed" if used or mine[0] != words else None}


@pytest.mark.parametrize("definitions", ["disjoint", "overlap", "correlated"])
def test_row_patterns(definitions: str) -> None:
    chance = random.Random(7)
    data = stream_table(short_streams(4))
    parts = _partitions(stream_query(nodes.Label("A"), definitions), data.to_pylist())
    parts = [p for p in parts if len(p) > 2]
    seen = set()
    for pattern in [*small_patterns(3)[::19], *small_patterns(4)[::307]]:
        labels = sorted(set(nodes.labels(pattern)))
        for _ in range(12 if labels else 0):
            oracle._patience[0] = 10_000_000
            query = stream_query(pattern, definitions, chance.choice(list(SkipMode)[:2]))
            partition = chance.choice(parts)
            first, length = chance.randrange(2), chance.randint(1, 3)
            rows = sorted(
                chance.sample(range(first, len(partition)), min(length, len(partition) - first))
            )
            if chance.random() < 0.8:
                rows = list(range(rows[0], min(rows[0] + length, len(partition))))
            pairs = tuple((chance.choice(labels), row) for row in rows)
            taken, reasons = of_rows(query, partition, pairs)
            matched, reason = asked(query, data, partition[0]["stream"], pairs)
            where = f"{nodes.pattern_text(pattern)}, {query.skip}, {pairs}, {partition}"
            assert (matched, reason in reasons) == ([n for n, _ in pairs[:taken]], True), (
                where,
                reason,
                reasons,
            )
            seen.add(reason)
    assert {None, "missing", "condition", "not adjacent", "consumed"} <= seen


@pytest.mark.parametrize("definitions", ["disjoint", "overlap", "correlated"])
def test_rows_alone_are_labelled_as_gets_farthest(definitions: str) -> None:
    chance = random.Random(11)
    data = stream_table(short_streams(4))
    parts = _partitions(stream_query(nodes.Label("A"), definitions), data.to_pylist())
    parts = [p for p in parts if len(p) > 2]
    seen = set()
    for pattern in [*small_patterns(3)[::31], *small_patterns(4)[::613]]:
        labels = sorted(set(nodes.labels(pattern)))
        for _ in range(6 if labels else 0):
            oracle._patience[0] = 10_000_000
            query = stream_query(pattern, definitions, chance.choice(list(SkipMode)[:2]))
            partition = chance.choice(parts)
            first, length = chance.randrange(2), chance.randint(1, 3)
            rows = list(range(first, min(first + length, len(partition))))
            if chance.random() < 0.2:
                rows = sorted(chance.sample(range(len(partition)), 2))
            key = partition[0]["stream"]
            told = partial(of_rows, query, partition)
            seen.add(check_alone(query, data, key, rows, labels, told))
    assert {None, "condition", "not adjacent", "consumed"} <= seen


# -- event patterns -------------------------------------------------------------------------------


class _Visited(OfEvents):
    """Notes the partial matches that are reached."""

    def __init__(self, query: Query, rows: list[dict[str, Any]]) -> None:
        self.visited: set[Pairs] = {()}
        super().__init__(query, rows)

    def _complete(self, state: Any) -> None:
        if not self._searching:
            self.visited.add(state.pairs)
        super()._complete(state)

    def _take(self, label, gap, state, *rest) -> None:  # type: ignore[no-untyped-def]
        if not self._searching:
            self.visited.add(state.pairs)
        super()._take(label, gap, state, *rest)

    def told(self, pairs: Pairs) -> tuple[int, set[Any]]:
        taken = max(n for n in range(len(pairs) + 1) if pairs[:n] in self.visited)
        if pairs in self.reported:
            return len(pairs), {None}
        if pairs in self.found:
            return len(pairs), {"consumed"}
        if taken == len(pairs):
            return taken, {"missing", "repetition", "forbidden", "end"}
        before, (label, row) = pairs[:taken], pairs[taken]
        if not before:
            labels = {name for name in self.query.labels if (1, self.query.labels.index(name))}
            held = self.held(label, row, before)
            heads = {self.query.labels[index] for _, index in self.heads}
            if label not in heads:
                return 0, {"missing"}
            return 0, {"forbidden" if held else "null" if held is None else "condition"} | (
                {"forbidden"} if labels & set(self.query.without) else set()
            )
        waits = [wait for wait in self.waits if wait.pairs == before and wait.label == label]
        if not waits:
            return taken, {"missing", "repetition"}
        last = max(wait.row for wait in waits)
        if last < row or (last == row and self.held(label, row, before)):
            return taken, {wait.reason for wait in waits if wait.row == last}
        held = self.held(label, row, before)
        return taken, {"null" if held is None else "condition"} | {
            w.reason for w in waits if w.row == row
        }


EVENTS = table(["ABCAB", "AABBC", "ABXBC", "BACAC", "ABABC", "AXBCA", "CABBA", "AACB"])


def check(pattern: ensue.Pattern, chance: random.Random, tries: int = 2) -> set[Any]:
    query = pattern.partition_by("stream").order_by("id").query
    labels, seen = [n for n in query.labels if n not in query.unseen], set()
    for number, rows in rows_of(EVENTS).items():
        reference = _Visited(query, rows)
        near = sorted(reference.visited - {()})
        picked: list[Pairs] = list(chance.sample(near, min(tries, len(near))))
        picked += [
            (*p[:-1], (chance.choice(labels), p[-1][1] + 1))
            for p in picked
            if p[-1][1] + 1 < len(rows)
        ]
        picked += [
            (*p, (chance.choice(labels), row))
            for p in picked
            for row in range(p[-1][1] + 1, len(rows))
        ][:tries]
        picked.append(
            tuple(
                (chance.choice(labels), row) for row in sorted(chance.sample(range(len(rows)), 2))
            )
        )
        for pairs in picked:
            taken, reasons = reference.told(pairs)
            matched, reason = asked(query, EVENTS, number, pairs)
            where = f"{pattern}, {pairs} of {[r['kind'] for r in rows]}"
            assert matched == [n for n, _ in pairs[:taken]], (
                where,
                matched,
                reason,
                taken,
                reasons,
            )
            assert reason in reasons, (where, reason, reasons)
            seen.add(reason)
    return seen


def test_event_patterns() -> None:
    chance, seen = random.Random(3), set()
    for text in (PATTERNS + MORE)[::2]:
        seen |= check(ensue.pattern(text, types="kind"), chance)
        seen |= check(ensue.pattern(text, types="kind").within(2), chance, 1)
    for condition in CORRELATED[::2]:
        seen |= check(ensue.pattern("A ->> B+ ->> C", types="kind").define(B=condition), chance)
    for strategy in ("past last row", "to next row"):
        seen |= check(ensue.pattern("A ->> B+", types="kind").after_match(strategy), chance, 4)
    for text in ("A -> !X", "A ->> B+ -> !X", "A -> B !X"):
        seen |= check(ensue.pattern(text, types="kind").within(2), chance)
    seen |= check(ensue.pattern("A ->> B", types="kind").without(stop="kind = 'X'"), chance)
    assert {None, "missing", "condition", "within", "forbidden", "not adjacent", "consumed"} <= seen


def test_events_alone_are_labelled_as_gets_farthest() -> None:
    chance, seen = random.Random(5), set()
    for text in (PATTERNS + MORE)[::4]:
        for pattern in (
            ensue.pattern(text, types="kind"),
            ensue.pattern(text, types="kind").within(2),
        ):
            query = pattern.partition_by("stream").order_by("id").query
            labels = [n for n in query.labels if n not in query.unseen]
            for number, rows in list(rows_of(EVENTS).items())[::3]:
                reference = _Visited(query, rows)
                picked = [[row for _, row in p] for p in sorted(reference.found)[:2]]
                picked.append(sorted(chance.sample(range(len(rows)), 2)))
                for some in picked:
                    if len(labels) ** len(some) < 200:
                        seen.add(check_alone(query, EVENTS, number, some, labels, reference.told))
    assert {None, "condition"} <= seen


def test_rows_alone_by_order_value_and_beside_named_ones() -> None:
    pattern = ensue.pattern("A -> B", types="kind").partition_by("stream").order_by("id")
    for given in (
        {"rows": [0, 1]},
        {"events": [0, 1]},
        {"rows": [0, ("B", 1)]},
        {"rows": range(2)},
    ):
        (found,) = pattern.why(EVENTS, key=0, **given).to_pylist()
        assert (found["matched"], found["reason"]) == (["A", "B"], None), given
    (found,) = pattern.why(EVENTS, key=0, rows=[0, 1, 2]).to_pylist()
    assert (found["matched"], found["reason"]) == (["A", "B"], "repetition")
    assert (found["variable"], found["text"]) == (None, "the pattern takes no further event")


def test_too_many_ways_to_label_rows() -> None:
    loose = ensue.pattern("(A | B | C)+").order_by("id")
    data = pa.table({"id": list(range(12))})
    with pytest.raises(errors.LimitError, match="more than 1,000 ways"):
        loose.why(data, rows=range(12))


def test_what_names_no_rows() -> None:
    pattern = ensue.pattern("A -> B", types="kind").partition_by("stream").order_by("id")
    refused = [
        ({"rows": {"Z": 0}}, "no such variable"),
        ({"rows": {}}, "no row at all"),
        ({"rows": 7}, "cannot tell which rows"),
        ({"rows": {"A": 9}}, "names row 9, and the partition has the rows 0 to 4"),
        ({"events": {"A": 9}}, "no row of the partition has it"),
        ({"events": {"A": "x"}}, "not a value of 'id'"),
        ({"rows": {"A": 0, "B": 0}}, "row 0 as A and as B"),
        ({"rows": [0, 0]}, "row 0 twice"),
        ({"rows": "AB"}, "cannot tell which rows"),
        ({"rows": [("A", 0, 1)]}, "cannot tell which rows"),
        ({"rows": {"A": 0}, "events": {"A": 0}}, "one of rows=, events= and per="),
    ]
    for given, problem in refused:
        with pytest.raises(errors.EnsueError, match=problem):
            pattern.why(EVENTS, key=0, **given)
    with pytest.raises(errors.QueryError, match="names the partition of rows"):
        pattern.why(EVENTS, key=0)
    pairs = [{"label": "A", "row": 0}, {"label": "B", "row": 1}]
    (found,) = pattern.why(EVENTS, rows=pairs, key=0).to_pylist()
    assert (found["stream"], found["reason"], found["matches"]) == (0, None, 2)

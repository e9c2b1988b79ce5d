"""Workloads while rows arrive under a bound: what is refused, what is kept, what is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern


def q(text: str, **define: str) -> Pattern:
    found = ensue.pattern(text, types="kind").order_by("id").within(30)
    return found.define(**define) if define else found


def stream(count: int = 60, seed: int = 0, kinds: str = "ABCX") -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "kind": rng.choice(list(kinds), count),
            "x": rng.integers(0, 50, count),
        }
    )


def listed(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (m["pattern"], tuple((e["label"], e["row"]) for e in m["events"]))
        for m in found.to_pylist()
    )


def test_a_pattern_that_comes_is_held_to_the_rules_of_the_budget() -> None:
    table = stream()
    live = ensue.workload(a=q("A ->> B")).live(table.schema, ensue.Budget(work=2))
    with pytest.raises(errors.UnsupportedError, match="'k' cannot run under a budget"):
        live.revise(add={"k": q("A ->> C").after_match("past last row")})


def test_the_end_settles_a_trailing_negation_under_a_budget() -> None:
    table = stream(40, kinds="ABC")
    load = ensue.workload(no=q("A ->> B ->> !X"), ab=q("A ->> B"))
    ends = []
    for budget in (None, ensue.Budget(work=1e9)):
        live = load.live(table.schema, budget)
        pieces = [live.insert(table.slice(0, 25)), live.insert(table.slice(25)), live.end()]
        assert listed(pa.concat_tables(pieces)) == listed(load.matches(table, as_of="end"))
        ends.append(listed(pieces[-1]))
    assert ends[0] == ends[1] and len(ends[0]) > 5


@pytest.mark.parametrize("budget", [None, ensue.Budget(latency={"a": "1 s"}, work=1e9)])
@pytest.mark.parametrize(
    ("added", "says"),
    [
        (q("A ->> B", B="concat(kind, A.kind) = 'BA'"), "plain Python"),
        (q("A ->> B", B="x > A.missing"), "missing"),
        (q("A ->> B").partition_by("x"), "partitioned or ordered differently"),
        (ensue.pattern("A ->> B", types="kind").order_by("id").within("9 rows"), "window of time"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    budget: ensue.Budget | None, added: Pattern, says: str
) -> None:
    table = stream()
    load = ensue.workload(a=q("A ->> B ->> C"), b=q("A ->> B", B="x > A.x"))
    live = load.live(table.schema, budget)
    pieces = [live.insert(table.slice(0, 20))]
    with pytest.raises(errors.EnsueError, match=says):
        live.revise(add={"k": added})
    pieces += [live.insert(table.slice(20)), live.end()]
    assert listed(pa.concat_tables(pieces)) == listed(load.matches(table))


def test_an_evaluator_that_cannot_change_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream()
    load = ensue.workload(a=q("A ->> B ->> C"), b=q("A ->> B"))
    live = load.live(table.schema)
    pieces = [live.insert(table.slice(0, 20))]

    def fails(*_: object) -> None:
        raise errors.StateError("damaged")

    with monkeypatch.context() as broken:
        broken.setattr("ensue.shared.saved.restore_partition", fails)
        with pytest.raises(errors.StateError):
            live.revise(add={"k": q("A ->> C")}, remove=["b"])
    pieces += [live.insert(table.slice(20)), live.end()]
    assert listed(pa.concat_tables(pieces)) == listed(load.matches(table))


def test_a_pattern_that_replaces_another_under_its_name_begins_anew() -> None:
    table = pa.table({"id": range(4), "kind": list("AABC"), "x": [0] * 4})
    live = ensue.workload(a=q("A ->> A ->> B"), b=q("A ->> B")).live(table.schema)
    live.insert(table.slice(0, 2))
    live.revise(add={"a": q("A ->> B")}, remove=["a"])
    found = listed(live.insert(table.slice(2)))
    assert found == [("b", (("A", row), ("B", 2))) for row in (0, 1)]
    assert live.report.patterns["a"].found == 0


@pytest.mark.parametrize("trimmed", [False, True])
def test_rows_out_of_order_are_refused_and_leave_no_trace(trimmed: bool) -> None:
    def row(time: int, kind: str, user: int = 1) -> pa.Table:
        return pa.table({"id": [time], "u": [user], "kind": [kind]})

    load = ensue.workload(ab=q("A ->> B").partition_by("u"))
    live = load.live(row(0, "A").schema)
    live.insert(row(5, "X" if trimmed else "A"))
    with pytest.raises(errors.DataError, match=r"out of order.*'id': 3.*'id': 5"):
        live.insert(pa.concat_tables([row(9, "A", user=2), row(3, "B")]))
    found = [live.insert(row(5, "A")), live.insert(row(1, "B", user=2)), live.insert(row(6, "B"))]
    assert len(listed(pa.concat_tables(found))) == (1 if trimmed else 2)


def test_rows_arrive_in_a_descending_order_with_nulls_last() -> None:
    down = ensue.pattern("A ->> B", types="kind").order_by("id desc nulls last")
    schema = pa.schema({"id": pa.int64(), "kind": pa.string()})

    def row(time: int | None, kind: str) -> pa.Table:
        return pa.table({"id": [time], "kind": [kind]}, schema=schema)

    live = ensue.workload(ab=down).live(schema)
    assert live.insert(row(5, "A")).num_rows == 0
    assert live.insert(row(3, "B")).num_rows == 1
    assert live.insert(row(None, "B")).num_rows == 1
    with pytest.raises(errors.DataError, match="out of order"):
        live.insert(row(2, "B"))


def users(count: int) -> pa.Table:
    users = np.random.default_rng(5).integers(0, 3, count)
    return stream(count).append_column("u", pa.array(users))


def test_a_bound_on_one_pattern_leaves_other_groups_alone() -> None:
    table = users(200)
    rows = ensue.pattern("A B").define(A="kind = 'A'", B="kind = 'B'").order_by("id")
    load = ensue.workload(
        a=q("A ->> B"),
        b=q("A ->> C").partition_by("u"),
        first=q("A ->> C").partition_by("u").after_match("past last row").within("9 rows"),
        rows=rows,  # skips past the last row, so that no start row could be shed
    )
    found = load.matches(table, ensue.Budget(latency={"a": "1 s"}))
    assert listed(found) == listed(load.matches(table))
    with pytest.raises(errors.QueryError, match="'zz'"):
        load.matches(table, ensue.Budget(latency={"zz": "1 s"}))


def test_a_bound_of_a_pattern_goes_with_it() -> None:
    table = stream()
    load = ensue.workload(a=q("A ->> B"), b=q("A ->> C"))
    live = load.live(table.schema, ensue.Budget(latency={"a": "1 s"}))
    pieces = [live.insert(table.slice(0, 20)).slice(0, 0)]
    live.revise(remove=["a"])
    pieces += [live.insert(table.slice(20)), live.end()]
    whole = ensue.workload(b=q("A ->> C")).matches(table)
    later = [m for m in listed(whole) if m[1][-1][1] >= 20]  # type: ignore[index]
    assert listed(pa.concat_tables(pieces)) == later


@pytest.mark.compiled
def test_groups_share_the_bound() -> None:
    table = users(3000)
    load = ensue.workload(a=q("A ->> B ->> C"), b=q("A ->> B ->> C").partition_by("u"),
                          weights={"a": 3})  # fmt: skip
    load.matches(table)
    assert load.report is not None
    needed = load.report.work / 3000
    assert load.report.rows == 3000
    load.matches(table, ensue.Budget(work=needed / 2))
    assert load.report.rows == 3000
    assert load.report.work / 3000 <= needed / 2
    found = load.matches(table, ensue.Budget(work=4 * needed))
    assert listed(found) == listed(load.matches(table))


def test_the_report_outlives_a_change_and_the_end() -> None:
    table = stream(300)
    load = ensue.workload(a=q("A ->> B ->> C"), b=q("A ->> B"), c=q("A ->> C"))
    live = load.live(table.schema, ensue.Budget(work=6))
    live.insert(table.slice(0, 200))
    before = live.report
    live.revise(add={"new": q("B ->> C")}, remove=["b"])
    after = live.report
    assert set(after.patterns) == {"a", "c", "new"}
    for name in ("a", "c"):
        assert after.patterns[name].found == before.patterns[name].found > 0
        assert after.patterns[name].lost == pytest.approx(before.patterns[name].lost)
    assert before.patterns["a"].lost > 0 and after.patterns["a"].recall < 1
    assert after.patterns["new"].lost == after.patterns["new"].found == 0
    assert (after.rows, after.work, after.shed) == (200, before.work, before.shed)
    live.insert(table.slice(200))
    held = live.report
    live.end()
    over = live.report
    assert over.rows == 300 and over.most_records >= held.most_records > 0
    assert over.shed >= held.shed > before.shed
    assert over.created >= held.created > 0 and over.selections >= held.selections > 0

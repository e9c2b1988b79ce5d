"""Bad input to automata: each a named error, or a row in the error output; the operator goes on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors

EVENTS = {"ts": "bigint", "kind": "string", "x": "bigint"}


def automaton(**given: Any) -> ensue.Automaton:
    return (
        ensue.Automaton({"n": "int"}, order_by="ts", **given)
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"}, name="first")
        .arc("q1", "q2", when="kind = 'b'", name="second")
        .final("q2")
    )


def events(*rows: tuple[Any, str, int]) -> pa.Table:
    ts, kind, x = zip(*rows, strict=True)
    return pa.table({"ts": pa.array(ts, pa.int64()), "kind": list(kind), "x": list(x)})


A, B = (1, "a", 0), (2, "b", 0)


def still_works(matcher: Any) -> None:
    assert matcher.insert(events((100, "a", 0), (101, "b", 0)))["op"].to_pylist() == ["+"]


def reasons(matcher: Any) -> list[str]:
    found: list[str] = matcher.rejected["reason"].to_pylist()
    return found


def test_retraction_of_an_event_never_seen() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A))
    assert matcher.retract(events(B)).num_rows == 0
    assert reasons(matcher) == ["retraction of an event that was never seen"]
    still_works(matcher)


def test_retraction_twice() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A, B))
    assert matcher.retract(events(B))["op"].to_pylist() == ["-"]
    assert matcher.retract(events(B)).num_rows == 0
    assert reasons(matcher) == ["the event was already retracted"]
    still_works(matcher)


def test_retraction_of_a_finalised_event() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A, B))
    matcher.advance(50)
    assert matcher.retract(events(B)).num_rows == 0
    assert reasons(matcher) == ["retraction of an event older than the watermark: it is final"]
    still_works(matcher)


def test_event_older_than_the_watermark() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A))
    matcher.advance(50)
    assert matcher.insert(events(B)).num_rows == 0
    assert matcher.late.to_pylist() == events(B).to_pylist()
    assert matcher.metrics.late == 1
    still_works(matcher)


def test_equal_timestamps_are_ordered_by_content_or_refused() -> None:
    rows = events((1, "a", 0), (1, "b", 1), (1, "b", 0))
    nets = set()
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        matcher = automaton().matcher(debug=True)
        net = set()
        for row in order:
            for change in matcher.insert(rows.take([row])).to_pylist():
                (net.add if change["op"] == "+" else net.remove)(change["match_id"])
        nets.add(frozenset(net))
    assert len(nets) == 1
    matcher = automaton().matcher(debug=True, equal_times="reject")
    matcher.insert(rows)
    assert reasons(matcher) == ["there is already an event with this timestamp"] * 2
    still_works(matcher)


def test_equal_timestamps_with_a_tie_breaker() -> None:
    for order in ([0, 1], [1, 0]):
        matcher = automaton(tie="x").matcher(debug=True)
        rows = events((1, "a", 0), (1, "b", 1))
        found = [c for row in order for c in matcher.insert(rows.take([row])).to_pylist()]
        assert [c["op"] for c in found] == ["+"]


def test_empty_lifetime() -> None:
    matcher = automaton(until="x").matcher(debug=True)
    matcher.insert(events((1, "a", 1), (2, "a", 9), (3, "b", 9)))
    assert reasons(matcher) == ["the lifetime is empty: it ends at or before its beginning"]
    assert matcher.partials == 2


def test_null_time() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events((None, "a", 0), A))
    assert reasons(matcher) == ["the event time is null"]
    still_works(matcher)


def test_sequence_number_that_is_taken_or_against_time() -> None:
    matcher = automaton(sequence="x").matcher(debug=True)
    matcher.insert(events((1, "a", 1), (2, "b", 1), (9, "a", 3), (8, "b", 4)))
    assert reasons(matcher) == [
        "there is already an event with this sequence number",
        "the sequence number rises while the time falls",
    ]


def test_arc_from_an_unknown_state() -> None:
    broken = automaton().arc("q7", "q2")
    with pytest.raises(errors.UnknownStateError, match="q7"):
        broken.matches(events(A, B))
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A))
    with pytest.raises(errors.UnknownStateError, match="q7"):
        matcher.revise(add={"new": {"source": "q7", "target": "q2"}})
    still_works(matcher)


def test_register_field_that_does_not_exist() -> None:
    with pytest.raises(errors.UnknownRegisterError, match="'m'"):
        automaton().arc("q1", "q2", set={"m": "1"})
    with pytest.raises(errors.UnknownRegisterError, match="'m'") as caught:
        automaton().arc("q1", "q2", when="register.m > 1")
    assert caught.value.column == 10
    with pytest.raises(errors.UnknownColumnError, match="'m'"):
        automaton(events=EVENTS).arc("q1", "q2", when="m > 1")


def test_fence_that_is_not_boolean() -> None:
    with pytest.raises(errors.ColumnTypeError, match="boolean is expected"):
        automaton(events=EVENTS).arc("q1", "q2", when="x + 1")
    with pytest.raises(errors.ColumnTypeError, match="boolean is expected"):
        automaton().arc("q1", "q2", when="x + 1").matches(events(A, B))


@pytest.mark.parametrize("value", ["'text'", "x", "1.5", "kind"])
def test_transfer_of_the_wrong_type(value: str) -> None:
    with pytest.raises(errors.ColumnTypeError, match="sets n"):
        automaton(events=EVENTS).arc("q1", "q2", set={"n": value})


def test_removal_of_the_last_final_state() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A))
    with pytest.raises(errors.NoFinalStateError, match="last arc to a final state"):
        matcher.revise(remove="second")
    still_works(matcher)
    with pytest.raises(errors.NoFinalStateError):
        ensue.Automaton().arc("q0", "q1").matches(events(A))
    with pytest.raises(errors.UnknownArcError, match="'none'"):
        matcher.revise(remove="none")


def test_silent_cycle() -> None:
    looped = automaton().arc("q1", "q3", epsilon=True).arc("q3", "q1", epsilon=True)
    with pytest.raises(errors.EmptyCycleError, match="q1 -> q3 -> q1"):
        looped.matches(events(A, B))
    with pytest.raises(errors.QueryError, match="consumes none"):
        automaton().arc("q1", "q2", when="x > 1", epsilon=True)


def test_other_events_cannot_be_read() -> None:
    for text in ("first(x) > 1", "sum(x) > 1", "prev(x) > 1"):
        with pytest.raises(errors.EnsueError):
            automaton().arc("q1", "q2", when=text)


def test_arithmetic_that_fails_is_a_rejected_row() -> None:
    made = (
        ensue.Automaton({"n": "bigint"}, order_by="ts")
        .arc("q0", "q1", when="kind = 'a'", set={"n": "9223372036854775807"})
        .arc("q1", "q2", when="kind = 'b'", set={"n": "n + 1"})
        .final("q2")
    )
    matcher = made.matcher(debug=True)
    assert matcher.insert(events(A, B)).num_rows == 0
    assert "a number left 64 bits" in reasons(matcher)[0]


def test_python_function_that_raises_is_a_rejected_row() -> None:
    made = automaton().arc("q1", "q3", when=lambda event, register: 1 // 0 > 0, name="mine")
    matcher = made.matcher(debug=True)
    assert matcher.insert(events(A, B))["op"].to_pylist() == ["+"]
    assert "ZeroDivisionError" in reasons(matcher)[0]


def test_lifetimes() -> None:
    matcher = automaton().matcher(debug=True)
    matcher.insert(events(A, B))
    matcher.advance(50)
    new = {"new": {"source": "q1", "target": "q2"}}
    with pytest.raises(errors.LifetimeError, match="final"):
        matcher.revise(add=new, since=10)
    with pytest.raises(errors.LifetimeError, match="empty"):
        matcher.revise(add=new, since=70, till=60)
    lean = automaton().matcher(debug=True, keep_rows=False)
    lean.insert(events(A, B))
    with pytest.raises(errors.UnsupportedError, match="triggering sets"):
        lean.revise(add=new, since=1)


def test_reserved_names_and_foreign_state() -> None:
    with pytest.raises(errors.ReservedNameError, match="'last'"):
        ensue.Automaton({"last": "int"})
    with pytest.raises(errors.StateError):
        automaton().restore(b"nonsense")
    matcher = automaton().matcher()
    matcher.insert(events(A))
    other = ensue.Automaton({"m": "int"}, order_by="ts").arc("q0", "q1").final("q1")
    with pytest.raises(errors.StateError, match="another query"):
        other.restore(matcher.snapshot())


# -- limits ---------------------------------------------------------------------------------------


def forking(**given: Any) -> ensue.Automaton:
    """Each event doubles the partial matches, no two of which have the same register."""
    return (
        ensue.Automaton({"n": "bigint"}, order_by="ts", **given)
        .arc("q0", "q1", when="kind = 'a'", set={"n": "x"})
        .arc("q1", "q1", when="kind = 'a'", set={"n": "2 * n"})
        .arc("q1", "q1", when="kind = 'a'", set={"n": "2 * n + 1"})
        .arc("q1", "q2", when="kind = 'b'")
        .final("q2")
    )


def alike(count: int) -> pa.Table:
    return events(*((time, "a", 1) for time in range(1, count + 1)))


def test_an_automaton_that_forks_meets_a_limit() -> None:
    """Thousands of rows could have 2 ** 3,000 partial matches: a second and little memory."""
    with pytest.raises(errors.LimitError, match=r"more than 16,384 .* begin with one event") as met:
        forking().matches(alike(3_000))
    assert "limits.MAX_OF_START" in str(met.value) and "within=" in str(met.value)
    assert forking(within=8).matches(alike(100)).num_rows == 0


@pytest.mark.parametrize("given", [{}, {"within": 1_000}, {"partition_by": "x"}])
@pytest.mark.parametrize("step", ["in order", "late", "corrected", "revised", "held back"])
def test_each_call_of_a_matcher_meets_the_limit(
    step: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = alike(9)
    held: dict[str, Any] = {"speculation": 0} if step == "held back" else {}
    matcher = forking(**given).matcher(table.schema, **held)
    if step == "late":
        matcher.insert(events(*((time, "a", 1) for time in (1, 2, 3, 5, 6, 7, 8, 9))))
        table = events((4, "a", 1))
    elif step == "corrected":  # what stood between two halves goes
        matcher.insert(pa.concat_tables([table.slice(0, 4), events((5, "c", 1)), table.slice(5)]))
        table = events((5, "c", 1))
    elif step == "revised":
        matcher.insert(events(*((time, "c", 1) for time in range(1, 10))))
    elif step == "held back":
        matcher.insert(table)
    monkeypatch.setattr("ensue.revision.limits.MAX_PARTIALS", 200)
    before = matcher.snapshot()
    with pytest.raises(errors.LimitError, match="more than 200 partial matches are held"):
        if step == "corrected":
            matcher.retract(table)
        elif step == "revised":
            onward = dict(source="q1", target="q1", when="kind = 'c'")
            matcher.revise(
                add={
                    "begin": dict(source="q0", target="q1", when="kind = 'c'", set={"n": "x"}),
                    "even": onward | {"set": {"n": "2 * n"}},
                    "odd": onward | {"set": {"n": "2 * n + 1"}},
                },
                since=1,
            )
        elif step == "held back":
            matcher.advance(100)
        else:
            matcher.insert(table)
    with pytest.raises(errors.StateError, match="restore the last snapshot"):
        matcher.insert(events((20, "b", 1)))
    monkeypatch.undo()
    again = forking(**given).restore(before, **held)
    assert again.advance(100).num_rows == 0


def test_keys_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    table = events(*((time, "a", key) for time in range(1, 5) for key in range(10)))
    automaton = forking(partition_by="x")
    matcher = automaton.matcher(table.schema)
    monkeypatch.setattr("ensue.revision.limits.MAX_PARTIALS", 200)
    with pytest.raises(errors.LimitError, match="more than 200 partial matches are held"):
        matcher.insert(table)
    monkeypatch.setattr("ensue.revision.limits.MAX_PARTIALS", 300)
    assert automaton.matcher(table.schema).insert(table).num_rows == 0


def test_a_table_lets_go_of_the_past_before_it_meets_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All events held at once would be too many partial matches; those still open are few."""
    counting = (
        ensue.Automaton({"n": "int"}, order_by="ts", within=5)
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
        .arc("q1", "q1", when="kind = 'a'", set={"n": "n + 1"})
        .arc("q1", "q2", when="kind = 'b'")
        .final("q2")
    )
    table = pa.concat_tables([alike(2_000), events((2_001, "b", 0))])
    expected = counting.matches(table)
    monkeypatch.setattr("ensue.revision.limits.MAX_PARTIALS", 1_000)
    assert counting.matches(table) == expected and expected.num_rows == 5
    with pytest.raises(errors.LimitError, match="advance the watermark"):
        counting.matcher(table.schema).insert(table)


def test_matches_and_ways_meet_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    every = ensue.Automaton({"n": "int"}, order_by="ts").arc("q0", "q1", when="kind = 'a'")
    every = every.arc("q1", "q1", when="kind = 'c'").arc("q1", "q1", when="x = 1").final("q1")
    table = pa.concat_tables([alike(20), events((30, "c", 0))])
    assert every.matches(table).num_rows == 230
    with monkeypatch.context() as patch:
        patch.setattr("ensue.operator.listing.MAX_MATCHES", 200)
        with pytest.raises(errors.LimitError, match="more than 200 matches"):
            every.matches(table)
        with pytest.raises(errors.LimitError, match="more than 200 matches"):
            every.matcher(table.schema).insert(table)
    with monkeypatch.context() as patch:
        patch.setattr("ensue.operator.protocol.MAX_OUTPUT", 1 << 10)
        with pytest.raises(errors.LimitError, match="the answer needs more than"):
            every.matches(table)
    monkeypatch.setattr("ensue.revision.limits.MAX_DERIVATIONS", 10)
    ways = ensue.Automaton({"n": "int"}, order_by="ts").arc("q0", "q1", when="kind = 'a'")
    ways = ways.arc("q1", "q1", when="kind = 'c'").arc("q1", "q2", when="kind = 'a'").final("q2")
    with pytest.raises(errors.LimitError, match="ways from one partial match"):
        ways.matches(pa.concat_tables([events((0, "a", 0), (0, "c", 0)), table]))

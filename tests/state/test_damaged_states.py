"""What users restore is refused where it was changed or cut: never loaded, never a crash.

Each kind of state by itself is held to that in `test_kinds`. States written before there were
checksums (the files of version 1) have none and load.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator import state
from ensue.query.stored import Fingerprint
from ensue.rows.evaluator import KIND as ROWS
from tests.state.damage import damaged

EVENTS = pa.table({"k": ["a", "b"] * 4, "t": range(8), "kind": list("ABBABAAB"), "x": range(8)})
PAIR = ensue.pattern("A -> B", types="kind").partition_by("k").order_by("t").within(5)
FALL = ensue.pattern("A B+", types="kind").partition_by("k").order_by("t")
COUNT = (
    ensue.Automaton({"n": "bigint"}, order_by="t", partition_by="k", within=5)
    .arc("q0", "q1", when="kind = 'A'", set={"n": "x"})
    .arc("q1", "q2", when="kind = 'B'")
    .final("q2")
)


def _taken(matcher: Any) -> bytes:
    matcher.insert(EVENTS)
    blob = matcher.snapshot()
    assert isinstance(blob, bytes)
    return blob


# Taken in the test: what runs at import compiles its kernels in every process that collects.
STATES: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Any]]] = {
    "rows": (lambda: _taken(FALL.matcher()), ensue.restore),
    "events": (lambda: _taken(PAIR.matcher()), ensue.restore),
    "automaton": (lambda: _taken(COUNT.matcher()), COUNT.restore),
    "summary": (lambda: PAIR.summarize(EVENTS, size=3).snapshot(), ensue.restore),
}


@pytest.mark.parametrize("name", STATES)
def test_a_flipped_bit_or_a_lost_end_is_found(name: str) -> None:
    take, load = STATES[name]
    blob = take()
    load(blob)
    for given in damaged(blob, name, cuts=40, flips=120):
        with pytest.raises(errors.StateError, match="damaged") as caught:
            load(given)
        assert "start afresh" in caught.value.remedy


@pytest.mark.parametrize("given", [b"", b"junk", b"ensue sum:1234", "text", None])
def test_what_is_no_state_is_refused(given: Any) -> None:
    with pytest.raises(errors.StateError, match="damaged"):
        state.from_bytes(ROWS, given)


def test_a_state_without_a_checksum_is_looked_through() -> None:
    """Written before there were any: lengths that lead out of the bytes are found."""
    blob = (Path(__file__).parent / "rows_v1.arrow").read_bytes()
    table, _ = state.from_bytes(ROWS, blob, _query_of(blob))
    assert table.num_rows == 3
    chance = random.Random(1)
    for _ in range(2000):
        flipped = bytearray(blob)
        flipped[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
        try:
            state.from_bytes(ROWS, bytes(flipped), _query_of(blob))
        except errors.StateError as problem:
            assert problem.remedy


def _query_of(blob: bytes) -> Fingerprint:
    return Fingerprint("", earlier=state._opened(blob)[1]["query"])

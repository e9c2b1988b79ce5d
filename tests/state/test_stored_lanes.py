"""A lane's state as version 1 wrote it still loads, and the stream goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.run.lanes import state as lane_state
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import Work
from ensue.run.lanes.works import matches_work
from tests.lanes import streams

FOLDER = Path(__file__).parent
COUNT, CUT, MARK = 12, 8, 6
TABLE = pa.table(
    {
        "k": ["a", "b"] * 6,
        "ts": pa.array(
            streams.EPOCH + np.arange(COUNT) * streams.SECOND, pa.timestamp("us", "UTC")
        ),
        "kind": list("AABBBBCCABBC"),
    }
)
PATTERNS: dict[str, Any] = {
    "rows": ensue.pattern("A B+ C", types="kind"),
    "events": ensue.pattern("A -> B+ -> C", types="kind").within("9 seconds"),
}
DESCRIPTION = {"lanes": "1", "pattern": "the pattern of the test"}


def _work(name: str) -> tuple[Work, pa.Table, Any]:
    pattern = PATTERNS[name].partition_by("k").order_by("ts")
    planned, ready = streams.streamed(pattern.query, TABLE)
    arguments = (ready.schema, "ts", streams.settings(), DESCRIPTION)
    if name == "rows":
        return matches_work(planned, None, *arguments), ready, pattern
    return matches_work(planned, None, *arguments), ready, pattern


def _mark(second: int) -> int:
    return streams.EPOCH + second * streams.SECOND


def _half(name: str) -> tuple[bytes, list[dict[str, Any]]]:
    """The state with rows settled, rows pending and a match in the making."""
    work, ready, _ = _work(name)
    lane = Lane(work, 0)
    found = [row for part in lane.step([ready.slice(0, CUT)], None) for row in part.to_pylist()]
    found += [row for part in lane.step([], _mark(MARK)) for row in part.to_pylist()]
    blob = lane.save()
    assert blob is not None
    return blob, found


STORED = sorted(FOLDER.glob("lane_*_v*.arrow"))


@pytest.mark.parametrize("path", STORED, ids=lambda p: p.stem)
def test_a_stored_state_goes_on(path: Path) -> None:
    name = path.stem.split("_")[1]
    work, ready, pattern = _work(name)
    _, found = _half(name)
    lane = Lane(work, 0)
    lane.load(path.read_bytes())
    rest = lane.step([ready.slice(CUT)], _mark(MARK), (streams.CLOSE,))
    found += [row for part in rest for row in part.to_pylist()]
    wanted = pattern.matches(TABLE).to_pylist()
    for row in (*found, *wanted):
        del row["match_number"]
    assert sorted(map(str, found)) == sorted(map(str, wanted)) != []


def test_a_setting_that_an_earlier_version_did_not_know_is_no_difference() -> None:
    blob = lane_state.to_bytes({"part": b"x"}, {"lanes": "1"})
    assert lane_state.from_bytes(blob, {"lanes": "1", "new": "2"}).state("part") == b"x"

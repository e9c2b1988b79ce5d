"""Why rows play no part in a matcher: what it gathered as late and rejected, and what it shed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.run.matcher import Matcher

SCHEMA = pa.schema([("user", pa.int64()), ("ts", pa.int64()), ("kind", pa.string())])
PATTERN = ensue.pattern("a ->> b", types="kind").partition_by("user").order_by("TS").within(50)


def rows(*given: tuple[int, int | None, str]) -> pa.Table:
    return pa.table([list(column) for column in zip(*given, strict=True)], SCHEMA)


def test_late_and_rejected_rows() -> None:
    matcher = PATTERN.matcher()
    assert matcher.why().column_names == ["reason", "text"]
    matcher.insert(rows((1, 7, "a"), (1, None, "b")))
    matcher.advance(9)
    matcher.insert(rows((1, 8, "b"), (2, 9, "a"), (2, 3, "b")))
    matcher.retract(rows((2, 20, "a")))
    told = matcher.why()
    assert [tuple(row.values()) for row in told.to_pylist()][:2] == [
        (1, 8, "b", "late", "ts = 8: the watermark had passed it"),
        (2, 3, "b", "late", "ts = 3: the watermark had passed it"),
    ]
    refused = told.slice(2).to_pylist()
    assert [row["text"] for row in refused] == matcher.rejected["reason"].to_pylist()
    assert {row["reason"] for row in refused} == {"rejected"}
    assert told.num_rows == matcher.metrics.late + matcher.metrics.rejected > 3
    again = ensue.restore(matcher.snapshot())
    assert again.why() == told
    again.take_late(), again.take_rejected()
    assert again.why().num_rows == 0


def test_what_a_budget_shed(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = PATTERN.matcher(schema=SCHEMA)
    counted = replace(matcher.metrics, shed=1200)
    monkeypatch.setattr(Matcher, "metrics", property(lambda self: counted))
    (row,) = matcher.why().to_pylist()
    assert row == {
        "user": None, "ts": None, "kind": None, "reason": "shed",
        "text": "1,200 extensions of partial matches were not made",
    }  # fmt: skip


def test_a_column_of_that_name() -> None:
    matcher = PATTERN.matcher(schema=SCHEMA.append(pa.field("text", pa.string())))
    with pytest.raises(errors.DuplicateNameError, match="'text'"):
        matcher.why()

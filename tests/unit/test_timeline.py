"""Time lines of matches: drawn for any order column, repeatable, refusing what they cannot show."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue.draw import timeline
from ensue.draw.timeline import draw_timeline

LABELLED = pa.list_(pa.struct([("label", pa.string()), ("row", pa.int64())]))


def listing(rows: list[tuple[Any, int, str, list[int]]]) -> pa.Table:
    """(partition, match number, labels, row numbers); first and last are not drawn."""
    return pa.table(
        {
            "k": [key for key, _, _, _ in rows],
            "match_number": [number for _, number, _, _ in rows],
            "first": [0 for _ in rows],
            "last": [0 for _ in rows],
            "events": pa.array(
                [
                    [{"label": a, "row": r} for a, r in zip(labels, at, strict=True)]
                    for _, _, labels, at in rows
                ],
                LABELLED,
            ),
        }
    )


EVENTS = pa.table(
    {
        "k": ["$a_1$", "$a_1$", "b", None, "$a_1$", "b"],
        "t": [3, 1, 1, 1, 2, 2],
        "price": [2.5, 3.0, None, 1.0, 1.0, 4.0],
        "name": ["x", "y", "z", "x", "y", "z"],
    }
)
MATCHES = listing([("$a_1$", 1, "AB", [0, 1]), ("$a_1$", 2, "A_", [1, 2]), ("b", 1, "A", [1])])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize("value", [None, "price"])
def test_drawn_and_repeatable(tmp_path: Path, suffix: str, value: str | None) -> None:
    written = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}{suffix}"
        draw_timeline(EVENTS, MATCHES, partition="k", order="t", value=value, path=path)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) > 1_000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([dt.datetime(2026, 1, 1, h, tzinfo=dt.UTC) for h in range(6)]),
        pa.array([dt.date(2026, 1, d) for d in range(1, 7)]),
        pa.array([1.5, None, 2.5, 3.5, 4.5, 5.5]),
        pa.array(list("abcdef")),
    ],
    ids=["timestamp", "date", "double with null", "text"],
)
def test_any_order_column(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "t.png"
    events = EVENTS.set_column(1, "t", column)
    draw_timeline(events, MATCHES, partition="k", order="t", value=None, path=path)
    draw_timeline(events, MATCHES, partition=None, order="t", path=path, descending=True)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_matches_and_no_events(tmp_path: Path) -> None:
    path = tmp_path / "t.png"
    empty = MATCHES.slice(0, 0)
    draw_timeline(EVENTS, empty, partition="k", order="t", value="price", path=path)
    draw_timeline(EVENTS.slice(0, 0), empty, partition="k", order="t", value="price", path=path)
    assert path.exists()


def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[str] = []
    original = timeline._title

    def title(*arguments: Any) -> str:
        titles.append(original(*arguments))
        return titles[-1]

    monkeypatch.setattr(timeline, "_title", title)
    many = timeline.MAX_LANES + 5
    rows = timeline.MAX_ROWS + 1
    events = pa.table({"k": [*range(many), *([3] * rows)], "t": list(range(many + rows))})
    matches = listing([(many - 1, 1, "A", [0]), (3, 1, "A", [rows - 1])])
    draw_timeline(events, matches, partition="k", order="t", path=tmp_path / "t.png")
    assert titles == ["2 matches, 20 of 25 partitions, the first 2,000 rows of each"]


def test_partitions_with_matches_come_first() -> None:
    assert timeline._lanes(EVENTS, MATCHES.slice(2), "k") == ["b", "$a_1$", None]


@pytest.mark.parametrize("name", ["partition", "order", "value"])
def test_unknown_columns_are_refused(tmp_path: Path, name: str) -> None:
    names = {"partition": "k", "order": "t", "value": "price"} | {name: "none_such"}
    with pytest.raises(errors.UnknownColumnError, match="'none_such'; they have k, t, price"):
        draw_timeline(EVENTS, MATCHES, path=tmp_path / "t.png", **names)


def test_a_value_must_be_a_number(tmp_path: Path) -> None:
    with pytest.raises(errors.ColumnTypeError, match="'name' is of type string"):
        draw_timeline(EVENTS, MATCHES, partition="k", order="t", value="name", path=tmp_path / "t")


def test_matches_with_measures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UnknownColumnError, match="no column 'events'"):
        draw_timeline(
            EVENTS,
            MATCHES.drop_columns("events"),
            partition="k",
            order="t",
            path=tmp_path / "t.png",
        )


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"\.bmp is not one of"):
        draw_timeline(EVENTS, MATCHES, partition="k", order="t", path=tmp_path / "t.bmp")

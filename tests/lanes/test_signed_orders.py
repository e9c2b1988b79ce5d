"""Orders that are signed, forged, changed, moved, or not signed at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import ensue
from ensue import errors
from ensue.run.spark.control import Control, signed
from ensue.run.spark.stream_options import StreamOptions
from tests.lanes import streams
from tests.lanes.test_edits import FALL, PLAIN, Stream, asked, rows, sql, work_of

SECRET = b"0123456789abcdef"
NAME, EDIT = "00000001-fall.sql", sql(PLAIN.replace("kind = 'C'", "kind = 'D'"))
GOOD = f"{NAME}\n{signed(NAME, EDIT, SECRET)}"
END = "00000009-stream.end"


def answers(order: str, end: str = f"{END}\n{signed(END, 'end', SECRET)}") -> tuple[list[int], int]:
    """The versions of what is found, and how many orders were refused."""
    table = rows("ABBDABC")
    stream = Stream(work_of(FALL, secret=SECRET)).step(table.slice(0, 3), 0)
    stream.step(None, 3, order).step(table.slice(3), 3).step(None, 3, end)
    return [row["version"] for row in stream.found], stream.bad


def test_a_signed_order_is_carried_out() -> None:
    assert answers(GOOD) == ([1], 0)


@pytest.mark.parametrize(
    "order",
    [
        f"{NAME}\n{EDIT}",
        f"{NAME}\n{signed(NAME, EDIT, b'another secret of 16')}",
        GOOD.replace("'D'", "'E'"),
        GOOD.replace("00000001", "00000002"),
        GOOD.replace(".sql", ".json"),
        GOOD.rstrip("\n")[:-1],
        GOOD.rstrip("\n")[:-1] + "\u00e9\ud800",
        f"{GOOD}DROP",
        f"{NAME}\n",
        "",
    ],
)
def test_any_other_is_refused_and_the_stream_goes_on(order: str) -> None:
    assert answers(order) == ([0], 1)


def test_an_end_without_a_signature_does_not_end_a_stream() -> None:
    assert answers(GOOD, streams.CLOSE) == ([], 1)


def test_control_signs_whatever_it_writes(tmp_path: Path) -> None:
    control = Control(tmp_path, secret=SECRET.decode())
    pair = asked(ensue.pattern("A B", types="kind"))
    paths = [control.put("fall", EDIT), control.put("pair", pair), control.drop("fall")]
    orders = [f"{path.name}\n{path.read_text()}" for path in [*paths, control.end()]]
    table = rows("ABCABD")
    stream = Stream(work_of(FALL, secret=SECRET)).step(table.slice(0, 3), 0)
    stream.step(None, 3, *orders[:3]).step(table.slice(3), 3).step(None, 6, orders[3])
    assert [(r["pattern"], r["version"]) for r in stream.found] == [("fall", 0), ("pair", 2)]
    assert stream.bad == 0


@pytest.mark.parametrize("given", ["short", b"short", 7, ""])
def test_a_weak_secret_is_refused_and_not_shown(given: object, tmp_path: Path) -> None:
    for call in (
        lambda: Control(tmp_path, secret=given),  # type: ignore[arg-type]
        lambda: StreamOptions.of({"control": "c", "secret": given}),
    ):
        with pytest.raises(errors.QueryError, match="at least 16 bytes") as raised:
            call()
        assert "short" not in str(raised.value)


def test_a_secret_without_orders_is_refused_and_is_not_printed() -> None:
    with pytest.raises(errors.QueryError, match="there is no control="):
        StreamOptions.of({"secret": SECRET})
    options = StreamOptions.of({"control": "c", "secret": SECRET})
    assert options.settings().secret == SECRET
    assert "0123456789" not in repr(options) + repr(options.settings())

"""Start rows under a bound on time: measured seconds decide, and here they are given."""

from __future__ import annotations

import pytest

from ensue.operator.budget import Bound
from ensue.shared.row_pace import BLOCK, FIRST, LARGE, SAVED, WARM, Pace, Piece

US = 1e-6


@pytest.fixture(autouse=True)
def _pieces_that_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Piece, "seconds", 0.0)


def driven(pace: Pace, rows: int, fixed: float, unit: float, choosing: float = 0.5) -> float:
    """Seconds per row where a row takes so many µs, a start row (one of five) so many, and choosing
    so many per row."""
    spent = 0.0
    while pace.rows < rows:
        size = min(pace.piece, rows - pace.rows)
        chooses = pace.sheds or pace.teaches
        tried = pace.allowed(size, size // 5) if chooses else size // 5
        chosen = choosing * size * US if chooses else 0.0
        seconds = (fixed * size + unit * tried) * US + chosen
        pace.measured(size, tried if chooses else 0, seconds, chosen)
        spent += seconds
    return spent / rows


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1])
def test_a_share_holds_in_time(share: float) -> None:
    pace = Pace(Bound(share, share=True))
    each = driven(pace, 200_000, 1.0, 95.0)
    assert pace.sheds
    assert 0.8 * share < each / (20 * US) < share + 0.02
    assert pace.before == 2 * FIRST


def test_an_amount_that_fits_sheds_nothing() -> None:
    pace = Pace(Bound(25 * US))
    assert driven(pace, 100_000, 1.0, 95.0) == pytest.approx(20 * US, rel=1e-3)
    assert pace.before == 0


def test_where_choosing_does_not_pay_all_start_rows_are_tried() -> None:
    """Never dearer than without a bound: rows take little, or nearly all of the time."""
    for fixed, unit, choosing in ((0.5, 0.5, 0.5), (10.0, 5.0, 2.0)):
        pace = Pace(Bound(0.1, share=True))
        each = driven(pace, 300_000, fixed, unit, choosing)
        whole = fixed + unit / 5
        assert each <= 1.02 * whole * US
        assert pace.piece == LARGE and pace.before > 250_000
        assert f"an event took {whole:.2f} µs" in pace.why


def test_what_is_left_is_there_for_later_blocks() -> None:
    pace = Pace(Bound(0.5, share=True))
    driven(pace, 20_000, 1.0, 95.0)
    before = pace.allowed(BLOCK, BLOCK)
    for _ in range(100):
        pace.measured(BLOCK, 0, pace.target * BLOCK / 10, 0.0)
    assert pace.allowed(BLOCK, BLOCK) > before
    assert pace.saved <= pace.target * SAVED


def test_what_a_piece_takes_whatever_its_rows_does_not_make_rows_dear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Measured on the second small piece of a process, since the first loads the kernels."""
    monkeypatch.setattr(Piece, "seconds", None)
    monkeypatch.setattr(Piece, "loads", True)
    pace = Pace(Bound(0.5, share=True))
    for beside in (2.0, 1e-3):
        assert pace.piece == WARM
        pace.measured(WARM, 0, beside, 0.0)
    assert Piece.seconds == 1e-3 and pace.piece == FIRST
    pace.measured(FIRST, 0, 1e-3 + FIRST * US, 0.0)
    assert pace.whole == pytest.approx(US) and not pace.dear and pace.piece == LARGE

"""Row patterns under a bound on time: how many start rows to try, and whether to leave out any.

Choosing takes time itself, and so do rows of which no start row is tried. So the first rows are
matched in full and timed. Where all start rows fit into the bound, or leaving some out would hardly
be cheaper, all are tried, and the report tells why. Every piece takes some time whatever its rows;
the unbounded run has one piece, so that time is measured once in a process, on a few rows behind
those that load the kernels (`Piece`), and does not count for what rows take.
Elsewhere what a block takes is a line, so much per row and so much per start row, fitted to what
blocks took; what one leaves of its time is there for the next ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ensue.operator.budget import Bound

WARM, FIRST, BLOCK, LARGE = 64, 1024, 2048, 1 << 15  # rows of pieces
PAYS = 0.9  # of the time of all start rows: shedding has to take less
CHEAP = 3e-6  # seconds: less than that, and reading rows and choosing among them takes most of it
PER_ROW = 0.3  # of that time is guessed to be per row, before a block was shed
SAVED = 4 * BLOCK  # rows whose time can be saved up, or owed
REPAID = 4  # blocks over which that is spread
LEAST = 0.02  # of the start rows are tried in any case
_FADE, _APART = 0.5, 0.05
_LEAST_ROWS = 0.25  # of a piece's time is of its rows in any case


class Piece:
    """What pieces take in this process, whatever their rows."""

    loads: ClassVar[bool] = True  # the next one loads the kernels
    seconds: ClassVar[float | None] = None


@dataclass
class Pace:
    """Of one pattern; seconds are of CPU, per row where nothing else is said."""

    bound: Bound
    rows: int = 0
    whole: float = 0.0  # with all start rows tried, by the last piece where they were
    dense: float = 0.0  # start rows per row
    choosing: float = 0.0
    fixed: float = 0.0  # beside choosing, with no start row tried
    unit: float = 0.0  # seconds per start row
    fitted: bool = False  # these two, to blocks of which start rows were shed
    saved: float = 0.0  # seconds
    before: int = 0  # rows matched in full though that took longer than the bound

    @property
    def target(self) -> float:
        return self.bound.of(self.whole)

    @property
    def least(self) -> float:
        """With no start row tried."""
        return self.choosing + self.fixed

    @property
    def dear(self) -> bool:
        """Whether all start rows take longer than the bound, and enough to choose among them."""
        return self.whole >= CHEAP and self.whole > self.target

    @property
    def sheds(self) -> bool:
        """Whether start rows are left out from here on."""
        pays = max(self.target, self.least) < PAYS * self.whole
        return self.dear and self.dense > 0.0 and pays

    @property
    def teaches(self) -> bool:
        """Whether the next piece is matched in full, to learn of its start rows."""
        return self.dear and self.dense == 0.0

    @property
    def piece(self) -> int:
        """Rows of the next piece."""
        if Piece.seconds is None:
            return WARM
        if not self.whole or self.teaches:
            return FIRST
        return BLOCK if self.sheds else LARGE

    def allowed(self, rows: int, candidates: int) -> int:
        """Start rows to try of so many rows."""
        if not self.sheds:
            return candidates
        room = (self.target - self.least) * rows + self.saved / REPAID
        most = max(room / max(self.unit, 1e-12), LEAST * candidates, 1.0)
        return int(min(candidates, most))

    def measured(
        self, rows: int, tried: int, seconds: float, choosing: float, past: bool = False
    ) -> None:
        """A piece took so long, of which `choosing` to look at its start rows."""
        shed = self.sheds and not past
        self.rows += rows
        if Piece.seconds is None and rows <= WARM:
            Piece.loads, Piece.seconds = False, None if Piece.loads else seconds
            return
        if Piece.seconds is not None:  # the piece behind those that load may have loaded some too
            Piece.seconds = min(Piece.seconds, seconds / 2)
        each, chosen = (seconds - choosing) / rows, tried / rows
        if not shed:
            own = seconds - choosing - (Piece.seconds or 0.0)
            self._full(rows, chosen, max(own / rows, _LEAST_ROWS * each), choosing)
            return
        self.choosing += _FADE * (choosing / rows - self.choosing)
        if self.dense - chosen > _APART * self.dense:
            unit = max(0.0, (self.whole - each) / (self.dense - chosen))
            self.fitted = True
            self.unit += _FADE * (unit - self.unit)
            self.fixed = max(0.0, each - self.unit * chosen)
        most = self.target * SAVED
        self.saved = min(most, max(-most, self.saved + self.target * rows - seconds))

    def _full(self, rows: int, chosen: float, each: float, choosing: float) -> None:
        self.whole = max(each, 1e-12)
        if choosing:
            self.choosing, self.dense = choosing / rows, chosen
        if self.dense and not self.fitted:
            self.fixed = PER_ROW * each
            self.unit = (1 - PER_ROW) * each / self.dense
        if each > self.target:
            self.before = min(self.rows, self.before + rows)
            self.saved = max(-self.target * SAVED, self.saved + (self.target - each) * rows)

    def begin(self) -> None:
        """Rows so far were those of the past."""
        self.before, self.saved = 0, 0.0

    @property
    def why(self) -> str:
        """Why rows were matched in full that took longer than the bound."""
        if self.sheds or not self.whole:
            return f"what rows take is known after the first {2 * FIRST:,}"
        return (
            f"{self.target * 1e6:.2f} µs per event and pattern are less than choosing start rows "
            f"pays for; with all of them tried an event took {self.whole * 1e6:.2f} µs"
        )

"""How a bound on time becomes one on work, on a clock that counts work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensue.evaluate import path_budget

EASY, HARD, EACH = 2.0, 200.0, 20_000


class Searches:
    """Sorted questions, easy ones first; a unit of work takes a microsecond."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.needs = np.repeat([EASY, HARD], EACH)
        self.now = 0.0
        monkeypatch.setattr(path_budget.time, "thread_time", lambda: self.now)

    def __call__(
        self, begin: int, end: int, work: float, held: int, saved: float
    ) -> tuple[Any, ...]:
        used = np.minimum(self.needs[begin:end], work + saved / max(end - begin, 1))
        self.now += float(used.sum()) * 1e-6
        left = saved + work * (end - begin) - float(used.sum())
        empty = np.zeros(0)
        return (*[empty] * 7, used, np.full(end - begin, 24.0), empty, max(left, 0.0))


def test_sorted_questions_tell_their_mean_need(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch)
    seconds, held = path_budget._unbounded(searches, 2 * EACH)
    assert seconds == pytest.approx((EASY + HARD) / 2 * 1e-6)
    assert held == 24
    assert path_budget._unbounded(searches, 1)[0] == pytest.approx(EASY * 1e-6)
    assert path_budget._unbounded(searches, 0) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_time_is_kept_and_no_question_starves(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    searches = Searches(monkeypatch)
    bound = share * (EASY + HARD) / 2 * 1e-6
    pieces = path_budget._Search._timed(searches, 2 * EACH, 1e18, 0, bound)
    used = np.concatenate([piece[7] for piece in pieces])
    assert len(used) == 2 * EACH
    assert searches.now <= 1.1 * bound * 2 * EACH
    assert searches.now >= 0.7 * bound * 2 * EACH
    settled = used[EACH + 8 * path_budget.WINDOW :]
    assert settled.min() >= 0.25 * share * HARD

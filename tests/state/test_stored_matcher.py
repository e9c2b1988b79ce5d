"""Stored states of the in-process matcher: what version 1 wrote still goes on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue.run.matcher import Matcher

FOLDER = Path(__file__).parent
FALL = ensue.pattern("A B+ C").define(A="x = 1", B="x = 2", C="x = 3")
FALL = FALL.partition_by("k").order_by("t")
PAIR = (
    ensue.pattern("A -> B").define(A="x = 1", B="x = 2").partition_by("k").order_by("t").within(9)
)
SIGMAS = {"waiting": 0, "quick": math.inf}


def _rows(*events: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"k": k, "t": t, "x": x} for k, t, x in events]


def _half(sigma: Any) -> Matcher:
    matcher = FALL.matcher(speculation=sigma, name="fall")
    matcher.insert(_rows(("p", 1, 1), ("p", 5, 3), ("q", 2, 1), ("p", 3, 2), ("p", 7, 9)))
    matcher.revise(add={"pair": (PAIR, 0)})
    matcher.advance(2)
    matcher.retract(_rows(("p", 7, 9)))
    matcher.insert(_rows(("p", 1, 2)))
    return matcher


def _rest(matcher: Matcher) -> list[dict[str, Any]]:
    found = [matcher.insert(_rows(("p", 4, 2), ("q", 4, 2))), matcher.advance(6), matcher.end()]
    return [row for table in found for row in table.to_pylist()]


@pytest.mark.parametrize("kind", SIGMAS)
def test_what_was_stored_goes_on(kind: str) -> None:
    stored = sorted(FOLDER.glob(f"matcher_{kind}_v*.arrow"))
    assert stored
    expected = _rest(_half(SIGMAS[kind]))
    assert len(expected) >= 3
    for path in stored:
        matcher = ensue.restore(path.read_bytes())
        assert matcher.late.to_pylist() == _rows(("p", 1, 2))
        assert _rest(matcher) == expected

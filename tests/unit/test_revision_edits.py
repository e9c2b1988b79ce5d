"""Edits in place give what arrays made anew give, and most frequent edits are made in place."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from ensue.api.automaton_text import make_arc
from ensue.automaton.registers import RegisterAutomaton
from ensue.errors import NoFinalStateError, UnknownArcError
from ensue.revision.operator import Operator
from ensue.revision.parts import Settings
from tests.revision_cases import FIELDS, KINDS, Stream, table, times

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
FENCES = ["kind = 'a'", "kind = 'b'", "x > 1", "n < 2", None]


def machine(fences: list[str | None]) -> RegisterAutomaton:
    arcs = [
        make_arc(FIELDS, f"q{place}", f"q{place + 1}", fence, {"n": "n + x"}, name=f"a{place}")
        for place, fence in enumerate(fences)
    ]
    arcs.append(make_arc(FIELDS, "q1", "q1", "kind = 'b'", name="skip"))
    return RegisterAutomaton(FIELDS, tuple(arcs), ("q0",), frozenset({f"q{len(fences)}"}))


class Counted:
    """Which edits of an operator were made in place."""

    def __init__(self, operator: Operator) -> None:
        self._swap = operator._swap
        self.told: list[bool] = []

    def __call__(self, *given: Any) -> bool:
        self.told.append(self._swap(*given))
        return self.told[-1]


@pytest.mark.parametrize("ignoring", [True, False])
def test_edits_in_place_are_those_of_arrays_made_anew(
    ignoring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2 if INTERPRETED else 25):
        pick = random.Random(f"in place {seed}")
        settings = Settings(ignoring=ignoring, debug=True)
        quick, anew = (Operator(machine(FENCES[:3]), dict(KINDS), settings) for _ in range(2))
        monkeypatch.setattr(anew, "_swap", lambda *given: False)
        counted = Counted(quick)
        monkeypatch.setattr(quick, "_swap", counted)
        events = Stream.random(pick, 60).events
        while events:
            size = pick.randint(1, 3)
            batch, events = events[:size], events[size:]
            pick.shuffle(batch)
            place = pick.randrange(3)
            arc = make_arc(
                FIELDS, f"q{place}", f"q{place + 1}", pick.choice(FENCES), {"n": "n + x"},
                name=f"a{place}",
            )  # fmt: skip
            mark = min((e["le"] for e in events), default=10**6) - 20
            told = []
            for operator in (quick, anew):
                rows = [operator.insert(table(batch), times(batch)).rows]
                begin, end, _ = operator.revise([arc], [arc.name])
                if mark > 0:
                    rows.append(operator.advance(mark).rows)
                told.append((begin, end, np.concatenate(rows)[:, :8].tolist()))
            assert told[0] == told[1], seed
        assert sum(counted.told) > len(counted.told) // 2


def test_edits_in_place_refuse_what_others_refuse() -> None:
    operator = Operator(machine(FENCES[:3]), dict(KINDS))
    events = Stream.random(random.Random(0), 5).events
    operator.insert(table(events), times(events))
    before = list(operator.arcs)
    with pytest.raises(UnknownArcError):
        operator.revise([], ["nothing"])
    with pytest.raises(NoFinalStateError):
        operator.revise([], ["a2"])
    assert operator.arcs == before
    operator.revise([], ["a0"])
    assert [arc.till for arc in operator.arcs if arc.name == "a0"] == [operator.newest + 1]
    with pytest.raises(UnknownArcError):
        operator.revise([], ["a0"])

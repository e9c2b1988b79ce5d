"""Uncertain events (§4 of the AFA paper), two ways: events that may not be there, and events whose
value is not certain. The register carries the probability; a threshold bounds the work.

    python examples/afa_uncertain.py
"""

from __future__ import annotations

import pyarrow as pa

import ensue

THRESHOLD = 0.2


def maybe_there(threshold: float = THRESHOLD) -> ensue.Automaton:
    """A then B, where each event is there with probability `prob`.

    Every arc multiplies by the event's probability; a self-loop by that of its absence.
    """
    there, absent = f"p * prob >= {threshold}", f"p * (1 - prob) >= {threshold}"
    return (
        ensue.Automaton({"p": "double"}, initial={"p": 1.0}, order_by="ts", within=10)
        .arc("q0", "q1", when=f"kind = 'A' AND {there}", set={"p": "p * prob"})
        .arc("q1", "q1", when=absent, set={"p": "p * (1 - prob)"})
        .arc("q1", "q2", when=f"kind = 'B' AND {there}", set={"p": "p * prob"})
        .final("q2")
    )


def which_colour(threshold: float = THRESHOLD) -> ensue.Automaton:
    """Blue, then indigo: an event is a "multi-event" with a probability per colour."""

    def times(column: str) -> dict[str, str]:
        return {"p": f"p * {column}"}

    def likely(column: str) -> str:
        return f"{column} > 0 AND p * {column} >= {threshold}"

    return (
        ensue.Automaton({"p": "double"}, initial={"p": 1.0}, order_by="ts", within=10)
        .arc("q0", "q1", when=likely("blue"), set=times("blue"))
        .arc("q1", "q2", when=likely("indigo"), set=times("indigo"))
        .final("q2")
    )


def sightings() -> pa.Table:
    return pa.table({"ts": [1, 2, 3], "kind": ["A", "A", "B"], "prob": [0.9, 0.4, 0.8]})


def colours() -> pa.Table:
    return pa.table(
        {
            "ts": [1, 2, 3],
            "blue": [0.7, 0.5, 0.0],
            "indigo": [0.2, 0.5, 0.9],
            "green": [0.1, 0.0, 0.1],
        }
    )


if __name__ == "__main__":
    print(maybe_there().matches(sightings()).to_pandas())
    print(which_colour().matches(colours()).to_pandas())

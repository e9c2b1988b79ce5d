"""Alur, Mamouras, Stanford: Automata-Based Stream Processing (ICALP 2017)."""

from __future__ import annotations

from benchmarks.papers import Claim, Figure, Paper, Picture, Rows

DRAWN = "an automaton or a run of one; built and run step by step in `tests/unit/test_quantify_paper.py`"
SEVEN = "pseudocode; it is what `ensue/quantities` does, held to a brute-force reading (`tests/oracle_quantify.py`)"


def _flat(rows: Rows) -> str:
    costs = [row["ns"] for row in sorted(rows, key=lambda row: row["events"])]
    return f"{costs[-1] / costs[0]:.2f} times the time per event, longest against shortest stream"


def _square(rows: Rows) -> str:
    first, last = (sorted(rows, key=lambda row: row["size"])[place] for place in (0, -1))
    size, cost = last["size"] / first["size"], last["ns"] / first["ns"]
    return f"{cost:.1f} times the time for {size:.1f} times the size (its square: {size**2:.0f})"


PAPER = Paper(
    "quantify",
    "Quantitative queries (streaming automata)",
    "Alur, Mamouras, Stanford: *Automata-Based Stream Processing*, ICALP 2017",
    "none: the paper proves bounds and measures nothing",
    [
        *(Figure(n, t, instead=DRAWN) for n, t in (
            ("1", "Weighted automata M1, M2"), ("2", "Hierarchy: M3"), ("3", "Parallelism: M4"),
            ("4", "A run on one thread"), ("5", "A run on several threads"))),
        Figure("6", "Evaluation, rank 0", instead=SEVEN),
        Figure("7", "Evaluation, rank above 0", instead=SEVEN),
        Figure("§5", "Table of space bounds: time per event does not depend on the stream", "quantify-length",
               paper="Theorem 4: space and time per element independent of the length",
               ours="largest block mean, one core, 10,000 to 1 M events at quick size",
               pictures=[Picture("Theorem 4: length of the stream", "events", "ns", lambda row: "Ensue", names=("events", "ns of CPU per event"), log_x=True)],
               claims=[Claim("independent of the length", _flat)],
               short="Space is checked by tests, not drawn. The two bounds from below (linear space for MINAVGSUFFIX, exponential without consistent parallelism) are refusals here, tested in `tests/unit/test_quantify_paper.py`."),
        Figure("§5", "Table of space bounds: quadratic in the automaton", "quantify-size",
               paper="Theorem 4: at most quadratic in the automaton's size",
               ours="1, 2, 4 and 8 nested blocks over the same events",
               pictures=[Picture("Theorem 4: size of the automaton", "size", "ns", lambda row: "Ensue", names=("size of the automaton", "ns of CPU per event"))],
               claims=[Claim("at most quadratic", _square)]),
    ],
)  # fmt: skip

"""Every function at the edges of every type: all evaluators give one answer, or refuse by name.

Plain values are the reference here; Spark judges them in `tests/spark/test_edges_like_spark.py`.
`ENSUE_EDGES=10000` asks every expression, on every row.
"""

from __future__ import annotations

import os
from decimal import Decimal

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue import quantify as q
from ensue.scalar.functions import CATALOGUE, FORMS
from tests import edge_machines as machines
from tests import edges

MOST = int(os.environ.get("ENSUE_EDGES", "18"))
ROWS = None if "ENSUE_EDGES" in os.environ else 12
# C and Python differ in the last bit of these.
INEXACT = ("power", "exp", "ln", "log", "log10", "sqrt")
LEAST = -(2**63)


def test_every_function_is_asked() -> None:
    """A new entry is written over the kinds by itself; some kinds must fit it."""
    assert set(edges.ENTRIES) == {*CATALOGUE, *FORMS}
    assert set(edges.TEXTS) <= set(edges.ENTRIES)


def test_every_machine_is_asked() -> None:
    """A new compiler of conditions, or a new loop that runs code, has to answer here."""
    compilers, loops = machines.compilers(), machines.loops()
    assert len(compilers) >= 3 and len(loops) >= 2
    assert not (compilers | loops) - machines.ASKED


@pytest.mark.parametrize("name", edges.ENTRIES)
def test_the_evaluators_agree(name: str) -> None:
    problems: list[str] = []
    cases = edges.sample(name, MOST, ROWS)
    assert cases, f"no kinds fit {name}: give its text in edges.TEXTS"
    for case in cases:
        wanted = machines.by_values(case)
        answers = {
            "columns": machines.by_columns(case, wanted),
            **{engine: ask(case) for engine, ask in machines.MACHINES.items()},
        }
        for engine, found in answers.items():
            if isinstance(found, str):
                assert found, f"{engine} refuses {case.text} without a reason"
                continue
            for row, ours, theirs in zip(case.rows, found, wanted, strict=True):
                if edges.agree(ours, theirs, name not in INEXACT):
                    continue
                if engine == "guards" and edges.may_hand_over(case, ours):
                    continue
                if edges.beyond_python(ours, theirs):
                    continue
                given = {name: edges.COLUMNS[name][row] for name in case.names}
                problems.append(f"{case.text} of {given}: {engine} {ours}, values {theirs}")
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("operator", "divisor", "result"),
    [
        ("%", -1, 0),
        ("%", 3, -2),
        ("%", 10, -8),
        ("%", LEAST, 0),
        ("div", 3, -(2**63 // 3)),
        ("div", LEAST, 1),
        ("div", 1, LEAST),
        ("div", -1, None),
        ("div", 0, None),
        ("%", 0, None),
    ],
)
def test_the_least_number_divided(operator: str, divisor: int, result: int | None) -> None:
    """In a condition on the row, on other events, and in a quantity; None: an error."""
    table = pa.table(
        {"t": [0, 1], "x": pa.array([LEAST] * 2), "y": pa.array([divisor] * 2, pa.int64())}
    )
    wanted = Decimal(result or 0)
    forms = {
        "row": lambda: ensue.pattern("A").define(A=f"x {operator} y = {wanted}"),
        "guard": lambda: ensue.pattern("A B").define(B=f"A.x {operator} B.y = {wanted}"),
    }
    combined = q.combine(f"a {operator} b", q.min("x"), q.min("y"))
    if result is None:
        for form in forms.values():
            with pytest.raises(errors.DataError):
                form().order_by("t").matches(table)
        with pytest.raises(errors.DataError):
            combined.eval(table)
        return
    for name, form in forms.items():
        assert len(form().order_by("t").matches(table)) > 0, name
    assert combined.eval(table) == result

"""Evaluators are constructed in their rooms and in `run/choose.py`, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ensue
from ensue.run import choose
from tests.contract.discovery import operators

ROOT = Path(ensue.__file__).parent
ROOMS = {"rows", "sequences", "missing", "summary", "shared", "revision", "quantities", "paths"}
CHOOSER = ROOT / "run" / "choose.py"


def room_of(found: type) -> str:
    return found.__module__.split(".")[1]


EVALUATORS = {
    found.__name__
    for found in operators()
    if hasattr(found, "capabilities") and room_of(found) in ROOMS
} | {"missing_evaluator", "Totals"}


def constructed(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in EVALUATORS:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {name}"


def test_only_rooms_and_the_chooser_construct_evaluators() -> None:
    assert len(EVALUATORS) > 8
    outside = [p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0] not in ROOMS]
    assert [found for p in outside if p != CHOOSER for found in constructed(p)] == []
    known = {found.split()[1] for found in constructed(CHOOSER)}
    assert {"RowsEvaluator", "FlatRows", "SequencesEvaluator", "SharedEvaluator"} <= known


def test_explain_prints_why() -> None:
    rows = ensue.pattern("A B", types="kind")
    events = ensue.pattern("A ->> B", types="kind")
    for asked in (rows, events, events.within("9 rows").allow_missing(1)):
        reason = choose.for_matches(asked.query).reason
        assert f"  because {reason}\n" in asked.explain()

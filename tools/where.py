"""Writes docs/what-runs-where.md from the declared capabilities: `python tools/where.py`."""

from __future__ import annotations

from pathlib import Path

from ensue.capabilities import TABLE, Way, Yes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "what-runs-where.md"
_HEADER = """\
# What runs where

What each kind of question can do, and in which way it can be run. A *no* has its reason and the
next best thing below the table; the library refuses in the same words. In the calls, `q` is a
pattern, `w` a workload, `a` an automaton by hand, `f` a quantitative query and `g` a graph; `table`
is an Arrow, pandas or Polars table, `df` a Spark DataFrame and `stream` a streaming one.

This page is written by `python tools/where.py` from `ensue/capabilities.py`; tests call every cell.
"""


def page() -> str:
    ways = list(Way)
    lines = [_HEADER, "| | " + " | ".join(way.value for way in ways) + " |"]
    lines.append("|---" * (len(ways) + 1) + "|")
    notes: list[str] = []
    for task, cells in TABLE.items():
        marks = []
        for way in ways:
            cell = cells[way]
            if isinstance(cell, Yes):
                marks.append("yes")
                continue
            note = f"{cell.reason}. Instead: {cell.instead}."
            if note not in notes:
                notes.append(note)
            marks.append(f"no ({notes.index(note) + 1})")
        lines.append(f"| {task.value} | " + " | ".join(marks) + " |")
    lines += ["", *(f"{place}. {_sentence(note)}" for place, note in enumerate(notes, 1)), ""]
    lines.append("## The calls")
    for task, cells in TABLE.items():
        lines += ["", f"### {_sentence(task.value)}", "", "| way | call |", "|---|---|"]
        for way in ways:
            cell = cells[way]
            if isinstance(cell, Yes):
                lines.append(f"| {way.value} | `{cell.how}` |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

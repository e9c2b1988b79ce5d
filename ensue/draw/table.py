"""A small table for people: text in a terminal, HTML in a notebook.

What is listed of a match (`events`) is written as one line: `A 0 · B 1 · B 2`, label and row.
"""

from __future__ import annotations

import html
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

_LONGEST = 80
_PIPE_WIDTH = 160  # where nobody says how wide a line may be


class PrintedTable:
    """Rows under headings, with a line below; shows itself in a notebook."""

    def __init__(self, names: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> None:
        self.names = list(names)
        self.rows = [[_text(value) for value in row] for row in rows]
        self.note = note
        numbers = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
        self._right = [bool(c) and all(isinstance(v, (int, float)) for v in c) for c in numbers]
        self._right = self._right or [False] * len(self.names)

    @classmethod
    def of(cls, table: pa.Table, note: str = "") -> PrintedTable:
        return cls(table.column_names, [list(row.values()) for row in table.to_pylist()], note)

    def __str__(self) -> str:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, right in zip(self.names, self._right, strict=True):
            shown.add_column(Text(name), justify="right" if right else "left", overflow="fold")
        for row in self.rows:
            shown.add_row(*map(Text, row))
        out = io.StringIO()
        width = None if sys.stdout.isatty() else _PIPE_WIDTH
        Console(file=out, width=width, color_system=None).print(shown)
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        lines = [line for line in lines if line]
        return "\n".join([*lines, self.note] if self.note else lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        body = "".join(
            "<tr>"
            + "".join(self._cell(*cell) for cell in zip(row, self._right, strict=True))
            + "</tr>"
            for row in self.rows
        )
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    @staticmethod
    def _cell(text: str, right: bool) -> str:
        return f'<td style="text-align:{"right" if right else "left"}">{html.escape(text)}</td>'


class Explanation(str):
    """Lines to read: as they are where Python or a notebook shows a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def put(shown: Any) -> None:
    """On the screen: drawn by the notebook where one runs, printed elsewhere."""
    shell = sys.modules.get("IPython")
    if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
        sys.modules["IPython.display"].display(shown)
    else:
        print(shown)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and value and _is_event(value[0]):
        text = " · ".join(f"{event['label']} {event['row']}" for event in value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + " …"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _is_event(value: object) -> bool:
    return isinstance(value, Mapping) and {"label", "row"} <= value.keys()

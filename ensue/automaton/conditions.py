"""Splitting definitions into tiers, fastest first.

A definition is cut at its ANDs. Each part falls into the first tier that can hold it:

- *row*: reads only the row under test. The runner answers it (Spark itself, or Arrow in process),
  and all row parts of a label arrive as one bit.
- *neighbour*: reads also rows at a fixed physical distance. Answered for all rows at once, on
  Arrow arrays, when the rows are in order.
- *correlated*: reads the match so far. Becomes a guard that the thread engine runs.

In the definition of B, `x`, `B.x` and `LAST(B.x)` are the row under test. A row match has no holes,
so `LAST(x, n)` is the row n above wherever at least n rows must come before B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ensue.automaton.program import Marks
from ensue.query import condition as c
from ensue.query.sql import condition_sql, row_sql


@dataclass(frozen=True)
class Tiers:
    """The parts of one label's definition."""

    label: str
    row: c.Condition  # over columns; TRUE where there is none
    neighbour: tuple[c.Condition, ...]
    correlated: tuple[c.Condition, ...]


def split(marks: Marks) -> tuple[Tiers, ...]:
    """The tiers of every label, in the order of the query's labels."""
    return tuple(_split_label(marks, index) for index in range(len(marks.labels)))


def _split_label(marks: Marks, index: int) -> Tiers:
    row, neighbour, correlated = [], [], []
    for part in c.conjuncts(marks.definitions[index]):
        local = localise(part, marks, index)
        if is_row_local(local):
            row.append(local)
        elif all(is_neighbour(atom) for atom in c.atoms(local)):
            neighbour.append(local)
        else:
            correlated.append(local)
    return Tiers(marks.labels[index], c.conjunction(row), tuple(neighbour), tuple(correlated))


def condition_lines(tiers: Sequence[Tiers], correlated: str) -> list[str]:
    """Where each part is answered, for `explain()`; `correlated` says it of the last tier."""
    lines = []
    for tier in tiers:
        parts = []
        if tier.row != c.TRUE:
            where = "row: by Spark before the shuffle (in process: on Arrow columns)"
            parts.append((where, row_sql(tier.row)))
        for part in tier.neighbour:
            parts.append(("neighbours: on Arrow columns after the sort", condition_sql(part)))
        parts += [(correlated, condition_sql(part)) for part in tier.correlated]
        lines.append(f"  {tier.label}" + ("" if parts else ": always true"))
        lines += [f"    {where}: {text}" for where, text in parts]
    return lines


def localise(condition: c.Condition, marks: Marks, index: int) -> c.Condition:
    """References to the row under test become plain columns, physical ones plain shifts."""
    label = marks.labels[index]

    def change(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, c.Navigate):
            return node if isinstance(node, c.Aggregate) else None
        offset, shift = node.offset, node.shift
        current = label in marks.query.members(node.variable)
        if node.anchor is c.Anchor.FIRST or not current:
            return node
        if offset and node.variable is None and offset <= marks.least_position[index]:
            offset, shift = 0, shift - offset
        if offset:
            return node
        if shift == 0:
            return _with_label(node.argument, label)
        if reads_label(node.argument):
            # Rows after the one under test carry no label yet; rows before need the match.
            return replace(node, offset=0, shift=shift) if shift < 0 else c.Literal("null", None)
        return c.Navigate(node.argument, None, c.Anchor.LAST, 0, shift)

    return c.transform(condition, change)


def is_row_local(condition: c.Condition) -> bool:
    """Whether the value depends on one row alone."""
    return not c.has(condition, c.Navigate, c.Aggregate, c.MatchNumber, c.Classifier)


def is_neighbour(atom: c.Condition) -> bool:
    """A row at a fixed physical distance from the row under test."""
    return (
        isinstance(atom, c.Navigate)
        and atom.variable is None
        and atom.anchor is c.Anchor.LAST
        and atom.offset == 0
        and not reads_label(atom.argument)
    )


def reads_label(condition: c.Condition) -> bool:
    return c.has(condition, c.Classifier, c.MatchNumber)


def _with_label(condition: c.Condition, label: str) -> c.Condition:
    named = c.Literal("string", label)
    return c.transform(condition, lambda n: named if isinstance(n, c.Classifier) else None)

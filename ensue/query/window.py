"""`WindowQuery`: a row pattern in a window (SQL:2016 R020), and its reduction to row matching.

Every row has a frame, from itself to an end; the pattern is looked for at the frame's first row
(INITIAL) or anywhere in it (SEEK), and nothing outside the frame can be read. Where the frame's
first row is the match's, a `Query` can say all of that:

- `PREV(x, n)` of the row under test, cut at the frame's start, is `LAST(x, n)`: a row match has no
  holes. Any other PREV or NEXT is guarded by the number of the row it reads.
- A frame of n rows is WITHIN n ROWS; one whose end differs by row is a condition of every label.
- A measure is evaluated at the last row of the match: FINAL.

SEEK needs the frames themselves; `run/spark/windows.py` builds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Measure, OrderKey, Query, Rows, Skip, Window, WindowKind

ROW = "_ensue_row"  # number of a row in its partition
END = "_ensue_end"  # number of the last row of its frame, where that is an expression
FIRST_ROW = "_ensue_first"
MATCHED = "_ensue_matched"
NEXT_ROW = "_ensue_next"


@dataclass(frozen=True)
class WindowQuery:
    """A pattern over frames. `end`: rows after the current one, None for all of them."""

    query: Query
    seek: bool = False
    end: int | None = None
    end_column: str | None = None  # instead of `end`: a column that holds it


def _row(variable: str | None, anchor: c.Anchor, offset: int, final: bool) -> c.Navigate:
    return c.Navigate(c.Column(ROW), variable, anchor, offset, 0, final)


def as_query(window: WindowQuery) -> Query:
    """INITIAL as a query over rows that carry `ROW` (and `END`): each row once or more."""
    query = window.query
    labels = query.labels
    limit = window.end_column is not None
    define = []
    for label in labels:
        condition = _bounded(query.definition(label), window, label)
        if limit:
            last = c.Navigate(c.Column(END), None, c.Anchor.FIRST)
            here = c.Navigate(c.Column(ROW))
            condition = c.conjunction([c.binary("lte", here, last), condition])
        if condition != c.TRUE:
            define.append((label, condition))
    measures = tuple(
        Measure(m.name, at_end(_bounded(m.value, window, None))) for m in query.measures or ()
    )
    helpers = (
        Measure(FIRST_ROW, _row(None, c.Anchor.FIRST, 0, True)),
        Measure(MATCHED, c.MatchNumber()),
    )
    size = None if window.end is None else Window(WindowKind.ROWS, window.end + 1)
    return replace(
        query,
        define=tuple(define),
        measures=measures + helpers,
        order_by=(OrderKey(ROW),),
        rows=Rows.ALL_WITH_UNMATCHED,
        within=size,
    )


def in_frames(window: WindowQuery, current: str) -> Query:
    """SEEK as a query over frames, one partition for each, named by the row `current`."""
    query = window.query
    measures = tuple(Measure(m.name, at_end(m.value)) for m in query.measures or ())
    return replace(
        query,
        measures=measures + searched(query),
        partition_by=(*query.partition_by, current),
        order_by=(OrderKey(ROW),),
        rows=Rows.ONE,
        skip=Skip(),
    )


def searched(query: Query) -> tuple[Measure, ...]:
    """Measures that say where a match begins and where the next search does."""
    skip = query.skip
    target: c.Condition = c.binary("add", _row(None, c.Anchor.LAST, 0, True), c.Literal("int", 1))
    if skip.variable is not None:
        anchor = c.Anchor.FIRST if skip.mode.value == "TO FIRST" else c.Anchor.LAST
        target = _row(skip.variable, anchor, 0, True)
    return (
        Measure(FIRST_ROW, _row(None, c.Anchor.FIRST, 0, True)),
        Measure(MATCHED, c.MatchNumber()),
        Measure(NEXT_ROW, target),
    )


def kept_rows(query: Query) -> Query:
    """Rows at which a search begins: after a match, not before its `NEXT_ROW`."""
    beyond = c.binary("lt", c.Navigate(c.Column(ROW)), c.Navigate(c.Column(NEXT_ROW), "K"))
    pattern = nodes.concatenate([nodes.Label("K"), nodes.Repetition(nodes.Label("S"), 0, None)])
    return Query(
        pattern=pattern,
        define=(("S", beyond),),
        partition_by=query.partition_by,
        order_by=(OrderKey(ROW),),
        measures=(Measure(MATCHED + "_kept", c.Navigate(c.Classifier())),),
        rows=Rows.ALL_SHOW_EMPTY,
    )


def at_end(condition: c.Condition) -> c.Condition:
    """The condition as it is at the last row of the match."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, (c.Navigate, c.Aggregate)):
            return replace(node, final=True)
        return None

    return c.transform(condition, change)


def _bounded(condition: c.Condition, window: WindowQuery, label: str | None) -> c.Condition:
    """Navigation cut at the frame; `label`: the variable under test, None in a measure."""
    query = window.query

    def change(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, c.Navigate):
            return None
        if node.shift == 0:
            return node
        current = label is not None and label in query.members(node.variable)
        last = node.anchor is c.Anchor.LAST and node.offset == 0
        if node.shift < 0:
            if current and last:
                return c.Navigate(node.argument, None, c.Anchor.LAST, -node.shift)
            lowest = _row(None, c.Anchor.FIRST, 0, label is None)
            return _guarded(node, label is None, "gte", lowest)
        if window.end_column is not None:
            highest: c.Condition = c.Navigate(
                c.Column(END), None, c.Anchor.FIRST, final=label is None
            )
        elif window.end is not None:
            first = _row(None, c.Anchor.FIRST, 0, label is None)
            highest = c.binary("add", first, c.Literal("int", window.end))
        else:
            return node
        return _guarded(node, label is None, "lte", highest)

    return c.transform(condition, change)


def _guarded(node: c.Navigate, final: bool, comparison: str, bound: c.Condition) -> c.Condition:
    found = _row(node.variable, node.anchor, node.offset, final or node.final)
    shifted = c.binary("add", found, c.Literal("int", node.shift))
    inside = c.binary(comparison, shifted, bound)
    return c.call("case", ifs=(c.call("if", this=inside, true=node),))

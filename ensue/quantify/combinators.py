"""Combinators: small queries put together, in the style of quantitative regular expressions.

Each says its domain. That every input has one reading is checked when a query is built, as far as
that holds for all types its columns may have, and again when it meets a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ensue import errors
from ensue.api.quantity import Quantity
from ensue.front.builder import window
from ensue.quantify.reading import (
    Given,
    automaton_of,
    read_fold,
    read_operation,
    read_predicate,
    read_weight,
    some_parts,
    stage_of,
)
from ensue.quantities import build
from ensue.quantities.build import MISSING
from ensue.quantities.groups import Groups
from ensue.quantities.model import Fold, Operation, Predicate, Weight
from ensue.quantities.pipes import Joined
from ensue.quantities.stages import AutomatonQuestion
from ensue.quantities.windows import Windows
from ensue.query.query import WindowKind


def event(predicate: Given | Predicate = None, value: Given | Weight = None) -> Quantity:
    """Defined on one event that satisfies the predicate; its value there."""
    return Quantity.of(build.event(read_predicate(predicate), read_weight(value)))


def split(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """Defined where the stream can be cut into one stretch per part; op of their values.

    Checked when built: if a stream can be cut in two ways, the error shows one.
    """
    some_parts(parts, "split")
    automata = [automaton_of(f, "split") for f in parts]
    found = Quantity.of(build.split(read_operation(op, len(parts)), automata))
    return found.allowing(allow, assume).checked()


def iter(
    fold: str | Fold | Callable[..., Any],
    f: Quantity,
    *,
    start: Any = MISSING,
    allow: str | None = None,
    assume: str | None = None,
) -> Quantity:
    """Stretches of f one after the other, their values folded from `start`.

    Without a start at least one stretch is needed, and its value begins the fold. `fold` is a name
    (sum, max, count, ...), SQL over `state` and `value`, or a callable of two.
    """
    found = Quantity.of(build.iterate(read_fold(fold), automaton_of(f, "iter"), start))
    return found.allowing(allow, assume).checked()


def choose(*options: Quantity, allow: str | None = None, assume: str | None = None) -> Quantity:
    """The value of the one option that is defined; their domains must not meet."""
    some_parts(options, "choose", most=None)
    found = Quantity.of(build.choose([automaton_of(f, "choose") for f in options]))
    return found.allowing(allow, assume).checked()


def combine(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """op of the values of all parts on the same stream; their domains must be the same."""
    some_parts(parts, "combine")
    operation = read_operation(op, len(parts))
    stages = [stage_of(f, "combine") for f in parts]
    if [stage for stage in stages if not isinstance(stage, AutomatonQuestion)]:
        return Quantity(Joined(operation, stages)).allowing(allow, assume)
    automata = [automaton_of(f, "combine") for f in parts]
    found = Quantity.of(build.combine(operation, automata))
    return found.allowing(allow, assume).checked()


def apply(op: Given | Operation, f: Quantity) -> Quantity:
    """op of the value of f."""
    operation = read_operation(op, 1)
    stage = stage_of(f, "apply")
    if not isinstance(stage, AutomatonQuestion):
        return Quantity(Joined(operation, [stage]))
    found = Quantity.of(build.apply(operation, stage.automaton))
    return found.allowing(stage.allow, stage.assume)


def windows(
    f: Quantity,
    *,
    rows: int | None = None,
    time: str | int | None = None,
    by: str | None = None,
    until: Given | Predicate = None,
    partial: bool | None = None,
) -> Quantity:
    """f on each tumbling window: of `rows` events, of `time` in the column `by`, or `until` holds.

    A window counts if an event ends it: its own last one or, of windows of time, the first event
    after it; the value comes with that event. With `partial`, which windows of time have unless you
    say partial=False, the window that is open at the end counts too; of time it is emitted as soon
    as a watermark has passed its end. Without it a watermark ends nothing: a table, its pieces and
    a stream give the same values.
    """
    kinds = [kind for kind in (rows, time, until) if kind is not None]
    if len(kinds) != 1:
        raise errors.QueryError(
            "windows needs exactly one of rows, time and until",
            remedy='write windows(f, rows=3) or windows(f, time="1 minute", by="ts")',
        )
    if by is not None and time is None:
        raise errors.QueryError(
            f"by={by!r} is the column of windows of time, and these are by "
            + ("rows" if rows is not None else "a predicate"),
            remedy='leave it out, or write windows(f, time="1 minute", by="ts")',
        )
    if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
        raise errors.QueryError(f"windows of {rows} rows", remedy="give a whole number above 0")
    span = None
    if time is not None:
        if by is None:
            raise errors.QueryError(
                "windows of time need the column that holds it", remedy='add by="ts"'
            )
        size = window(time)
        if size.kind is WindowKind.ROWS:
            raise errors.QueryError(f"time={time!r} counts rows", remedy="use rows= instead")
        span = int(size.size)
        if span < 1:
            raise errors.QueryError(f"windows of time {time!r}", remedy="give a longer window")
    ends = None if until is None else read_predicate(until)
    late = time is not None if partial is None else partial
    return Quantity(Windows(stage_of(f, "windows"), rows, span, by or "", ends, late))


def group_by(key: str | tuple[str, ...] | list[str], f: Quantity) -> Quantity:
    """f for each value of the key; `eval` gives a table of keys and values."""
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    if not keys or [name for name in keys if not isinstance(name, str)]:
        raise errors.QueryError(
            f"group_by({key!r}, ...) names no column", remedy="give a column, or a list of columns"
        )
    return Quantity(Groups(keys, stage_of(f, "group_by")))

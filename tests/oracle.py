"""The reference for row patterns: brute force, written from the definitions, obvious, slow.

`run` gives the whole output table of a query in row semantics. It enumerates the matches at a
start row in order of preference and takes the first; it shares nothing with the engine but the
query. Read it next to SQL:2016 (or ISO/IEC TR 19075-5), section by section:

- `_parses`: which ways a pattern has to go on from a position, the preferred first;
- `_Match.value`: what an expression means at a row of a (partial) match;
- `_find_matches`: where the search starts, and goes on after a match (AFTER MATCH SKIP);
- `_one_row`, `_all_rows`, `_listing`: what is shown of a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import permutations
from typing import Any

from ensue.errors import DuplicateNameError, SkipTargetError, UnknownColumnError
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, Rows, SkipMode, WindowKind
from tests import scalar

Row = dict[str, Any]
_patience = [0]  # how many more conditions may be tested


@dataclass
class Result:
    """The output table: the order of the columns is part of the answer, that of the rows not."""

    columns: list[str]
    rows: list[Row] = field(default_factory=list)


class TooLongError(Exception):
    """More conditions were tested than `patience` allows: the parses are exponentially many."""


def run(
    query: Query,
    rows: list[Row],
    columns: list[str] | None = None,
    patience: int = 10_000_000,
) -> Result:
    """The output of `query` over `rows`, in any order; `columns` names those of an empty table."""
    _patience[0] = patience
    assert query.row_semantics, "the oracle knows row semantics only"
    columns = list(rows[0]) if columns is None else columns
    named = [*query.partition_by, *(key.column for key in query.order_by)]
    for name in (*named, *(name for e in query.conditions() for name in c.columns(e))):
        if name not in columns:
            raise UnknownColumnError(f"there is no column {name!r}")
    result = Result(_output_columns(query, columns))
    for partition in _partitions(query, rows):
        matches = _find_matches(query, partition)
        if query.rows is not Rows.ONE:
            shown = _all_rows(query, partition, matches)
        elif query.measures is None:
            shown = [_listing(match) for match in matches]
        else:
            shown = [_one_row(match) for match in matches]
        result.rows.extend({name: row[name] for name in result.columns} for row in shown)
    return result


# -- the input: partitions and their order --------------------------------------------------------


def _partitions(query: Query, rows: list[Row]) -> list[list[Row]]:
    """Rows of equal partition keys, null equal to null, each sorted."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(
            None if row[name] is None else scalar.rank(row[name]) for name in query.partition_by
        )
        found.setdefault(key, []).append(row)
    for partition in found.values():
        # The last key first: Python's sort is stable, so the first key has the last word.
        for key in reversed(query.order_by):
            nulls = [row for row in partition if row[key.column] is None]
            others = [row for row in partition if row[key.column] is not None]
            others.sort(key=lambda r: scalar.rank(r[key.column]), reverse=key.descending)
            partition[:] = nulls + others if key.nulls_first else others + nulls
    return list(found.values())


# -- a match, finished or not ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """One row of a match: its label, and whether it stands inside {- -}."""

    label: str
    hidden: bool


@dataclass(frozen=True)
class _Match:
    """The rows from `start` on, one per step."""

    query: Query
    partition: list[Row]
    start: int
    number: int
    steps: tuple[_Step, ...] = ()

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.start + len(self.steps)

    def extended(self, label: str, hidden: bool) -> _Match:
        steps = (*self.steps, _Step(label, hidden))
        return _Match(self.query, self.partition, self.start, self.number, steps)

    def positions(self, variable: str | None, stop: int) -> list[int]:
        """The rows before `stop` that carry a label of `variable`."""
        members = self.query.members(variable)
        return [
            position
            for position, step in enumerate(self.steps, self.start)
            if step.label in members and position < stop
        ]

    def value(self, expression: c.Condition, row: int | None = None) -> Any:
        """A condition or measure. RUNNING sees the rows up to `row` (None: the whole match)."""
        stop = self.end if row is None else row + 1
        match expression:
            case c.Literal() | c.TypeName() | c.MatchNumber():
                return self._constant(expression)
            case c.Navigate():
                return self._navigate(expression, self.end if expression.final else stop)
            case c.Aggregate():
                return self._aggregate(expression, self.end if expression.final else stop)
            case c.Call():
                return scalar.evaluate(expression, lambda argument: self.value(argument, row))
        raise NotImplementedError(f"{expression} at match level")

    def _constant(self, expression: c.Literal | c.TypeName | c.MatchNumber) -> Any:
        """What is the same at every row of the match."""
        match expression:
            case c.Literal(value=value):
                return value
            case c.TypeName(text=text):
                return text
        return self.number

    def _navigate(self, navigate: c.Navigate, stop: int) -> Any:
        """FIRST or LAST by `offset` rows of the variable, then PREV or NEXT by `shift` rows."""
        found = self.positions(navigate.variable, stop)
        if navigate.anchor is c.Anchor.LAST:
            found.reverse()
        if navigate.offset >= len(found):
            return None
        position = found[navigate.offset] + navigate.shift
        if not 0 <= position < len(self.partition):
            return None
        return self._at(navigate.argument, position)

    def _aggregate(self, aggregate: c.Aggregate, stop: int) -> Any:
        found = self.positions(aggregate.variable, stop)
        if aggregate.where is not None:
            found = [position for position in found if self._at(aggregate.where, position) is True]
        values = [tuple(self._at(a, position) for a in aggregate.arguments) for position in found]
        return scalar.aggregate(aggregate.function, values, aggregate.distinct)

    def _at(self, expression: c.Condition, position: int) -> Any:
        """An expression over one row, inside a navigation or an aggregate."""
        match expression:
            case c.Literal() | c.TypeName() | c.MatchNumber():
                return self._constant(expression)
            case c.Classifier():
                inside = self.start <= position < self.end
                return self.steps[position - self.start].label if inside else None
            case c.Column(name=name, path=path):
                value = self.partition[position][name]
                for part in path:
                    value = None if value is None else value[part]
                return value
            case c.Call():
                return scalar.evaluate(expression, lambda a: self._at(a, position))
        raise NotImplementedError(f"{expression} at row level")


# -- the ways to go on, in order of preference ----------------------------------------------------


def _parses(node: nodes.Node, match: _Match, hidden: bool = False) -> Iterator[_Match]:
    """All ways in which `node` extends `match`, the preferred one first."""
    match node:
        case nodes.Empty():
            yield match
        case nodes.AnchorStart():
            if match.end == 0:
                yield match
        case nodes.AnchorEnd():
            if match.end == len(match.partition):
                yield match
        case nodes.Label(name=name):
            if match.end < len(match.partition):
                _patience[0] -= 1
                if _patience[0] < 0:
                    raise TooLongError
                # The row carries the label while its own condition is tested.
                longer = match.extended(name, hidden)
                if _in_window(longer) and longer.value(match.query.definition(name)) is True:
                    yield longer
        case nodes.Concatenation(parts=parts):
            yield from _sequence(parts, match, hidden)
        case nodes.Alternation(options=options):
            for option in options:
                yield from _parses(option, match, hidden)
        case nodes.Permutation(parts=parts):
            for order in permutations(parts):
                yield from _sequence(order, match, hidden)
        case nodes.Exclusion(part=part):
            yield from _parses(part, match, True)
        case nodes.Repetition():
            yield from _repetition(node, 0, match, hidden)
        case _:
            raise NotImplementedError(f"{node} in row semantics")


def _sequence(parts: tuple[nodes.Node, ...], match: _Match, hidden: bool) -> Iterator[_Match]:
    if not parts:
        yield match
        return
    for longer in _parses(parts[0], match, hidden):
        yield from _sequence(parts[1:], longer, hidden)


def _repetition(node: nodes.Repetition, done: int, match: _Match, hidden: bool) -> Iterator[_Match]:
    """`done` iterations lie behind. An iteration beyond the minimum must take a row."""

    def once_more() -> Iterator[_Match]:
        if node.most is not None and done >= node.most:
            return
        for longer in _parses(node.part, match, hidden):
            if done < node.least or longer.end > match.end:
                yield from _repetition(node, done + 1, longer, hidden)

    if done < node.least:
        yield from once_more()
    elif node.greedy:
        yield from once_more()
        yield match
    else:
        yield match
        yield from once_more()


def _in_window(match: _Match) -> bool:
    """WITHIN: last minus first at most the size (first minus last where the order descends)."""
    window = match.query.within
    if window is None:
        return True
    if window.kind is WindowKind.ROWS:
        return len(match.steps) <= window.size
    column = match.query.order_by[0].column
    first, last = match.partition[match.start][column], match.partition[match.end - 1][column]
    if first is None or last is None:
        return False
    size = timedelta(microseconds=window.size) if window.kind is WindowKind.TIME else window.size
    return bool(abs(last - first) <= size)


# -- the search -----------------------------------------------------------------------------------


def _find_matches(query: Query, partition: list[Row]) -> list[_Match]:
    found: list[_Match] = []
    position = 0
    while position < len(partition):
        start = _Match(query, partition, position, len(found) + 1)
        match = next(_parses(query.pattern, start), None)
        if match is None:
            position += 1
        else:
            found.append(match)
            position = _skip(match)
    return found


def _skip(match: _Match) -> int:
    """Where the search goes on after a match."""
    skip = match.query.skip
    if not match.steps or skip.mode is SkipMode.TO_NEXT_ROW:
        return match.start + 1
    if skip.mode is SkipMode.PAST_LAST_ROW:
        return match.end
    targets = match.positions(skip.variable, match.end)
    if not targets:
        raise SkipTargetError(f"AFTER MATCH SKIP TO {skip.variable}: no such row in the match")
    target = targets[0] if skip.mode is SkipMode.TO_FIRST else targets[-1]
    if target == match.start:
        raise SkipTargetError(f"AFTER MATCH SKIP TO {skip.variable}: the match's own first row")
    return target


# -- the output -----------------------------------------------------------------------------------


def _output_columns(query: Query, columns: list[str]) -> list[str]:
    if query.rows is Rows.ONE and query.measures is None:
        return [*query.partition_by, "match_number", "first", "last", "events"]
    measures = [measure.name for measure in query.measures or ()]
    if query.rows is Rows.ONE:
        return [*query.partition_by, *measures]
    keys = dict.fromkeys((*query.partition_by, *(key.column for key in query.order_by)))
    for name in measures:
        if name in columns:
            raise DuplicateNameError(f"the measure {name!r} has the name of an input column")
    return [*keys, *measures, *(name for name in columns if name not in keys)]


def _measures(match: _Match, row: int | None = None) -> Row:
    return {m.name: match.value(m.value, row) for m in match.query.measures or ()}


def _listing(match: _Match) -> Row:
    """The shape of a query without measures."""
    order = match.query.order_by[0].column if match.query.order_by else None
    inside = match.partition[match.start : match.end]
    row = {name: match.partition[match.start][name] for name in match.query.partition_by}
    row["match_number"] = match.number
    row["first"] = inside[0][order] if inside and order else None
    row["last"] = inside[-1][order] if inside and order else None
    row["events"] = [
        {"label": step.label, "row": position}
        for position, step in enumerate(match.steps, match.start)
    ]
    return row


def _one_row(match: _Match) -> Row:
    keys = {name: match.partition[match.start][name] for name in match.query.partition_by}
    return keys | _measures(match)


def _all_rows(query: Query, partition: list[Row], matches: list[_Match]) -> list[Row]:
    shown: list[Row] = []
    covered: set[int] = set()
    for match in matches:
        covered.update(range(match.start, match.end) or [match.start])
        if not match.steps and query.rows is not Rows.ALL_OMIT_EMPTY:
            shown.append(partition[match.start] | _measures(match))
        for position, step in enumerate(match.steps, match.start):
            if not step.hidden:
                shown.append(partition[position] | _measures(match, position))
    if query.rows is Rows.ALL_WITH_UNMATCHED:
        nothing = {measure.name: None for measure in query.measures or ()}
        shown.extend(
            row | nothing for position, row in enumerate(partition) if position not in covered
        )
    return shown

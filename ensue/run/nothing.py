"""Why nothing matches: the rows of each variable, counted part by part of its condition.

A condition is cut at its ANDs, and rows are counted after each part (`Profile`): in process on
Arrow columns, on Spark by one aggregate (`run/spark/batch.py`). The first part that leaves no row
is the one to name, with the nearest value of the column where it compares a text, and with what the
solver says where no value at all can satisfy it. Conditions over the match so far are not counted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.automaton.conditions import Tiers
from ensue.automaton.plan import FLAGS_PER_COLUMN, Plan, bits_name, plan
from ensue.kernels import bits
from ensue.operator.arrange import arrange, arrays_of, flat
from ensue.operator.batch import Batch, as_mask
from ensue.operator.notices import Notices
from ensue.operator.prepare import prepare
from ensue.quantities.model import Expression
from ensue.quantities.predicates import alphabet
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.sql import describe
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.kinds import Kind

MOST_VALUES = 10_000  # of a column, among which the nearest is looked for
MOST_WHY = 20  # variables of which the solver is asked why; of thousands it would take minutes
_NEAR = 0.5  # least likeness of two texts, from 0 to 1
_TOLD = 5  # variables that one warning names
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Profile:
    """What was counted in the data."""

    rows: int
    parts: Mapping[str, tuple[int, ...]]  # by label: rows left after each part of its condition
    nulls: Mapping[str, int]  # by column that a condition reads
    nearest: Mapping[tuple[str, str], str | None]  # by column and text: the nearest value there
    spans: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # least, greatest value


def prefixes(tier: Tiers) -> list[c.Condition]:
    """The row part of a definition, cut after each of its ANDs: none raises where the whole does
    not, as each would by itself."""
    parts = c.conjuncts(tier.row)
    return [c.conjunction(parts[: end + 1]) for end in range(len(parts))]


def read_columns(planned: Plan, names: Iterable[str]) -> list[str]:
    """Columns of the data that conditions read."""
    conditions = [part for t in planned.tiers for part in (t.row, *t.neighbour, *t.correlated)]
    read = {name for condition in conditions for name in c.columns(condition)}
    return [name for name in names if name in read]


def texts(planned: Plan) -> list[tuple[str, str]]:
    """Columns and the texts that a definition says they equal."""
    found = [_texts(part) for tier in planned.tiers for part in c.conjuncts(tier.row)]
    return list(dict.fromkeys(pair for pairs in found for pair in pairs))


def bounded(planned: Plan, schema: pa.Schema) -> list[str]:
    """Columns of numbers and times that a definition compares with a constant."""
    found = [_bounded(part) for tier in planned.tiers for part in c.conjuncts(tier.row)]
    return [name for name in dict.fromkeys(filter(None, found)) if _has_span(schema, name)]


def profile(planned: Plan, table: pa.Table) -> Profile:
    """Counted in process."""
    rows = Rows({name: flat(table, name) for name in table.column_names}, table.num_rows, None)
    parts = {
        tier.label: [int(as_mask(evaluate(p, rows)).sum()) for p in prefixes(tier)]
        for tier in planned.tiers
    }
    if any(tier.neighbour for tier in planned.tiers) and table.num_rows:
        for label, count in zip(
            planned.marks.labels, _with_neighbours(planned, table), strict=True
        ):
            parts[label].append(count)
    nulls = {name: table.column(name).null_count for name in read_columns(planned, rows.columns)}
    empty = [
        part
        for tier in planned.tiers
        for part, count in zip(c.conjuncts(tier.row), parts[tier.label], strict=False)
        if count == 0
    ]
    missing = {
        pair: _nearest(pair[1], rows.columns[pair[0]])
        for part in empty
        for pair in _texts(part)
        if pair[0] in rows.columns
    }
    spans = {}
    for name in filter(None, map(_bounded, empty)):
        if _has_span(table.schema, name):
            ends = pc.min_max(rows.columns[name]).as_py()
            spans[name] = (ends["min"], ends["max"])
    counted = {label: tuple(counts) for label, counts in parts.items()}
    return Profile(table.num_rows, counted, nulls, missing, spans)


def _with_neighbours(planned: Plan, table: pa.Table) -> list[int]:
    query = planned.query
    arranged, starts = arrange(prepare(planned, table), query.partition_by, query.order_by)
    count = len(starts) - 1
    batch = Batch(
        planned, arrays_of(arranged), starts, np.zeros(count, np.bool_), np.ones(count, np.bool_),
        np.zeros(count, np.int64), np.zeros((count, 3), np.int64),
    )  # fmt: skip
    words = batch.label_bits()
    places = [(index >> 6, np.uint64(index & 63)) for index in range(len(planned.marks.labels))]
    return [int((words[:, word] >> bit & np.uint64(1)).sum()) for word, bit in places]


def reasons(planned: Plan, counted: Profile, kinds: Mapping[str, Kind]) -> list[str]:
    """A line for each variable without rows, where without them nothing can match."""
    dead = {label for label, counts in counted.parts.items() if 0 in counts}
    if counted.rows == 0 or possible(planned, dead):
        return []
    hidden = planned.query.unseen
    blamed = [tier for tier in planned.tiers if tier.label in dead and tier.label not in hidden]
    told = [f"{tier.label}: {_why(tier, counted, kinds)}" for tier in blamed[:MOST_WHY]]
    return told + [tier.label for tier in blamed[MOST_WHY:]]


def possible(planned: Plan, dead: set[str]) -> bool:
    """Whether the pattern can match without rows of these labels."""

    def fits(node: nodes.Node) -> bool:
        match node:
            case nodes.Label(name=name):
                return name not in dead
            case nodes.Alternation(options=options):
                return any(map(fits, options))
            case nodes.Repetition(part=part, least=least):
                return least == 0 or fits(part)
            case nodes.Negation():
                return True
            case _:
                return all(map(fits, nodes.children(node)))

    return planned.query.missing is None and fits(planned.query.pattern)


def _why(tier: Tiers, counted: Profile, kinds: Mapping[str, Kind]) -> str:
    parts = c.conjuncts(tier.row)
    counts = counted.parts[tier.label]
    place = counts.index(0)
    if unsatisfiable(tier.row, kinds):
        return f"no value can satisfy {describe(tier.row)}"
    if place >= len(parts):
        return f"no row satisfies {' AND '.join(map(describe, (*parts, *tier.neighbour)))}"
    text = f"no row has {describe(parts[place])}"
    if place:
        before = describe(c.conjunction(parts[:place]))
        text += f" of the {counts[place - 1]:,} with {before}"
    least, greatest = counted.spans.get(_bounded(parts[place]) or "", (None, None))
    if least is not None:
        return f"{text}; the column is from {least} to {greatest}"
    asked = [(pair[1], counted.nearest.get(pair)) for pair in _texts(parts[place])]
    told = {near: given for given, near in asked if near is not None and near != given}
    for near, given in told.items():
        if near.casefold() == given.casefold():
            return f"{text}; the column has {near!r}, and upper and lower case differ"
    if not told:
        return text
    values = "the nearest value is" if len(told) == 1 else "the nearest values are"
    return f"{text}; {values} {', '.join(map(repr, told))}"


def lines(planned: Plan, counted: Profile, kinds: Mapping[str, Kind]) -> list[str]:
    """What `explain(data)` says of the data."""
    told = [f"Data: {counted.rows:,} rows", "  rows that fit each variable"]
    for tier in planned.tiers:
        counts = counted.parts[tier.label]
        count = counts[-1] if counts else counted.rows
        share = f" ({count / counted.rows:.1%})" if counted.rows else ""
        why = f": {_why(tier, counted, kinds)}" if counted.rows and 0 in counts else ""
        told.append(f"    {tier.label}: {count:,}{share}{why}")
    if counted.nulls and counted.rows:
        shares = [f"{name} {count / counted.rows:.1%}" for name, count in counted.nulls.items()]
        told.append(f"  nulls in columns that conditions read: {', '.join(shares)}")
    return told


def schema_kinds(schema: pa.Schema) -> dict[str, Kind]:
    """Kinds of the columns whose types Ensue computes with."""
    found = {}
    for column in schema:
        try:
            found[column.name] = from_arrow(column.type)
        except errors.EnsueError:
            continue
    return found


def why_nothing(planned: Plan, table: pa.Table) -> list[str]:
    return reasons(planned, profile(planned, table), schema_kinds(table.schema))


def check(planned: Plan, table: pa.Table, notices: Notices) -> None:
    """Warn once, where a query found nothing and the data say why."""
    warn(why_nothing(planned, table), notices)


def check_all(
    queries: Mapping[str, Query],
    table: pa.Table,
    matches: Mapping[str, pa.Table],
    notices: Notices,
) -> None:
    """Warn of the patterns of a workload that cannot match in this table, all at once."""
    told = []
    for name, query in queries.items():
        if not matches[name].num_rows:
            planned = plan(bind(query, table.column_names))
            told += [f"{name}, {why}" for why in why_nothing(planned, table)]
    warn(told, notices)


def check_totals(planned: Plan, table: pa.Table, arranged: pa.Table, notices: Notices) -> None:
    """The same for aggregates, which do not tell matches: where the row parts allow none."""
    dead = set()
    for test in planned.tests:
        if test.flag is not None and arranged.num_rows:
            packed = flat(arranged, bits_name(test.flag // FLAGS_PER_COLUMN)).to_numpy()
            if not bits.packed_flag(packed, test.flag % FLAGS_PER_COLUMN).any():
                dead.add(test.label)
    if dead and not possible(planned, dead):
        check(planned, table, notices)


def warn(told: list[str], notices: Notices) -> None:
    if not told:
        return
    shown = [*told[:_TOLD], *([f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else [])]
    said = "".join(f"\n  {line}" for line in shown)
    notices.warn(
        errors.NothingMatchesWarning(
            f"nothing matches, and with this data nothing can:{said}\n"
            "What to do: correct the name, the value or the condition; explain(data) counts the "
            "rows of each variable"
        )
    )


# -- conditions ----------------------------------------------------------------------------------


def unsatisfiable(condition: c.Condition, kinds: Mapping[str, Kind]) -> bool:
    """Whether no row at all can satisfy it: by the solver, or by intervals where there is none."""
    if not c.columns(condition):
        return False
    try:
        letters = alphabet([Expression(condition)], kinds).letters
    except errors.MissingExtraError:
        return _empty_interval(condition, kinds)
    except errors.EnsueError:
        return False
    return not any(letter.holds & 1 for letter in letters)


def _empty_interval(condition: c.Condition, kinds: Mapping[str, Kind]) -> bool:
    """Comparisons of a number with constants that exclude each other."""
    low: dict[str, tuple[Any, bool]] = {}  # bound, and whether it is itself excluded
    high: dict[str, tuple[Any, bool]] = {}
    for part in c.conjuncts(condition):
        found = _comparison(part)
        if found is None or found[0] not in kinds or kinds[found[0]].name not in _NUMBERS:
            continue
        name, operator, value = found
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            continue
        if operator in ("gt", "gte", "eq"):
            low[name] = max(low.get(name, (value, False)), (value, operator == "gt"))
        if operator in ("lt", "lte", "eq"):
            # Of equal bounds the one that is excluded is the tighter.
            bound, tight = high.get(name, (value, False))
            if value == bound:
                high[name] = (value, tight or operator == "lt")
            elif value < bound:
                high[name] = (value, operator == "lt")
    return any(
        low[name][0] > high[name][0]
        or (low[name][0] == high[name][0] and (low[name][1] or high[name][1]))
        for name in low.keys() & high.keys()
    )


_MIRRORED = {"lt": "gt", "gt": "lt", "lte": "gte", "gte": "lte", "eq": "eq"}


def _comparison(part: c.Condition) -> tuple[str, str, Any] | None:
    """Column, operator and constant."""
    if not isinstance(part, c.Call) or part.function not in _MIRRORED:
        return None
    match part["this"], part["expression"]:
        case c.Column(name=name, path=()), c.Literal(value=value):
            return name, part.function, value
        case c.Literal(value=value), c.Column(name=name, path=()):
            return name, _MIRRORED[part.function], value
    return None


def _texts(part: c.Condition) -> list[tuple[str, str]]:
    """Column and texts of `column = 'text'` and `column IN ('text', ...)`."""
    match part:
        case c.Call(
            function="in", arguments=(("this", c.Column(name=name, path=())), (_, options))
        ):
            listed = options if isinstance(options, tuple) else (options,)
            values = [option.value for option in listed if isinstance(option, c.Literal)]
            return [(name, value) for value in values if isinstance(value, str)]
    found = _comparison(part)
    if found is None or found[1] != "eq" or not isinstance(found[2], str):
        return []
    return [(found[0], found[2])]


def _bounded(part: c.Condition) -> str | None:
    """The column that is compared with what reads no column."""
    if isinstance(part, c.Call) and part.function in (*_MIRRORED, "between"):
        names = [value.name for _, value in part.arguments if isinstance(value, c.Column)]
        if len(names) == 1 and c.columns(part) == tuple(names):
            return names[0]
    return None


def _has_span(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type if name in schema.names else pa.null()
    of_numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_one(kind) for is_one in (*of_numbers, pa.types.is_timestamp, pa.types.is_date))


def near(text: str, values: Iterable[str]) -> str | None:
    """The value most like the text, upper and lower case aside."""
    folded: dict[str, str] = {}
    for value in values:
        folded.setdefault(value.casefold(), value)
    close = difflib.get_close_matches(text.casefold(), folded, 1, _NEAR)
    return folded[close[0]] if close else None


def _nearest(text: str, column: pa.Array) -> str | None:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    values = pc.unique(column)
    return None if len(values) > MOST_VALUES else near(text, filter(None, values.to_pylist()))

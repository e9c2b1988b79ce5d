"""Conditions and queries printed back as SQL of any dialect, through sqlglot's generators."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot import exp

from ensue import errors
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.depth import roomy
from ensue.query.duration import MICROSECONDS
from ensue.query.query import Measure, OrderKey, Query, Window, WindowKind

_LONGEST = 120
_NULLS_FIRST = {"trino": False, "duckdb": False}  # where the direction does not matter


@lru_cache(maxsize=1)
def _classes() -> dict[str, type[exp.Expression]]:
    found: dict[str, type[exp.Expression]] = {}
    for value in vars(exp).values():
        if isinstance(value, type) and issubclass(value, exp.Expression):
            found.setdefault(value.key, value)
    return found


@roomy
def row_sql(condition: c.Condition, dialect: str = "spark") -> str:
    """SQL of an expression over one row (no navigation inside)."""
    return to_sqlglot(condition, quote_all=True).sql(dialect=dialect)


@roomy
def condition_sql(condition: c.Condition, dialect: str = "spark") -> str:
    """SQL of a condition or measure as it stands in MATCH_RECOGNIZE."""
    tree = to_sqlglot(condition)
    if dialect != "spark":
        # Spark, as sqlglot knows it, gives null for a division by zero; as Ensue runs it, an error.
        for division in tree.find_all(exp.Div):
            division.set("safe", False)
    return tree.sql(dialect=_known_dialect(dialect))


def definitions_sql(query: Query) -> dict[str, str]:
    """The condition of each label that has one, as `shown_sql`."""
    found = {label: query.definition(label) for label in query.labels}
    return {label: shown_sql(value) for label, value in found.items() if value != c.TRUE}


def shown_sql(condition: c.Condition) -> str:
    """SQL for a reader: without brackets around what AND joins."""
    parts = map(condition_sql, c.conjuncts(condition))
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def describe(condition: c.Condition) -> str:
    """The condition as SQL on one line that is not too long, for messages."""
    return shortened(condition_sql(condition))


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _known_dialect(dialect: str) -> str:
    """sqlglot has no Flink, whose SQL is closest to Spark's."""
    return "spark" if dialect == "flink" else dialect


def to_sqlglot(
    condition: c.Argument, *, variable: str | None = None, quote_all: bool = False
) -> Any:
    """sqlglot's tree of a condition; `variable` qualifies the columns at row level."""

    def inner(value: c.Argument) -> Any:
        return to_sqlglot(value, variable=variable, quote_all=quote_all)

    match condition:
        case c.Literal(kind=kind, value=value):
            return _literal_sql(kind, value)
        case c.Column(name=name, path=path):
            return _column_sql(name, path, variable, quote_all)
        case c.TypeName(text=text):
            return exp.DataType.build(text, dialect="spark")
        case c.MatchNumber():
            return exp.Anonymous(this="MATCH_NUMBER", expressions=[])
        case c.Classifier():
            named = [_variable_sql(variable)] if variable else []
            return exp.Anonymous(this="CLASSIFIER", expressions=named)
        case c.Navigate():
            return _navigate_sql(condition, quote_all)
        case c.Aggregate():
            return _aggregate_sql(condition, quote_all)
        case c.Call(function=function, arguments=arguments):
            kind_of = _classes()[function]
            if function in c.CHAINED:
                parts = c.operands(function, condition)
                if len(parts) > c.LONG_CHAIN:
                    return _chained([_wrapped(inner(part), kind_of) for part in parts], kind_of)
            built = {role: inner(value) for role, value in arguments}
            return kind_of(**{role: _wrapped(value, kind_of) for role, value in built.items()})
        case tuple():
            return [inner(item) for item in condition]
        case _:
            return condition


def _chained(parts: list[Any], kind: type[exp.Expression]) -> Any:
    """A chain as it is printed, without brackets; grouped evenly, which does not show."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return kind(this=_chained(parts[:middle], kind), expression=_chained(parts[middle:], kind))


def _wrapped(value: Any, parent: type[exp.Expression]) -> Any:
    """Operands of operators in brackets: the tree has no Paren nodes to keep precedence."""
    operators = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Is, exp.Case)
    if isinstance(value, list):
        return [_wrapped(item, parent) for item in value]
    simple = isinstance(value, (exp.Dot, exp.Paren))
    needs = issubclass(parent, (*operators, exp.Bracket, exp.Cast, exp.Interval))
    if needs and isinstance(value, operators) and not simple:
        return exp.Paren(this=value)
    return value


def _literal_sql(kind: str, value: Any) -> exp.Expression:
    if kind == "null":
        return exp.Null()
    if kind == "boolean":
        return exp.Boolean(this=value)
    if kind == "string":
        return exp.Literal.string(value)
    text = (
        repr(value) if kind == "double" else format(value, "f") if kind == "decimal" else str(value)
    )
    if kind == "double" and "e" not in text:
        text += "e0"
    number = exp.Literal.number(text.lstrip("-"))
    return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number


def _column_sql(
    name: str, path: Sequence[str], variable: str | None, quote_all: bool
) -> exp.Expression:
    parts: list[exp.Expression] = [
        exp.to_identifier(part, quoted=True if quote_all else None) for part in (name, *path)
    ]
    if variable is not None:
        parts.insert(0, _variable_sql(variable))
    if len(parts) > 4:
        tree: exp.Expression = exp.Column(this=parts[0])
        for part in parts[1:]:
            tree = exp.Dot(this=tree, expression=part)
        return tree
    roles = ("this", "table", "db", "catalog")
    return exp.Column(**dict(zip(roles, reversed(parts), strict=False)))


def _variable_sql(name: str) -> exp.Expression:
    return exp.Identifier(this=name, quoted=nodes.quote_label(name) != name)


def _navigate_sql(node: c.Navigate, quote_all: bool) -> exp.Expression:
    value: exp.Expression = to_sqlglot(node.argument, variable=node.variable, quote_all=quote_all)
    plain = isinstance(node.argument, (c.Column, c.Classifier))
    logical = node.anchor is c.Anchor.FIRST or node.offset or node.final
    if logical or not (plain or node.shift):
        arguments = [value]
        if node.offset:
            arguments.append(exp.Literal.number(node.offset))
        value = exp.Anonymous(this=node.anchor.value, expressions=arguments)
        if node.final:
            value = exp.MatchRecognizeMeasure(this=value, window_frame="FINAL")
    if node.shift:
        name = "PREV" if node.shift < 0 else "NEXT"
        far = [exp.Literal.number(abs(node.shift))] if abs(node.shift) > 1 else []
        value = exp.Anonymous(this=name, expressions=[value, *far])
    return value


def _aggregate_sql(node: c.Aggregate, quote_all: bool) -> exp.Expression:
    arguments = [to_sqlglot(a, variable=node.variable, quote_all=quote_all) for a in node.arguments]
    if node.where is not None and not arguments and c.has(node.where, c.Column, c.Classifier):
        # FILTER is not in every dialect, and its rewriting needs an argument to filter.
        where = to_sqlglot(node.where, variable=node.variable, quote_all=quote_all)
        counted: exp.Expression = exp.CountIf(this=where)
        if node.final:
            counted = exp.MatchRecognizeMeasure(this=counted, window_frame="FINAL")
        return counted
    if not arguments:
        star: exp.Expression = exp.Star()
        if node.variable is not None:
            star = exp.Column(this=star, table=_variable_sql(node.variable))
        arguments = [star]
    if node.distinct:
        several = len(arguments) if node.function == "count" else 1
        arguments = [exp.Distinct(expressions=arguments[:several]), *arguments[several:]]
    name = node.function.removesuffix("_n").upper()  # max_n is max(x, n)
    value: exp.Expression = exp.Anonymous(this=name, expressions=arguments)
    if node.final:
        value = exp.MatchRecognizeMeasure(this=value, window_frame="FINAL")
    if node.where is not None:
        where = to_sqlglot(node.where, variable=node.variable, quote_all=quote_all)
        value = exp.Filter(this=value, expression=exp.Where(this=where))
    return value


@roomy
def query_sql(query: Query, table: str = "input", dialect: str = "spark") -> str:
    """The query as a statement with MATCH_RECOGNIZE over `table`."""
    if not query.row_semantics:
        raise errors.UnsupportedError(
            "a pattern with arrows, negation or select() has no SQL form: MATCH_RECOGNIZE knows "
            "strict row patterns only",
            remedy="write the pattern with blanks, or keep it in Python",
        )
    lines: list[str] = []
    quoted = [_name_sql(name, dialect) for name in query.partition_by]
    if quoted:
        lines.append("PARTITION BY " + ", ".join(quoted))
    if query.order_by:
        lines.append("ORDER BY " + ", ".join(_order_sql(key, dialect) for key in query.order_by))
    said = listing_measures(query) if query.measures is None else query.measures
    if said:
        measures = [
            f"{condition_sql(m.value, dialect)} AS {_name_sql(m.name, dialect)}" for m in said
        ]
        lines.append("MEASURES " + ", ".join(measures))
    lines.append(query.rows.value)
    skip = query.skip
    target = f" {nodes.quote_label(skip.variable)}" if skip.variable else ""
    lines.append(f"AFTER MATCH SKIP {skip.mode.value}{target}")
    lines.append(f"PATTERN ({nodes.pattern_text(query.pattern)})")
    if query.within is not None:
        lines.append("WITHIN " + _window_sql(query.within, dialect))
    if query.subsets:
        subsets = [
            f"{nodes.quote_label(name)} = ({', '.join(map(nodes.quote_label, members))})"
            for name, members in query.subsets
        ]
        lines.append("SUBSET " + ", ".join(subsets))
    if query.define:
        define = [
            f"{nodes.quote_label(label)} AS {condition_sql(condition, dialect)}"
            for label, condition in query.define
        ]
        lines.append("DEFINE " + ", ".join(define))
    inside = "\n  ".join(lines)
    return f"SELECT * FROM {table} MATCH_RECOGNIZE (\n  {inside}\n)"


def listing_measures(query: Query) -> tuple[Measure, ...]:
    """The plain listing as measures; SQL has no list of (label, row), so the labels alone."""
    if query.rows.all_rows:
        return ()
    order = c.Column(query.order_by[0].column) if query.order_by else None
    ends = (
        []
        if order is None
        else [
            Measure("first", c.Navigate(order, None, c.Anchor.FIRST)),
            Measure("last", c.Navigate(order)),
        ]
    )
    labels = Measure("labels", c.Aggregate("array_agg", (c.Classifier(),)))
    return (Measure("match_number", c.MatchNumber()), *ends, labels)


def _name_sql(name: str, dialect: str) -> str:
    return exp.to_identifier(name).sql(dialect=_known_dialect(dialect))


def _order_sql(key: OrderKey, dialect: str) -> str:
    text = _name_sql(key.column, dialect)
    if key.descending:
        text += " DESC"
    by_default = _NULLS_FIRST.get(dialect, not key.descending)
    if dialect in ("oracle", "snowflake"):
        by_default = key.descending
    if key.nulls_first != by_default:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text


def _window_sql(window: Window, dialect: str = "spark") -> str:
    if dialect == "flink" and window.kind is WindowKind.TIME:
        # Flink leaves the right edge out, Ensue counts it in.
        return f"INTERVAL '{Decimal(int(window.size) + 1) / 1_000_000}' SECOND"
    match window.kind:
        case WindowKind.ROWS:
            return f"{window.size} ROWS"
        case WindowKind.NUMBER:
            return f"{window.size}"
        case WindowKind.TIME:
            for unit in ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"):
                if window.size % MICROSECONDS[unit.lower()] == 0:
                    return f"INTERVAL '{int(window.size) // MICROSECONDS[unit.lower()]}' {unit}"
            return f"INTERVAL '{window.size}' MICROSECOND"

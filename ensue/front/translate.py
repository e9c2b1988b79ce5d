"""A statement, or an expression of one, in Spark's SQL: the same meaning, or a refusal by name.

sqlglot prints what Spark lacks as best it can, with a warning or without: `TRY(a / b)` loses its
TRY, `array_agg(a ORDER BY b)` its order, `date_add('day', 1, ts)` the time of day. Three nets keep
that from changing an answer. `_EXACT` rewrites what Spark has under another form. `_LOST` names
what it has in no form. And what is printed is read again: a modifier that is gone was lost on the
way. What sqlglot warns of is refused as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.errors import UnsupportedError as NotPrinted

from ensue import errors
from ensue.front.dialect import row_dialect
from ensue.front.tries import INSTEAD_OF_TRY, NO_TRY, tried

# Parts that change an answer and that no rewriting of ours takes away.
_KEPT = {
    exp.Distinct: "DISTINCT",
    exp.Filter: "FILTER (WHERE ...)",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.Ordered: "ORDER BY",
    exp.Offset: "OFFSET",
    exp.TableSample: "TABLESAMPLE",
    exp.Escape: "ESCAPE",
    exp.Where: "WHERE",
    exp.Having: "HAVING",
    exp.Group: "GROUP BY",
    exp.Lambda: "a lambda",
}

# Dialects that are not Spark's own, or close to it.
_OTHERS = ("trino", "snowflake", "oracle", "duckdb", "bigquery")
# What DECIMAL without a precision is; it is DECIMAL(10, 0) in Spark only.
_BARE_DECIMALS = {"trino": (38, 0), "duckdb": (18, 3), "bigquery": (38, 9)}


@lru_cache(maxsize=4)
def _printer(name: str) -> type[Dialect]:
    """Spark's dialect, which prints exact percentiles as such (sqlglot knows only Spark 2's)."""
    base: Any = row_dialect(name)

    class SparkGenerator(base.Generator):  # type: ignore[misc]
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            kind: printer
            for kind, printer in base.Generator.TRANSFORMS.items()
            if kind is not exp.WithinGroup
        }

    return type(f"Printed{base.__name__}", (base,), {"Generator": SparkGenerator})


def spark_sql(tree: exp.Expression, text: str, dialect: str) -> str:
    """The SQL that Spark runs for a tree read from `text`; places of errors are in that text."""
    _refuse_lost(tree, text, dialect)
    rewritten = _rewritten(tree, text, dialect)
    try:
        printed: str = _printed(rewritten)
    except NotPrinted:
        node, reason = _unprinted(rewritten)
        reason = reason.split(" when targeting ")[0]
        raise _refusal(node, text, dialect, reason) from None
    _refuse_gone(rewritten, printed, text, dialect)
    return printed


def duckdb_sql(tree: exp.Expression, text: str, dialect: str) -> str:
    """The SQL that DuckDB runs for a tree read from `text`; what it cannot say is refused."""
    try:
        printed = tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except NotPrinted as problem:
        reason = str(problem).splitlines()[0].rstrip(".")
        raise errors.UnsupportedFunctionError(
            f"the statement has a part that has no equivalent in DuckDB's SQL: {reason}",
            remedy="write it in another way, compute it into a column, or run it on Spark",
            place=errors.Place.at_offset(text, 0),
        ) from None
    _refuse_gone(tree, printed, text, dialect, "duckdb")
    return printed


def start_of(node: exp.Expression) -> int | None:
    """Where a node begins in the text, as far as the parser noted it."""
    starts = [n.meta["start"] for n in node.walk() if n._meta and n.meta.get("start") is not None]
    return min(starts, default=None)


def _printed(tree: exp.Expression) -> str:
    return tree.sql(dialect=_printer("spark"), unsupported_level=ErrorLevel.RAISE)


def _unprinted(tree: exp.Expression) -> tuple[exp.Expression, str]:
    """The innermost node that cannot be printed, and why."""
    reason = ""
    while True:
        for child in (tree, *tree.iter_expressions()) if not reason else tree.iter_expressions():
            try:
                _printed(child)
            except NotPrinted as problem:
                tree, reason = child, str(problem).splitlines()[0]
                break
        else:
            return tree, reason


def _refusal(
    node: exp.Expression, text: str, dialect: str, reason: str, remedy: str = ""
) -> errors.UnsupportedFunctionError:
    placed: Any = node
    while start_of(placed) is None and placed.parent is not None:
        placed = placed.parent
    # As its dialect writes it; in Spark's own, what Spark lacks would be missing.
    written = shown(node, dialect if dialect in _OTHERS else "")
    return errors.UnsupportedFunctionError(
        f"{written} has no equivalent in Spark's SQL: {reason.rstrip('.')}",
        remedy=remedy or "write it with functions that Spark has, or compute it into a column",
        place=errors.Place.at_offset(text, start_of(placed) or 0),
    )


def shown(node: exp.Expression, dialect: str = "spark") -> str:
    """A node on a line that is not too long."""
    text = node.sql(dialect=dialect, unsupported_level=ErrorLevel.IGNORE).strip()
    return text if len(text) <= 60 else text[:57] + "..."


# -- what Spark has in another form ------------------------------------------------------------


def _rewritten(tree: exp.Expression, text: str, dialect: str) -> Any:
    """Parts before the whole: what takes a node's place takes its parts over as they are."""
    rewritten: Any = tree.copy()
    for node in reversed(list(rewritten.walk())):
        rewrite = _EXACT.get(type(node))
        found = node if rewrite is None else rewrite(node, text, dialect)
        if found is node:
            continue
        if node is rewritten:
            rewritten = found
        else:
            node.replace(found)
    return rewritten


def _try(node: exp.Try, text: str, dialect: str) -> exp.Expression:
    found = tried(node.this)
    if found is None:
        raise _refusal(node, text, dialect, NO_TRY, INSTEAD_OF_TRY)
    return exp.Paren(this=found)


def _percentile(node: exp.WithinGroup, text: str, dialect: str) -> exp.Expression:
    """Nulls do not count in a percentile, and Spark refuses a clause that says where they sort."""
    if isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc)):
        for ordered in node.find_all(exp.Ordered):
            ordered.set("nulls_first", not ordered.args.get("desc"))
    return node


def _date_add(node: exp.DateAdd, text: str, dialect: str) -> exp.Expression:
    """Spark's DATE_ADD gives a date, where these dialects keep the time of day."""
    unit = node.args.get("unit")
    days = {"DAY": 1, "WEEK": 7}.get(unit.name.upper() if unit is not None else "DAY")
    if days is None:
        return node
    count = node.expression
    if days == 7:
        count = exp.Mul(this=exp.Paren(this=count), expression=exp.Literal.number(7))
    span = exp.Anonymous(
        this="MAKE_INTERVAL", expressions=[*(exp.Literal.number(0) for _ in range(3)), count]
    )
    return exp.Paren(this=exp.Add(this=exp.Paren(this=node.this), expression=span))


def _date_difference(node: exp.DateDiff, text: str, dialect: str) -> exp.Expression:
    """Snowflake counts boundaries that are crossed, Spark whole units that have passed."""
    if not node.args.get("date_part_boundary"):
        return node
    unit = node.args["unit"].name.upper()
    ends = (
        exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit), end])
        for end in (node.expression, node.this)
    )
    return exp.Anonymous(this="DATEDIFF", expressions=[exp.Var(this=unit), *ends])


def _regular(node: exp.RegexpLike, text: str, dialect: str) -> exp.Expression:
    """Flags go into the expression, and a match of the whole text is spelt out."""
    flags = node.args.get("flag")
    if flags is None and not node.args.get("full_match"):
        return node
    known = "" if flags is None else flags.name.lower() if flags.is_string else "?"
    if set(known) - set("ims") or (flags is not None and dialect not in _OTHERS):
        raise _refusal(
            node,
            text,
            dialect,
            "flags other than i, m and s",
            "write the flags into the pattern: '(?i)x'",
        )
    before = f"(?{known})" if known else ""
    after = ""
    if node.args.get("full_match"):
        before, after = rf"\A{before}(?:", r")\z"
    pattern = node.expression
    if pattern.is_string:
        whole: exp.Expression = exp.Literal.string(before + pattern.name + after)
    else:
        parts = [exp.Literal.string(before), pattern, exp.Literal.string(after)]
        whole = exp.Anonymous(this="CONCAT", expressions=parts)
    return exp.RegexpLike(this=node.this, expression=whole)


def _cast(node: exp.Cast, text: str, dialect: str) -> exp.Expression:
    """A DECIMAL without a precision is another one in each dialect."""
    bare = node.to.this == exp.DType.DECIMAL and not node.to.expressions
    if not bare or dialect not in (*_BARE_DECIMALS, "oracle"):
        return node
    if isinstance(node.this, exp.Literal) and node.this.is_string and dialect == "trino":
        return exp.Literal.number(node.this.name.strip())  # DECIMAL '1.50'
    if dialect == "oracle":
        raise _refusal(
            node,
            text,
            dialect,
            "NUMBER without a precision keeps every digit",
            "give it a precision and a scale, such as NUMBER(38, 10), or use BINARY_DOUBLE",
        )
    node.to.set(
        "expressions",
        [exp.DataTypeParam(this=exp.Literal.number(n)) for n in _BARE_DECIMALS[dialect]],
    )
    return node


def _try_cast(node: exp.TryCast, text: str, dialect: str) -> exp.Expression:
    """TRY_TO_DATE('x') and the like are not marked; in Spark's dialects the mark means TRY_CAST."""
    if dialect in _OTHERS:
        node.set("safe", True)
    return node


def _to_double(node: exp.ToDouble, text: str, dialect: str) -> exp.Expression:
    if not node.args.get("safe") or node.args.get("format") is not None:
        return node
    return exp.TryCast(this=node.this, to=exp.DataType.build("double"), safe=True)


def _to_date(node: exp.TsOrDsToDate, text: str, dialect: str) -> exp.Expression:
    """TRY_TO_DATE; sqlglot prints it as TO_DATE, which raises."""
    if not node.args.get("safe"):
        return node
    if node.args.get("format") is not None:
        raise _refusal(node, text, dialect, "a format is not translated", "use TRY_CAST(a AS DATE)")
    return exp.TryCast(this=node.this, to=exp.DataType.build("date"), safe=True)


_EXACT: dict[Any, Callable[[Any, str, str], exp.Expression]] = {
    exp.Try: _try,
    exp.WithinGroup: _percentile,
    exp.DateAdd: _date_add,
    exp.DateDiff: _date_difference,
    exp.RegexpLike: _regular,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.ToDouble: _to_double,
    exp.TsOrDsToDate: _to_date,
}

# -- what Spark has in no form, and sqlglot does not warn of -----------------------------------


def _lost(node: exp.Expression) -> tuple[str, str] | None:
    """Why a node cannot be said in Spark's SQL, and what to do."""
    match node:
        case exp.LimitOptions() if node.args.get("with_ties"):
            return "WITH TIES keeps rows that tie with the last", "use RANK() in a sub-query"
        case exp.LimitOptions() if node.args.get("percent"):
            return "a limit is a number of rows", "use PERCENT_RANK() in a sub-query"
        case exp.ArrayAgg(this=exp.Order()):
            return (
                "the order of its arrays is not guaranteed",
                "sort the array: array_sort(array_agg(struct(key, value)))",
            )
        case exp.Max() | exp.Min() if node.expressions:
            return (
                "the n greatest or least values",
                "take a slice of array_sort(array_agg(...))",
            )
        case exp.GroupConcat() if isinstance(
            node.args.get("on_overflow"), exp.OverflowTruncateBehavior
        ):
            return "ON OVERFLOW TRUNCATE", "leave it out: Spark's texts have no such bound"
        case exp.AtTimeZone():
            return (
                "a timestamp has no zone of its own",
                "use from_utc_timestamp, to_utc_timestamp or convert_timezone",
            )
        case exp.Rand() if node.args.get("lower") is not None or node.args.get("upper"):
            return "random numbers between bounds", "scale RAND()"
        case exp.RegexpReplace() if _given(node, "occurrence", "0"):
            return "the number of the occurrence", "leave it out: every occurrence is replaced"
        case exp.Unnest() if node.args.get("offset"):
            return "WITH ORDINALITY counts from 1", "use posexplode(...), and add 1"
        case exp.Join(this=exp.Unnest()) if node.side:
            return (
                f"{node.side} JOIN UNNEST keeps rows whose array is empty",
                "use LATERAL VIEW OUTER explode(...) in a sub-query in Spark's SQL",
            )
        case exp.ToBoolean() | exp.ParseJSON() if node.args.get("safe"):
            return "a conversion that gives null where it fails", "use TRY_CAST"
        case exp.DataType(this=exp.DType.BIGDECIMAL):
            return "decimals have 38 digits", "give it a precision and a scale within them"
        case exp.DateDiff() if isinstance(node.args.get("unit"), exp.WeekStart):
            return "weeks begin on Monday", "count days, and divide by 7"
        case exp.DataType(this=exp.DType.TIME):
            return "the type TIME", "keep a timestamp, or a text"
    return None


def _given(node: exp.Expression, role: str, default: str) -> bool:
    value = node.args.get(role)
    return value is not None and value.name != default


def _refuse_lost(tree: exp.Expression, text: str, dialect: str) -> None:
    for node in tree.find_all(exp.Expression):
        found = _lost(node)
        if found is not None:
            raise _refusal(node, text, dialect, *found)


# -- what is gone when the print is read again -------------------------------------------------


def _parts(tree: exp.Expression) -> Iterator[type[exp.Expression]]:
    for node in tree.walk():
        for kind in _KEPT:
            if isinstance(node, kind):
                yield kind
        if node.args.get("safe") is True and isinstance(node, exp.TryCast):
            yield exp.TryCast


def _refuse_gone(
    tree: exp.Expression, printed: str, text: str, dialect: str, target: str = "spark"
) -> None:
    try:
        again: Any = sqlglot.parse_one(printed, dialect=row_dialect(target))
    except (ParseError, TokenError):
        return  # the engine judges what only it can read
    gone = Counter(_parts(tree)) - Counter(_parts(again))
    for kind in gone:
        node = next(found for found in tree.find_all(kind))
        what = _KEPT.get(kind, "TRY_CAST")
        raise _refusal(node, text, dialect, f"{what} is lost in the translation")

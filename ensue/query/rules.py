"""Rules a query must keep before anything runs (SQL:2016; each function is one rule).

The front ends raise the same errors with a position where they know it; this is the net under
them, and the only check for queries assembled by hand.
"""

from __future__ import annotations

from collections.abc import Iterable

from ensue import errors
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.depth import check_characters
from ensue.query.event_rules import check_events
from ensue.query.missing import check_missing
from ensue.query.query import Query, Rows, SkipMode, WindowKind

# Functions whose value differs from call to call: a condition must give the same answer when it
# is asked twice, or matches would depend on the order of evaluation.
NONDETERMINISTIC = frozenset(
    {
        "rand", "random", "randn", "uniform", "randstr", "uuid", "shuffle",
        "monotonically_increasing_id", "spark_partition_id", "input_file_name",
        "current_timestamp", "currenttimestamp", "now", "localtimestamp", "current_date",
        "currentdate", "currentdatetime", "current_time", "currenttime",
    }
)  # fmt: skip
# Columns that Ensue adds to what it ships to a worker start with this.
RESERVED_PREFIX = "__ensue"
LISTING_COLUMNS = ("match_number", "first", "last", "events")
MAX_REPETITION = 10_000


def check(query: Query) -> Query:
    """The query itself, if it keeps every rule."""
    for name in (*query.variables, *(measure.name for measure in query.measures or ())):
        check_characters(name, "the name")
    _labels(query)
    _subsets(query)
    _definitions(query)
    _measures(query)
    _skip(query)
    _output(query)
    if not query.row_semantics:
        check_events(query)
    check_missing(query)
    _window(query)
    for condition in query.conditions():
        _deterministic(condition)
    return query


def reserved(name: str) -> errors.ReservedNameError:
    return errors.ReservedNameError(
        f"the name {name!r} starts with {RESERVED_PREFIX!r}, which Ensue keeps for its own columns",
        remedy="choose another name",
    )


def duplicates(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise errors.DuplicateNameError(
                f"the name {name!r} is given twice: each {what} needs its own",
                remedy=f"give each {what} a name of its own",
            )
        seen.add(name)


def unknown_variable(name: str, where: str, query: Query) -> errors.UnknownVariableError:
    known = ", ".join(query.variables)
    return errors.UnknownVariableError(
        f"{where} names the variable {name!r}, which the pattern does not have",
        remedy=f"use one of: {known}, or declare it with SUBSET",
    )


def _labels(query: Query) -> None:
    for name in query.labels:
        if name.startswith(RESERVED_PREFIX):
            raise reserved(name)
    for node in nodes.walk(query.pattern):
        if isinstance(node, nodes.Repetition):
            bounds(node.least, node.most)


def bounds(least: int, most: int | None, place: errors.Place | None = None) -> None:
    """A quantifier's bounds are ordered and below the limit."""
    if most is not None and most < least:
        raise errors.PatternSyntaxError(
            f"the quantifier {{{least},{most}}} asks for at least {least} and at most {most}",
            remedy=f"write {{{most},{least}}} if that is meant",
            place=place,
        )
    if most == 0:
        raise errors.PatternSyntaxError(
            "a quantifier's upper bound must be at least 1",
            remedy="leave the part out",
            place=place,
        )
    if max(least, most or 0) > MAX_REPETITION:
        raise errors.LimitError(
            f"the repetition {max(least, most or 0):,} is above the limit of {MAX_REPETITION:,}",
            remedy="use `+` or `*` with a COUNT condition, or raise "
            "ensue.query.rules.MAX_REPETITION",
            place=place,
        )


def _subsets(query: Query) -> None:
    duplicates((name for name, _ in query.subsets), "subset")
    for name, members in query.subsets:
        if name in query.labels:
            raise errors.DuplicateNameError(
                f"the subset {name!r} has the name of a primary variable",
                remedy="choose another name for the subset",
            )
        for member in members:
            if member not in query.labels:
                raise unknown_variable(member, f"SUBSET {name}", query)


def _definitions(query: Query) -> None:
    duplicates((name for name, _ in query.define), "definition")
    subsets = dict(query.subsets)
    for name, condition in query.define:
        if name in subsets:
            raise errors.QueryError(
                f"DEFINE {name}: a subset variable cannot be defined",
                remedy=f"define its members instead: {', '.join(subsets[name])}",
            )
        if name not in query.labels:
            raise unknown_variable(name, f"DEFINE {name}", query)
        for node in c.walk(condition):
            if isinstance(node, (c.Navigate, c.Aggregate)) and node.final:
                raise errors.NavigationError(
                    f"DEFINE {name}: FINAL is not allowed in a definition, because "
                    "the match is not finished yet",
                    remedy="leave FINAL out, or use it in MEASURES",
                )


def _measures(query: Query) -> None:
    measures = query.measures or ()
    # Measures become columns, whose names Spark tells apart without regard to case.
    duplicates((m.name.casefold() for m in measures), "measure")
    for measure in measures:
        if measure.name.startswith(RESERVED_PREFIX):
            raise reserved(measure.name)
    duplicates((name.casefold() for name in query.partition_by), "partition column")
    taken = {name.casefold() for name in query.partition_by}
    if query.rows is not Rows.ONE:
        taken |= {key.column.casefold() for key in query.order_by}
    for measure in measures:
        if measure.name.casefold() in taken:
            raise errors.DuplicateNameError(
                f"the measure {measure.name!r} has the name of a partition or order column",
                remedy="choose another name for the measure",
            )
    for name in query.partition_by:
        if query.measures is None and name.casefold() in LISTING_COLUMNS:
            raise errors.ReservedNameError(
                f"the partition column {name!r} has the name of a column of the listing",
                remedy="name the measures you want with .measures(...), or rename the column",
            )


def _skip(query: Query) -> None:
    skip = query.skip
    if skip.mode in (SkipMode.TO_FIRST, SkipMode.TO_LAST) and skip.variable not in query.variables:
        raise unknown_variable(str(skip.variable), "AFTER MATCH SKIP", query)


def _window(query: Query) -> None:
    window = query.within
    if window is not None and window.kind is not WindowKind.ROWS and not query.order_by:
        raise errors.QueryError(
            "WITHIN measures the order column, and the query has no ORDER BY",
            remedy="add order_by(...), or use a window in rows: within('500 rows')",
        )


def _output(query: Query) -> None:
    excludes = any(isinstance(n, nodes.Exclusion) for n in nodes.walk(query.pattern))
    if excludes and query.rows is Rows.ALL_WITH_UNMATCHED:
        raise errors.QueryError(
            "exclusion {- -} cannot be combined with ALL ROWS PER MATCH WITH UNMATCHED ROWS",
            remedy="drop WITH UNMATCHED ROWS or the exclusion",
        )
    if query.rows is Rows.ONE and query.measures == () and not query.partition_by:
        raise errors.QueryError(
            "the output would have no column: no PARTITION BY and no MEASURES",
            remedy="add a measure or a partition column",
        )


def _deterministic(condition: c.Condition) -> None:
    for node in c.walk(condition):
        if isinstance(node, c.Call):
            name = node.function
            if name == "anonymous":
                name = str(node["this"]).lower()
            if name in NONDETERMINISTIC:
                raise errors.NondeterministicError(
                    f"{name}() gives a different value each time, so no match could be checked "
                    "twice",
                    remedy="compute it into a column before matching",
                )

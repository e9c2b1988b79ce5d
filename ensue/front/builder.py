"""The fluent builder's parts: texts and Columns to a frozen `Query`.

`Draft` holds what the user has said so far, as text; `build` turns it into a query. Texts are
parsed for syntax when they are said, and resolved against the variables only when the query is
built, so that a SUBSET may be declared after the condition that uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from ensue import errors
from ensue.front.columns import column_text, is_column
from ensue.front.expressions import Scope, parse_condition, parse_sql
from ensue.query import condition as c
from ensue.query import nodes, rules
from ensue.query.depth import roomy
from ensue.query.duration import parse_duration, spelled
from ensue.query.missing import Effort, Missing, as_missing
from ensue.query.query import (
    PAST_LAST_ROW,
    Measure,
    OrderKey,
    Query,
    Rows,
    Skip,
    SkipMode,
    Ties,
    Unordered,
    Window,
    WindowKind,
)
from ensue.query.variables import resolve

MAX_WINDOW = 2**62  # microseconds, units or rows
_ORDER = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s`]+))"
    r"(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)
_MEASURE = re.compile(r"\s*(?P<text>.+?)\s+AS\s+(?P<name>\w+)\s*", re.IGNORECASE | re.DOTALL)
_DEFINITION = re.compile(r"\s*(?P<name>\w+)\s+AS\s+(?P<text>.+?)\s*", re.IGNORECASE | re.DOTALL)
_ROWS = {
    "one row": Rows.ONE,
    "one row per match": Rows.ONE,
    "all rows": Rows.ALL_SHOW_EMPTY,
    "all rows per match": Rows.ALL_SHOW_EMPTY,
    "all rows show empty": Rows.ALL_SHOW_EMPTY,
    "all rows per match show empty matches": Rows.ALL_SHOW_EMPTY,
    "all rows omit empty": Rows.ALL_OMIT_EMPTY,
    "all rows per match omit empty matches": Rows.ALL_OMIT_EMPTY,
    "all rows with unmatched": Rows.ALL_WITH_UNMATCHED,
    "all rows per match with unmatched rows": Rows.ALL_WITH_UNMATCHED,
}
_SKIP = {
    "past last row": SkipMode.PAST_LAST_ROW,
    "to next row": SkipMode.TO_NEXT_ROW,
    "next row": SkipMode.TO_NEXT_ROW,
    "next": SkipMode.TO_NEXT_ROW,
    "past last event": SkipMode.PAST_LAST_ROW,
    "to next": SkipMode.TO_NEXT_ROW,
    "to next event": SkipMode.TO_NEXT_ROW,
    "no skip": SkipMode.NONE,
}


# With ALL ROWS PER MATCH a row stands once for every match of an event pattern that has it.
_WHOSE = (("match_number", "MATCH_NUMBER()"), ("label", "CLASSIFIER()"))


@dataclass(frozen=True)
class Draft:
    """What a builder has been given; conditions as SQL text."""

    pattern: nodes.Node
    types: str | None = None
    define: tuple[tuple[str, str], ...] = ()
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partition_by: tuple[str, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    unordered: bool = False  # said so: order_by(UNORDERED)
    ties: Ties = Ties.WARN
    measures: tuple[tuple[str, str], ...] | None = None
    rows: Rows = Rows.ONE
    skip: Skip | None = None  # None: past the last row; no skip for event patterns
    within: Window | None = None
    selection: nodes.Policy | None = None
    without: tuple[tuple[str, str], ...] = ()
    events: bool = False  # event semantics, whatever the joints
    skip_text: tuple[str, bool] | None = None  # after_match said before its target was
    missing: Missing | None = None
    # What refuses a query of a text that may ask for a pattern and for nothing else.
    fence: Callable[[Query], None] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Primary variables: those of the pattern, then the forbidden ones."""
        return nodes.labels(self.pattern) + tuple(name for name, _ in self.without)

    @property
    def meant(self) -> nodes.Node:
        """The pattern with the policy of `select` in place of its blanks."""
        if self.selection in (None, nodes.Policy.STRICT):
            return self.pattern
        return nodes.with_blank(self.pattern, self.selection)

    @roomy
    def build(self) -> Query:
        """The query, checked; every name resolved."""
        primary = self.labels
        pattern = self.meant
        events = self.events or self.selection is not None or bool(self.without)
        events = events or not nodes.is_strict(pattern)
        variables = primary + tuple(name for name, _ in self.subsets)
        given: dict[str, list[c.Condition]] = {label: [] for label in primary}
        if self.types is not None:
            column = c.Navigate(c.Column(self.types))
            for label in nodes.labels(self.pattern):
                given[label].append(c.binary("eq", column, c.Literal("string", label)))
        for name, text in (*self.define, *self.without):
            scope = Scope(variables, f"DEFINE {name}", define=True)
            given.setdefault(name, []).append(parse_condition(text, scope))
        said = self.measures
        if said is None and events and self.rows.all_rows:
            said = _WHOSE
        measures = None
        if said is not None:
            measures = tuple(
                Measure(name, parse_condition(text, Scope(variables, f"measure {name}")))
                for name, text in said
            )
        found = rules.check(
            Query(
                pattern=pattern,
                define=tuple((k, c.conjunction(v)) for k, v in given.items() if v),
                subsets=self.subsets,
                partition_by=self.partition_by,
                order_by=self.order_by,
                measures=measures,
                rows=self.rows,
                skip=self._skip() or (Skip(SkipMode.NONE) if events else PAST_LAST_ROW),
                within=self.within,
                selection=None if events else self.selection,
                all_matches=events,
                without=tuple(name for name, _ in self.without),
                missing=self.missing,
                ties=self.ties,
            )
        )
        if self.fence is not None:
            self.fence(found)
        return found

    def total(self, text: str, query: Query) -> c.Condition:
        """What a summary of the query sums up."""
        found = parse_condition(text, Scope(query.variables, "total"))
        if self.fence is not None:
            self.fence(replace(query, measures=(Measure("total", found),)))
        return found

    def _skip(self) -> Skip | None:
        return (
            self.skip
            if self.skip_text is None
            else skip(self.skip_text[0], self, self.skip_text[1])
        )

    def texts(self) -> tuple[tuple[str, str], ...]:
        """(where, text) of every condition and measure, for error positions."""
        return tuple((f"DEFINE {n}", t) for n, t in self.define + self.without) + tuple(
            (f"measure {n}", t) for n, t in self.measures or ()
        )

    def defined(self, conditions: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """The definitions with these added; of a label that has one, in its place."""
        known = dict(self.define)
        said = set()
        for name, text in expression_texts(conditions, "DEFINE"):
            label = self.variable(name, f"DEFINE {name}")
            if label in said:
                raise errors.DuplicateNameError(
                    f"{label!r} is defined twice in one define(...)",
                    remedy="join the two conditions with AND",
                )
            said.add(label)
            known[label] = text
        return tuple(known.items())

    def by_name(self, verb: str, unnamed: Sequence[object]) -> None:
        """Refuse what is given without a name; the form is shown with it where it is text."""
        if not unnamed:
            return
        text = unnamed[0] if isinstance(unnamed[0], str) else "..."
        name = {"measures": "n", "without": "stop"}.get(verb) or self.labels[0]
        said = (_MEASURE if verb == "measures" else _DEFINITION).fullmatch(text)
        name, text = (said["name"], said["text"]) if said else (name, text)
        raise errors.QueryError(
            f"{verb}({unnamed[0]!r}): {verb} takes keyword arguments",
            remedy=f"write {verb}({name}={json.dumps(text, ensure_ascii=False)})",
        )

    def placed(self, problem: errors.EnsueError, index: Iterable[object] = ()) -> errors.EnsueError:
        """The error with the position of the name in the text that has it.

        A column may be missing since it is the one of `types`, or an index of the table given.
        """
        name = re.search(r"'([^']+)'", problem.problem)
        if isinstance(problem, errors.UnknownColumnError) and name is not None:
            if name[1] in index:
                remedy = f"{name[1]!r} is an index of the table: give data.reset_index()"
                problem = type(problem)(problem.problem, remedy=remedy)
            elif name[1] == self.types and problem.problem.startswith("DEFINE "):
                what = f"types={name[1]!r}: the input has no column {name[1]!r}"
                problem = type(problem)(what, remedy=problem.remedy)
        if problem.place is None and name is not None:
            for where, text in self.texts():
                found = re.search(rf"(?<![\w.]){re.escape(name[1])}\b", text, re.IGNORECASE)
                if problem.problem.startswith(where + ":") and found:
                    return problem.at(errors.Place.at_offset(text, found.start()))
        return problem

    def variable(self, name: str, where: str) -> str:
        variables = self.labels + tuple(n for n, _ in self.subsets)
        found = resolve(name, variables)
        if found is None:
            raise errors.UnknownVariableError(
                f"{where} names the variable {name!r}, which the pattern does not have",
                remedy=f"use one of: {', '.join(variables)}",
            )
        return found


def expression_text(value: object, where: str) -> str:
    """Text of a condition given as text or as a Column; its syntax is checked."""
    if is_column(value):
        value = column_text(value, where)
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str):
        raise errors.ConditionSyntaxError(
            f"{where} is {value!r}, a {type(value).__name__}",
            remedy='give SQL text, such as "price > 10", or a pyspark Column',
        )
    parse_sql(value, where)
    return value


def expression_texts(given: Mapping[str, object], what: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, expression_text(v, f"{what} {name}")) for name, v in given.items())


def as_text(value: object, where: str) -> str:
    """A text argument; a list or number in its place is the usual slip."""
    if not isinstance(value, str):
        raise errors.QueryError(
            f"{where} takes text, not {value!r}",
            remedy=f'write {where}("..."), several as separate arguments',
        )
    return value


def listed(given: Iterable[Any]) -> list[Any]:
    """Arguments of which each may be a list: `f("a", "b")` and `f(["a", "b"])` say the same."""
    return [item for one in given for item in (one if isinstance(one, list | tuple) else (one,))]


def order(keys: Sequence[str | OrderKey | Unordered], ties: str) -> dict[str, Any]:
    """What `order_by` changes in a draft."""
    try:
        told = Ties(ties)
    except ValueError:
        raise errors.QueryError(
            f"order_by(ties={ties!r}) is not known", remedy="use 'error', 'warn' or 'ignore'"
        ) from None
    named = [key for key in keys if not isinstance(key, Unordered)]
    if named and len(named) < len(keys):
        raise errors.QueryError(
            "order_by(UNORDERED) says that any order will do, and columns were given too",
            remedy="give the columns, or UNORDERED alone",
        )
    found = tuple(order_key(key) for key in named)
    return {"order_by": found, "unordered": len(keys) > len(named), "ties": told}


def order_key(text: str | OrderKey) -> OrderKey:
    """`ts`, `ts DESC`, `ts DESC NULLS FIRST`."""
    if isinstance(text, OrderKey):
        return text
    found = _ORDER.fullmatch(as_text(text, "order_by"))
    if found is None:
        raise errors.QueryError(
            f"ORDER BY {text!r} is not a column with an optional direction",
            remedy="write 'ts', 'ts DESC' or 'ts DESC NULLS LAST'; put other columns in their own "
            "argument, and back-quote a name with spaces",
        )
    name = found["name"] or found["quoted"].replace("``", "`")
    nulls = found["nulls"]
    return OrderKey.of(
        name,
        (found["direction"] or "").lower() == "desc",
        None if nulls is None else nulls.lower() == "first",
    )


def window(size: str | int | float | timedelta) -> Window:
    """`within`: a duration, a number of order units, or `"500 rows"`."""
    size = spelled(size)
    if isinstance(size, bool) or not isinstance(size, (str, int, float)):
        raise errors.QueryError(
            f"within takes a duration, a number or 'n rows', not {size!r}",
            remedy="write within('1 hour'), within(timedelta(hours=1)), within(100) or "
            "within('500 rows')",
        )
    if isinstance(size, str):
        counted = re.fullmatch(r"\s*(\d+)\s+rows?\s*", size, flags=re.IGNORECASE)
        if counted:
            result = Window(WindowKind.ROWS, int(counted[1]))
        elif re.fullmatch(r"\s*\d+(\.\d+)?\s*", size):
            result = Window(WindowKind.NUMBER, float(size) if "." in size else int(size))
        else:
            result = Window(WindowKind.TIME, parse_duration(size))
    else:
        result = Window(WindowKind.NUMBER, size)
    least = 1 if result.kind is WindowKind.ROWS else 0
    if not result.size >= least:
        raise errors.QueryError(
            f"within({size!r}) is below {least}", remedy="give a window that can hold a match"
        )
    if not result.size < MAX_WINDOW:
        raise errors.LimitError(
            f"within({size!r}) is above {MAX_WINDOW:,}", remedy="leave within out for no bound"
        )
    return result


def rows_per_match(text: str) -> Rows:
    found = _ROWS.get(" ".join(as_text(text, "rows_per_match").lower().split()))
    if found is None:
        raise errors.QueryError(
            f"rows_per_match({text!r}) is not known",
            remedy="use one of: " + ", ".join(sorted(_ROWS)),
        )
    return found


def skip(text: str, draft: Draft, required: bool = False) -> Skip:
    """`past last row`, `to next row`, `to first B`, `to last B`, `to B`, `no skip`."""
    folded = " ".join(as_text(text, "after_match").split())
    if folded.lower().startswith("skip "):
        folded = folded[5:]
    mode = _SKIP.get(folded.lower())
    if mode is not None:
        return Skip(mode)
    found = re.fullmatch(r"to\s+(?:(first|last)\s+)?(\S.*)", folded, flags=re.IGNORECASE)
    if found is None:
        raise errors.QueryError(
            f"after_match({text!r}) is not known",
            remedy="use 'no skip', 'past last row', 'to next row', 'to first X' or 'to last X'",
        )
    name = found[2].strip('"`')
    first = (found[1] or "last").lower() == "first"
    variable = draft.variable(name, "after_match")
    return Skip(SkipMode.TO_FIRST if first else SkipMode.TO_LAST, variable, required)


def missing(
    draft: Draft,
    bound: object,
    weights: Mapping[str, object] | None,
    required: Sequence[str],
    effort: Mapping[str, Any],
) -> Missing:
    """`allow_missing`: labels resolved, numbers and options checked."""
    if isinstance(required, str):
        required = (required,)
    try:
        options = Effort(**effort)
    except TypeError:
        known = ", ".join(field.name for field in fields(Effort))
        raise errors.QueryError(
            f"allow_missing does not know {', '.join(effort)}", remedy=f"its options are: {known}"
        ) from None
    priced = None
    if weights is not None:
        priced = {draft.variable(name, "allow_missing"): value for name, value in weights.items()}
    named = tuple(draft.variable(name, "allow_missing(required=...)") for name in required)
    return as_missing(bound, priced, named, options)

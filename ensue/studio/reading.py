"""A typed query to the pattern that it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.front import builder
from ensue.front.clause import MatchTable
from ensue.front.expressions import Scope, parse_condition
from ensue.front.sql import read_table
from ensue.front.statement import parse_statement
from ensue.query.query import Measure, Query, Rows
from ensue.scalar.fence import check_query
from ensue.studio.python_text import read_python
from ensue.studio.texts import TEXT, Spot, TextError, Typed, inside, lines, reading, spot_of


@dataclass(frozen=True)
class Settled(builder.Draft):
    """The draft of a query that was read whole."""

    whole: Query | None = None

    def build(self) -> Query:
        assert self.whole is not None
        if self.measures is None and self.whole.measures is not None:
            return replace(self.whole, measures=None, rows=Rows.ONE)
        if not self.measures:
            return self.whole
        asked = tuple(  # said later: the aggregates of a count
            Measure(name, parse_condition(text, Scope(self.whole.variables, f"measure {name}")))
            for name, text in self.measures
        )
        return replace(self.whole, measures=asked)


def settled(query: Query) -> Pattern:
    """The pattern of a query."""
    draft = Settled(
        query.pattern,
        partition_by=query.partition_by,
        order_by=query.order_by,
        measures=() if query.measures is not None else None,
        ties=query.ties,
        whole=query,
    )
    return Pattern(draft)


def read(typed: Typed) -> Pattern:
    """The pattern, its query built; a mistake is a TextError with its spot."""
    try:
        found = _READERS[typed.language](typed)
        check_query(found.query)  # Spark evaluates parts of what is typed
        return found
    except errors.EnsueError as problem:
        raise TextError(problem, spot_of(problem, typed)) from None


def _sql(typed: Typed) -> Pattern:
    dialect = typed.options.get("dialect", "spark").strip()
    with reading(TEXT, typed.text):
        tables = list(parse_statement(typed.text, dialect).find_all(MatchTable))
        if len(tables) != 1:
            raise errors.QueryError(
                f"the statement has {len(tables)} MATCH_RECOGNIZE clauses, and one can be shown",
                remedy="write SELECT * FROM events MATCH_RECOGNIZE (...)",
            )
        found = read_table(tables[0], dialect)
        if found.hidden or found.all_matches or found.timeouts:
            what = (
                "a sub-query or an expression in ORDER BY"
                if found.hidden
                else "OVER ALL MATCHES or WITH TIMEOUTS"
            )
            raise errors.UnsupportedError(
                f"{what} is not shown here: the clause has to stand on its own",
                remedy="leave it out, or run the statement with ensue.sql",
            )
    return settled(found.query)


def _python(typed: Typed) -> Pattern:
    return read_python(typed.text)


def _pattern(typed: Typed) -> Pattern:
    with reading(TEXT, typed.text):
        found = ensue.pattern(typed.text, types=typed.options.get("types", "").strip() or None)
    return _with_options(found, typed)


def _sase(typed: Typed) -> Pattern:
    with reading(TEXT, typed.text):
        found = ensue.sase(typed.text, types=typed.options.get("types", "").strip() or "type")
    return _with_options(found, typed)


def _with_options(found: Pattern, typed: Typed) -> Pattern:
    for name, change in _CHANGES.items():
        text = typed.options.get(name)
        if text is not None:
            found = change(found, name, text)
    return found


def _each(word: str) -> Callable[[Pattern, str, str], Pattern]:
    """An option of one line per name."""

    def change(found: Pattern, name: str, text: str) -> Pattern:
        try:
            items = lines(text)
        except TextError as problem:
            assert problem.spot is not None
            raise TextError(problem.problem, replace(problem.spot, field=name)) from None
        for label, value, at, begin in items:
            try:
                found = getattr(found, word)(**{label: value})
            except (errors.UnknownVariableError, errors.DuplicateNameError) as problem:
                raise TextError(problem, Spot(name, at, len(label))) from None
            except errors.EnsueError as problem:
                offset, length = inside(problem, value)
                raise TextError(problem, Spot(name, begin + offset, length)) from None
        return found

    return change


def _columns(word: str) -> Callable[[Pattern, str, str], Pattern]:
    def change(found: Pattern, name: str, text: str) -> Pattern:
        with reading(name, text):
            parts = [part.strip() for part in split(text)]
            if word == "partition_by":
                parts = [re.sub(r"^`(.*)`$", r"\1", part) for part in parts]
            return getattr(found, word)(*parts)

    return change


def _one(word: str) -> Callable[[Pattern, str, str], Pattern]:
    def change(found: Pattern, name: str, text: str) -> Pattern:
        with reading(name, text):
            return getattr(found, word)(text.strip())

    return change


def _missing(found: Pattern, name: str, text: str) -> Pattern:
    with reading(name, text):
        if not text.strip().isdigit():
            raise errors.QueryError(
                f"{text.strip()!r} is not a number of missing events", remedy="write 1 or 2"
            )
        return found.allow_missing(int(text))


def split(text: str) -> list[str]:
    """Parts between commas that are not in back quotes."""
    parts, quoted, begin = [], False, 0
    for at, letter in enumerate(text):
        if letter == "`":
            quoted = not quoted
        elif letter == "," and not quoted:
            parts.append(text[begin:at])
            begin = at + 1
    return [part for part in (*parts, text[begin:]) if part.strip()]


_READERS: dict[str, Callable[[Typed], Pattern]] = {
    "pattern": _pattern,
    "sase": _sase,
    "sql": _sql,
    "python": _python,
}
_CHANGES: dict[str, Callable[[Pattern, str, str], Pattern]] = {
    "subset": _each("subset"),
    "define": _each("define"),
    "without": _each("without"),
    "partition_by": _columns("partition_by"),
    "order_by": _columns("order_by"),
    "within": _one("within"),
    "select": _one("select"),
    "after_match": _one("after_match"),
    "measures": _each("measures"),
    "rows_per_match": _one("rows_per_match"),
    "missing": _missing,
}

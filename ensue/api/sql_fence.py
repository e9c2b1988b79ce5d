"""The fence around a statement that strangers wrote: `ensue.sql(text, trust="pattern", ...)`.

One SELECT over the tables that were named, with its row patterns, and around them the functions of
the catalogue, aggregates and window functions. Every node of the tree has to be on the list: what
is not known here does not pass. Nothing is run, not even a row read, before all of it was checked.

To Spark a name that is no column may still be something: `user` is who runs the session, and a
variable of the session answers too. `check_columns` refuses what is no column of a table read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from sqlglot import exp

from ensue import errors
from ensue.front import sql as front
from ensue.front import window_clause
from ensue.front.clause import Clause, MatchTable, clause_in, clause_of
from ensue.front.statement import parse_statement
from ensue.front.translate import start_of
from ensue.scalar import fence
from ensue.scalar.functions import CATALOGUE, FORMS
from ensue.scalar.functions.shapes import PARSED, SYNONYMS

_AGGREGATES = (
    "count sum avg min max arrayagg arrayuniqueagg argmax argmin countif anyvalue logicaland "
    "logicalor stddev stddevsamp stddevpop variance variancepop filter"
)
_OVER = (
    "window windowspec rownumber rank denserank ntile percentrank cumedist lag lead firstvalue "
    "lastvalue nthvalue"
)
_PARTS = (
    "select from table tablealias matchtable alias identifier column star where group having order "
    "ordered limit offset fetch distinct qualify join literal boolean null paren var tuple "
    "datatype datatypeparam intervalspan aliases"
)
_NODES = {*_AGGREGATES.split(), *_OVER.split(), *_PARTS.split(), *PARSED, *CATALOGUE, *FORMS}
# Called by their names: the match's own functions, aggregates that the parser has no node for.
_CALLED = {"first", "last", "prev", "next", "classifier", "match_number", "every", "some", "mean"}
_CALLED |= {"map_agg", "multimap_agg", "map_union"}
_NAMES = {*CATALOGUE, *FORMS, *SYNONYMS, *_CALLED}
# What Spark calls without brackets where no column has the name, an alias or not.
_BARE = {
    *("current_date", "current_time", "current_timestamp", "localtimestamp"),
    *("current_user", "session_user", "user", "grouping__id"),
}


def check(text: str, dialect: str, reads: Collection[str]) -> None:
    """Refuse a statement that does more than match patterns in the tables `reads`."""
    if "${" in text:
        raise _refused("${...}, which Spark replaces,", text, text.index("${"))
    tree = parse_statement(text, dialect)
    if not isinstance(tree, exp.Select):
        raise _refused(f"{tree.key.upper()} in place of one SELECT", text, 0)
    allowed = {name.lower() for name in reads}  # as Spark compares them: ß is not ss
    for node in tree.walk():
        if node is not tree:
            _check_node(node, text, allowed)
    clauses = list(tree.find_all(MatchTable))
    windows = [node for node in tree.find_all(exp.Window) if clause_of(node) is not None]
    if not (clauses or windows):
        raise _refused("a statement without a row pattern", text, 0)
    for table in clauses:
        _check_clause(front.read_table(table, dialect), clause_in(table))
    if windows:  # last, since what is read over them is replaced in the tree
        for window in window_clause.take_apart(tree, dialect).windows:
            asked = front.MatchQuery(window.window.query, window.hidden)
            _check_clause(asked, window.clause)
            for measure in window.named:
                fence.check_condition(measure.value, f"measure {measure.name}")


def _check_clause(asked: front.MatchQuery, clause: Clause) -> None:
    for _, value in asked.hidden:
        what = f"{value.sql('spark')!r}, a sub-query or an expression outside the pattern,"
        raise fence.refused(what, "the row pattern", clause.place())
    try:
        fence.check_query(asked.query)
    except errors.UntrustedError as problem:
        raise problem.at(clause.place()) from None


def _check_node(node: Any, text: str, allowed: Collection[str]) -> None:
    at = start_of(node) or 0
    if isinstance(node, (exp.Query, exp.With, exp.CTE)):
        raise _refused("a sub-query", text, at)
    if isinstance(node, exp.Exists):
        raise _refused("EXISTS", text, at)
    if isinstance(node, exp.Table):
        parts = node.parts
        name = ".".join(part.name for part in parts)
        if not all(isinstance(part, exp.Identifier) for part in parts):
            raise _refused(f"the table function {name or parts[0].key!r}", text, at)
        if name.lower() not in allowed:
            raise _refused(f"the table {name!r}", text, at)
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in _NAMES:
            raise _refused(f"the function {node.name.lower()!r}", text, at)
    elif node.key not in _NODES:
        kind = "the function" if isinstance(node, exp.Func) else "the part of SQL"
        name = node.sql_name().lower() if isinstance(node, exp.Func) else node.key
        raise _refused(f"{kind} {name!r}", text, at)
    try:
        if isinstance(node, exp.DataType):
            fence.check_type(node.sql("spark"), "the statement")
        if isinstance(node, (exp.Identifier, exp.Literal)):
            fence.check_text(node.name, "the statement")
    except errors.UntrustedError as problem:
        raise problem.at(errors.Place.at_offset(text, at)) from None


def check_columns(text: str, dialect: str, columns: Callable[[str], Collection[str]]) -> None:
    """Refuse a name around the clauses that is no column; `columns` are those of a table."""
    tree = parse_statement(text, dialect)
    tables = list(tree.find_all(exp.Table))
    sources = {part.name.lower() for table in tables for part in table.parts}
    sources |= {node.name.lower() for node in tree.find_all(exp.TableAlias)}
    paths = {".".join(part.sql("spark") for part in table.parts) for table in tables}
    known = {name.lower() for path in paths for name in columns(path)}
    known |= {name.name.lower() for node in tree.find_all(exp.TableAlias) for name in node.columns}
    for node in tree.find_all(MatchTable, exp.Window):
        clause = clause_of(node)
        known |= {item.name.text.lower() for item in (clause.measures if clause else ())}
    seen = set(known)  # Spark sees a name of the SELECT list behind it, and in what comes after
    for part in tree.args["expressions"]:
        for column in part.find_all(exp.Column):
            _check_column(column, text, seen, sources)
        seen |= {part.alias_or_name.lower()} - _BARE
    for role, parts in tree.args.items():
        after = role in ("group", "having", "order", "qualify", "cluster", "sort")
        for column in () if role == "expressions" else _columns(parts):
            _check_column(column, text, seen if after else known, sources)


def _columns(parts: Any) -> Iterator[exp.Column]:
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, exp.Expression):
            yield from part.find_all(exp.Column)


def _check_column(node: exp.Column, text: str, known: set[str], sources: set[str]) -> None:
    names = [part.name.lower() for part in node.parts]
    for name in names:
        if name in known or isinstance(node.this, exp.Star):
            return
        if name not in sources:
            break
    given = ".".join(part.name for part in node.parts)
    what = f"{given!r}, which is no column of the tables read,"
    raise _refused(what, text, start_of(node) or 0)


def _refused(what: str, text: str, at: int) -> errors.UntrustedError:
    return fence.refused(what, "the statement", errors.Place.at_offset(text, at))

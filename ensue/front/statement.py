"""A whole SQL statement: its tree, and what stands where.

`statement_dialect(name)` is sqlglot's dialect with our clause in it. Nothing here knows Spark: the
runner asks for the clauses innermost first, each with its input as SQL, and puts a table in the
place of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from ensue import errors
from ensue.front.clause import ClauseParser, MatchTable
from ensue.front.dialect import check_commas, row_dialect, syntax_errors
from ensue.front.places import check_places
from ensue.query.depth import check_text, roomy

DIALECTS = (
    "spark", "databricks", "trino", "snowflake", "oracle", "flink", "duckdb", "bigquery",
)  # fmt: skip
# Flink's SQL is closest to Spark's in quoting and functions; what differs is in `front/sql.py`.
_BASE = {"flink": "spark"}
MAX_TEXT = 4_000_000


def base_dialect(name: str) -> str:
    """sqlglot's dialect for a name we know."""
    if name not in DIALECTS:
        raise errors.UnsupportedError(
            f"the dialect {name!r} is not known", remedy="use one of: " + ", ".join(DIALECTS)
        )
    return _BASE.get(name, name)


@lru_cache(maxsize=16)
def statement_dialect(name: str) -> type[Dialect]:
    """The dialect `name` with MATCH_RECOGNIZE and row pattern windows."""
    base: Any = row_dialect(base_dialect(name))

    class StatementTokenizer(base.Tokenizer):  # type: ignore[misc]
        KEYWORDS: ClassVar[Any] = {
            **base.Tokenizer.KEYWORDS,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    class StatementParser(ClauseParser, base.Parser):  # type: ignore[misc]
        QUERY_MODIFIER_PARSERS: ClassVar[Any] = {
            token: parser
            for token, parser in base.Parser.QUERY_MODIFIER_PARSERS.items()
            if token != TokenType.MATCH_RECOGNIZE
        }
        QUERY_MODIFIER_TOKENS: ClassVar[Any] = set(QUERY_MODIFIER_PARSERS)

        def _warn_unsupported(self) -> None:
            """Nothing on stderr: what sqlglot cannot read goes to Spark, or is refused here."""

    members = {"Parser": StatementParser, "Tokenizer": StatementTokenizer}
    return type(f"Statement{base.__name__}", (base,), members)


@roomy
def parse_statement(text: str, dialect: str = "spark") -> exp.Expression:
    """The tree of one statement; a syntax error points at its place."""
    if len(text) > MAX_TEXT:
        raise errors.LimitError(
            f"the statement has {len(text):,} characters; the limit is {MAX_TEXT:,}",
            remedy="split it with views",
        )
    check_text(text, "the statement")
    with syntax_errors(text, "the statement is not SQL"):
        trees = [tree for tree in sqlglot.parse(text, dialect=statement_dialect(dialect)) if tree]
    check_commas(text, "the statement")
    if len(trees) != 1:
        raise errors.ConditionSyntaxError(
            f"{len(trees)} statements were given, where one is expected",
            remedy="give one statement at a time",
            place=errors.Place.at_offset(text, 0),
        )
    tree: Any = trees[0]
    if isinstance(tree, exp.Command) and "MATCH_RECOGNIZE" in text.upper():
        raise errors.UnsupportedError(
            f"MATCH_RECOGNIZE cannot be used inside {tree.name.upper()}",
            remedy="use it in a query, INSERT, CREATE TABLE AS or CREATE TEMPORARY VIEW",
            place=errors.Place.at_offset(text, 0),
        )
    check_places(tree, text)
    return tree


def next_match_table(tree: exp.Expression) -> MatchTable | None:
    """A MATCH_RECOGNIZE none of whose inputs, the CTEs it sees included, has another inside."""
    for node in tree.find_all(MatchTable):
        needed = [node.this, *_read(node.this, visible_ctes(node))]
        if not any(part.find(MatchTable) for part in needed):
            return node
    return None


def visible_ctes(node: exp.Expression) -> list[exp.CTE]:
    """Common table expressions in scope where a table stands, outermost first."""
    found: list[list[exp.CTE]] = []
    below: Any = node
    above: Any = node.parent
    while above is not None:
        clause = above.args.get("with_") or above.args.get("with")
        if isinstance(clause, exp.With) and clause is not below:
            found.append(list(clause.expressions))
        if isinstance(above, exp.With):
            before = [cte for cte in above.expressions if cte is not below]
            recursive = bool(above.args.get("recursive"))
            position = next(i for i, cte in enumerate(above.expressions) if cte is below)
            found.append(before if recursive else above.expressions[:position])
        below, above = above, above.parent
    return [cte for ctes in reversed(found) for cte in ctes]


def input_query(node: MatchTable, extra: Iterable[tuple[str, exp.Expression]]) -> exp.Select:
    """`SELECT *, hidden columns FROM input`, with the CTEs in scope."""
    projections: list[Any] = [exp.Star()]
    projections += [exp.alias_(value.copy(), name, quoted=True) for name, value in extra]
    select = exp.select(*projections).from_(node.this.copy())
    return with_ctes(select, visible_ctes(node))


def with_ctes(select: exp.Select, ctes: list[exp.CTE]) -> exp.Select:
    """The query with the CTEs it reads, directly or through one another."""
    kept = _read(select, ctes)
    if kept:
        recursive = any(cte.parent and cte.parent.args.get("recursive") for cte in kept)
        copies = [cte.copy() for cte in kept]
        select.set("with_", exp.With(expressions=copies, recursive=recursive or None))
    return select


def _read(part: exp.Expression, ctes: list[exp.CTE]) -> list[exp.CTE]:
    """Those of the CTEs that a part of a statement reads, in their order."""
    kept: set[int] = set()
    waiting = [part]
    while waiting:
        wanted = {table.name.casefold() for table in waiting.pop().find_all(exp.Table)}
        for place, cte in enumerate(ctes):
            if place not in kept and cte.alias.casefold() in wanted:
                kept.add(place)
                waiting.append(cte)
    return [cte for place, cte in enumerate(ctes) if place in kept]


def replace_with_table(node: MatchTable, name: str) -> Any:
    """Puts the table `name` where the clause stood; returns the root of the statement."""
    table = exp.Table(this=exp.to_identifier(name, quoted=False))
    for role in ("alias", "joins", "laterals"):
        value = node.args.get(role)
        if value:
            table.set(role, value)
    if node.parent is None:
        return table
    node.replace(table)
    return table.root()

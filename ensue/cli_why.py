"""`ensue why`: why a pattern, or the row patterns of a SQL statement, did not match."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import ensue
from ensue import cli_run, errors


def why(
    query: cli_run.Asked,
    data: Annotated[
        Path | None, typer.Argument(help="The events of a pattern: events.parquet, events.csv.")
    ] = None,
    define: cli_run.Define = None,
    types: cli_run.Types = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", "-p", help="A partition column.")
    ] = None,
    order_by: Annotated[
        list[str] | None, typer.Option("--order-by", "-o", help="An order column.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(help='The longest match: "1 hour", 100, "500 rows".')
    ] = None,
    per: Annotated[str, typer.Option(help="A row per partition, or per start.")] = "partition",
    nearest: Annotated[
        int | None, typer.Option(help="Show so many attempts that lack least instead.")
    ] = None,
    table: cli_run.Tables = None,
    dialect: cli_run.Dialect = "spark",
    rows: cli_run.Shown = 50,
    format: Annotated[
        str | None, typer.Option(help="For a pipe: csv, json, parquet or arrow.")
    ] = None,
) -> None:
    """Say why a pattern, or each row pattern of a SQL statement, did not match."""
    kind = cli_run.output_format(None, format)
    if data is None:
        of_pattern = (define, types, partition_by, order_by, within, nearest)
        if any(given is not None for given in of_pattern) or per != "partition":
            raise errors.QueryError(
                f"these options belong to a pattern over a file of events, and {query} was given "
                "no file",
                remedy='write ensue why "A B+" events.parquet --order-by ts, or only the file '
                "of a SQL statement with its tables",
            )
        found = _of_statement(Path(query), table or [], dialect)
    else:
        if table:
            raise errors.QueryError(
                "--table belongs to a SQL statement, and a file of events was given",
                remedy="leave one of them out",
            )
        pattern = defined(ensue.pattern(query, types=types), define or [])
        pattern = pattern.partition_by(*partition_by or ()).order_by(*order_by or ())
        if within is not None:
            pattern = pattern.within(int(within) if within.isdigit() else within)
        asked: Any = str(data)
        found = pattern.why(asked, per) if nearest is None else pattern.nearest(asked, nearest)
    if kind is None and sys.stdout.isatty():
        cli_run.show(found, rows)
    else:
        cli_run.pipe(found, kind or "csv")


def defined(pattern: ensue.Pattern, define: list[str]) -> ensue.Pattern:
    """The pattern with the conditions of `--define`."""
    for given in define:
        label, colon, condition = given.partition(":")
        if not colon:
            raise errors.QueryError(
                f"--define {given!r} has no colon", remedy='write -d "B: price < PREV(price)"'
            )
        pattern = pattern.define(**{label.strip(): condition.strip()})
    return pattern


def _of_statement(query: Path, table: list[str], dialect: str) -> Any:
    text = cli_run.statement(query)
    with cli_run.session_of(table, Console(stderr=True)) as (session, _):
        return ensue.sql(text, spark=session, dialect=dialect, why=True).toArrow()

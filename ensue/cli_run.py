"""`ensue run`: a statement over files and tables, its result to the terminal, a pipe, a file or a
table; and `ensue explain` of a statement.

A terminal gets a table to read, with a line on standard error that says what is going on; a pipe
gets the whole result in a machine's format (CSV unless `--format` says otherwise).
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

import ensue
from ensue import errors
from ensue.api.files import format_of

MODES = ("error", "append", "overwrite")
FORMATS = ("parquet", "csv", "json", "orc", "arrow")

# Arguments and options that several commands have.
Asked = Annotated[
    str, typer.Argument(help='A pattern, such as "A B+ C+", or a SQL file: query.sql; - reads one.')
]
Define = Annotated[
    list[str] | None,
    typer.Option("--define", "-d", help='A condition: -d "B: price < PREV(price)".'),
]
Types = Annotated[str | None, typer.Option(help="Column that holds the type of an event.")]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="A table of the statement: -t ticks=ticks.parquet."),
]
Dialect = Annotated[str, typer.Option(help="The SQL of the statement.")]
Shown = Annotated[int, typer.Option(help="Rows shown on a terminal.", min=1)]


def run(
    query: Annotated[Path, typer.Argument(help="A file with one SQL statement; - reads it here.")],
    table: Tables = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the result to this file or folder.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help=f"Format of the output: {', '.join(FORMATS)}.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(help="Write the result to this table of the catalog.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help=f"Where the table of --into exists: {', '.join(MODES)}.")
    ] = "error",
    conf: Annotated[
        list[str] | None,
        typer.Option(help="A setting of Spark, such as a catalog: --conf name=value; repeatable."),
    ] = None,
    dialect: Dialect = "spark",
    rows: Shown = 50,
    cores: Annotated[int, typer.Option(help="Cores that Spark uses.", min=1)] = 2,
) -> None:
    """Run a SQL statement with MATCH_RECOGNIZE over files, and over tables of the catalog."""
    text = statement(query)
    settings = dict(map(_setting, conf or ()))
    kind = output_format(output, format)
    _check_target(output, into, mode)
    console = Console(stderr=True)
    begin = time.monotonic()
    with session_of(table or [], console, cores, settings) as (session, status):
        from ensue.run.spark import files as spark_files
        from ensue.run.spark.watch import watched

        status.update("planning")
        found = ensue.sql(text, spark=session, dialect=dialect)
        status.stop()  # two displays would write over each other
        with watched(session, "matching"):
            if into is not None:
                count = spark_files.write_table(found, into, mode)
            elif output is not None:
                assert kind is not None
                count = spark_files.write(found, output, kind)
            elif kind is None and sys.stdout.isatty():
                shown = found.limit(rows + 1).toArrow()
            else:
                result = found.toArrow()
    took = time.monotonic() - begin
    if output is not None or into is not None:
        console.print(f"{count:,} rows written to {output or into} in {took:.1f} s")
    elif kind is None and sys.stdout.isatty():
        show(shown, rows)
        console.print(f"{took:.1f} s")
    else:
        pipe(result, kind or "csv")


def explained(query: Path, table: list[str], dialect: str, picture: Path | None) -> str:
    """How `run` would match the statement; with tables on Spark, else from the text alone."""
    text = statement(query)
    if picture is not None:
        from ensue.api.sql_explain import picture as drawn

        drawn(text, dialect).save(picture)
    if not table:
        return ensue.explain(text, dialect=dialect)
    with session_of(table, Console(stderr=True)) as (session, _):
        return ensue.explain(text, spark=session, dialect=dialect)


@contextmanager
def session_of(
    table: list[str], console: Console, cores: int = 2, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[Any, Status]]:
    """A session with the tables of `--table`, and the line that says what is going on."""
    files = [_named_file(given) for given in table]
    from ensue.run.spark import files as spark_files
    from ensue.run.spark.raised import spoken_errors
    from ensue.run.spark.session import local_session

    with console.status("starting Spark") as status, spoken_errors():
        session, _ = local_session(cores, settings)
        for name, path, file_format in files:
            status.update(f"reading {path}")
            spark_files.register(session, name, path, file_format)
        yield session, status


def statement(query: Path) -> str:
    if str(query) == "-":
        return sys.stdin.read()
    try:
        return query.read_text(encoding="utf-8")
    except OSError as problem:
        raise errors.UnsupportedInputError(
            f"the statement {query} cannot be read: {problem.strerror}",
            remedy="give the path of a text file, or - for standard input",
        ) from None


def _named_file(given: str) -> tuple[str, Path, str]:
    name, equals, path = given.partition("=")
    if not equals or not name.isidentifier():
        raise errors.QueryError(
            f"--table {given!r} is not a name and a file",
            remedy="write --table ticks=ticks.parquet",
        )
    if not Path(path).exists():
        raise errors.UnsupportedInputError(
            f"--table {given}: {path} does not exist", remedy="check the path"
        )
    return name, Path(path), format_of(Path(path))


def _setting(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise errors.QueryError(
            f"--conf {given!r} is not a name and a value",
            remedy="write --conf spark.sql.warehouse.dir=/data/warehouse",
        )
    return name, value


def _check_target(output: Path | None, into: str | None, mode: str) -> None:
    if output is not None and into is not None:
        raise errors.QueryError(
            f"--output {output} and --into {into} are two places for one result",
            remedy="give one of them",
        )
    if mode not in MODES:
        raise errors.QueryError(
            f"--mode {mode!r} is not known", remedy="use one of " + ", ".join(MODES)
        )


def output_format(output: Path | None, format: str | None) -> str | None:
    if format is not None and format not in FORMATS:
        raise errors.QueryError(
            f"--format {format!r} is not known", remedy="use one of " + ", ".join(FORMATS)
        )
    if format is None and output is not None:
        return format_of(output)
    return format


def show(found: Any, rows: int) -> None:
    table = Table()
    for name in found.column_names:
        table.add_column(name)
    for row in found.slice(0, rows).to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)
    if found.num_rows > rows:
        typer.echo(f"... the first {rows} rows; --rows shows more, --output keeps all")


def pipe(found: Any, kind: str) -> None:
    if kind == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.column_names)
        for batch in found.to_batches():
            writer.writerows(_plain(row.values()) for row in batch.to_pylist())
    elif kind == "json":
        for batch in found.to_batches():
            for row in batch.to_pylist():
                sys.stdout.write(json.dumps(row, default=str) + "\n")
    else:
        from ensue.run.spark import files as spark_files

        spark_files.write_stream(found, sys.stdout.buffer, kind)


def _plain(values: Any) -> list[Any]:
    return [
        json.dumps(value, default=str) if isinstance(value, (list, dict)) else value
        for value in values
    ]

"""The `ensue` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import ensue
from ensue import cli_run, cli_why, errors
from ensue.studio import command

app = typer.Typer(
    help="Find patterns of events in tables, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(cli_run.run)
app.command()(command.studio)
app.command()(cli_why.why)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Rows of each generated table.", min=1_000)] = 200_000,
    picture: Annotated[Path, typer.Option(help="Where to write the timeline picture.")] = Path(
        "ensue-demo.svg"
    ),
) -> None:
    """Generate events, find three patterns on local Spark, and show what was found."""
    from ensue.demo.show import run

    run(rows, picture, Console())


@app.command()
def explain(
    query: cli_run.Asked,
    define: cli_run.Define = None,
    types: cli_run.Types = None,
    table: cli_run.Tables = None,
    dialect: cli_run.Dialect = "spark",
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the automaton (svg, dot or png).")
    ] = None,
) -> None:
    """Show how a pattern, or each row pattern of a SQL statement, would be matched, and why."""
    if table or query == "-" or query.lower().endswith(".sql"):
        if define or types:
            raise errors.QueryError(
                f"--define and --types belong to a pattern, and {query} is a SQL statement",
                remedy="write the conditions into its DEFINE",
            )
        typer.echo(cli_run.explained(Path(query), table or [], dialect, picture))
    else:
        _explain_pattern(query, define or [], types, picture)
    if picture is not None:
        typer.echo(f"The automaton is drawn in {picture}")


def _explain_pattern(text: str, define: list[str], types: str | None, picture: Path | None) -> None:
    query = cli_why.defined(ensue.pattern(text, types=types), define)
    typer.echo(query.explain())
    if picture is not None:
        query.plot().save(picture)


@app.command()
def warm(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="rows, events, missing, workloads, ...; all of them unless given."),
    ] = None,
    share: Annotated[
        Path | None,
        typer.Option(help="Also put the compiled kernels here, for ENSUE_KERNELS elsewhere."),
    ] = None,
) -> None:
    """Compile the kernels that are missing, so that no query has to wait for them."""
    from ensue.kernel_cache import kernels, kernels_line
    from ensue.kernels import given
    from ensue.warm import warm as compile_missing

    done = compile_missing(parts or ())
    typer.echo(f"{done.compiled} kernels compiled in {done.seconds:.1f} s")
    typer.echo(kernels_line())
    if share is not None:
        shared = given.share(share, (form for kernel in kernels() for form in kernel.compiled()))
        typer.echo(f"{len(shared.sums)} compiled forms in {shared.folder}")
        typer.echo(f"  {given.setting(shared)}")


@app.command()
def pack(
    path: Annotated[Path, typer.Argument(help="The zip file to write.")] = Path("ensue.zip"),
    packages: Annotated[
        list[str] | None,
        typer.Option("--with", help="A package that executors lack, such as numba; repeatable."),
    ] = None,
    kernels: Annotated[bool, typer.Option(help="With the kernels compiled here.")] = True,
) -> None:
    """Write Ensue into one file, for executors where it is not installed."""
    from ensue.run.spark import pack as packing

    done = packing.pack(path, packages or (), kernels)
    names = f", with {', '.join(done.packages)}" if done.packages else ""
    typer.echo(f"{done.path}: {done.size / 2**20:.1f} MB, {done.kernels} compiled kernels{names}")
    typer.echo(f"  spark-submit --py-files {done.path} ...")
    typer.echo(f'  spark.addArtifacts("{done.path}", pyfile=True)')


@app.command()
def doctor(
    remote: Annotated[
        str | None, typer.Option(help="Ask this Spark Connect server: sc://host:15002.")
    ] = None,
    apply: Annotated[bool, typer.Option(help="Also set what helps, for the session.")] = False,
) -> None:
    """Say which Java, Python and settings are used, what would help, and what is compiled."""
    from ensue.api.tune import NO_SPARK, doctor_lines, has_spark, tune

    typer.echo("\n".join([f"Ensue {ensue.__version__}", *doctor_lines()]))
    if remote is None and not has_spark():
        typer.echo(NO_SPARK)
        return
    from ensue.run.spark.raised import spoken_errors
    from ensue.run.spark.session import connected_session, local_session

    with spoken_errors():
        session = local_session()[0] if remote is None else connected_session(remote)
        typer.echo(f"Spark {session.version}" + ("" if remote is None else f" at {remote}"))
        typer.echo(str(tune(session, apply)))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(ensue.__version__)


def main() -> None:
    """Entry point: a user's mistake ends with its message, not with a traceback."""
    try:
        app()
    except errors.EnsueError as problem:
        typer.echo(f"{type(problem).__name__}: {problem}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

"""`ensue studio`: the page over a file, a table of Spark's catalog, or samples."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ensue import errors


def studio(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of events: events.parquet, events.csv; without files, samples."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="A table of Spark's catalog; repeatable."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port of this machine; 0 takes any.", min=0, max=65535)
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    rows: Annotated[
        int | None, typer.Option(help="The most rows that are read of a file.", min=1)
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="The most memory of the process that matches, in MB.", min=64)
    ] = None,
    share: Annotated[
        str | None, typer.Option(help="A link that was copied from the page (#share=...).")
    ] = None,
) -> None:
    """Open a page on which patterns are written, matched and explained."""
    from ensue.studio.desk import MEMORY_SETTING
    from ensue.studio.link import fragment
    from ensue.studio.server import built_page, serve
    from ensue.studio.sources import ROWS_SETTING

    for name, value in ((ROWS_SETTING, rows), (MEMORY_SETTING, memory)):
        if value is not None:
            os.environ[name] = str(value)
    console = Console(stderr=True)
    page = built_page()
    shared = "" if share is None else f"&{fragment(share)}"
    sources = _sources(files or [], table or [], console)
    with serve(sources, port=port, page=page) as served:
        typer.echo(f"Ensue studio: {served.url}{shared}")
        console.print("The link is for this machine and this run. Ctrl+C ends it.", style="dim")
        if browser and not webbrowser.open(served.url + shared):
            console.print("No browser opened: copy the link.", style="dim")
        try:
            served.wait()
        except KeyboardInterrupt:
            console.print("ended")


def _sources(files: list[Path], tables: list[str], console: Console) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in files:
        name = path.stem
        while name in found:
            name += "_"
        found[name] = path
    if not tables:
        return found
    from ensue.run.spark.raised import spoken_errors
    from ensue.run.spark.session import local_session

    with console.status("starting Spark"), spoken_errors():
        session, _ = local_session()
        for name in tables:
            if not session.catalog.tableExists(name):
                raise errors.UnsupportedInputError(
                    f"--table {name}: Spark's catalog has no such table",
                    remedy="give its full name, or a file: ensue studio events.parquet",
                )
            found[name] = session.table(name)
    return found

"""`ensue run`: files in, files out, and what a pipe gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from typer.testing import CliRunner

from ensue import errors
from ensue.cli import app

STATEMENT = """
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY s ORDER BY id MEASURES LAST(v) AS v, ARRAY_AGG(v) AS vs PATTERN (A B+)
  DEFINE B AS v < PREV(v))
"""
TICKS = pa.table({"s": ["x"] * 4, "id": [1, 2, 3, 4], "v": [3, 2, 1, 5]})


@pytest.fixture
def folder(tmp_path: Path, spark: Any) -> Path:
    (tmp_path / "query.sql").write_text(STATEMENT)
    parquet.write_table(TICKS, tmp_path / "ticks.parquet")
    orc.write_table(TICKS, tmp_path / "ticks.orc")
    with pa.ipc.new_file(tmp_path / "ticks.arrow", TICKS.schema) as writer:
        writer.write_table(TICKS)
    with pa.ipc.new_stream(tmp_path / "ticks.ipc", TICKS.schema) as writer:
        writer.write_table(TICKS)
    TICKS.to_pandas().to_csv(tmp_path / "ticks.csv", index=False)
    TICKS.to_pandas().to_json(tmp_path / "ticks.jsonl", orient="records", lines=True)
    return tmp_path


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_format_in_and_a_pipe_out(folder: Path) -> None:
    for name in ("parquet", "orc", "arrow", "ipc", "csv", "jsonl"):
        shown = call(str(folder / "query.sql"), "-t", f"ticks={folder / 'ticks'}.{name}")
        assert shown == 's,v,vs\nx,1,"[3, 2, 1]"\n', name
    lines = call(
        str(folder / "query.sql"), "-t", f"ticks={folder}/ticks.csv", "--format", "json"
    ).splitlines()
    assert [json.loads(line) for line in lines] == [{"s": "x", "v": 1, "vs": [3, 2, 1]}]


def test_every_format_out(folder: Path) -> None:
    query, ticks = str(folder / "query.sql"), f"ticks={folder}/ticks.parquet"
    expected = [{"s": "x", "v": 1, "vs": [3, 2, 1]}]
    call(query, "-t", ticks, "-o", str(folder / "out.parquet"))
    assert parquet.read_table(folder / "out.parquet").to_pylist() == expected
    call(query, "-t", ticks, "-o", str(folder / "out.orc"))
    assert orc.read_table(folder / "out.orc").to_pylist() == expected
    call(query, "-t", ticks, "-o", str(folder / "out.arrow"))
    assert pa.ipc.open_file(folder / "out.arrow").read_all().to_pylist() == expected
    call(query, "-t", ticks, "-o", str(folder / "out.jsonl"))
    assert json.loads((folder / "out.jsonl").read_text()) == expected[0]
    call(query, "-t", ticks, "-o", str(folder / "out.csv"))
    assert (folder / "out.csv").read_text().startswith("s,v,vs\nx,1,")


def test_tables_of_the_catalog_in_and_out(folder: Path, spark: Any) -> None:
    """Three names with the catalog, as lakes have them."""
    spark.sql(f"CREATE DATABASE lake LOCATION '{folder / 'lake'}'")
    try:
        spark.read.parquet(str(folder / "ticks.parquet")).write.saveAsTable("lake.ticks")
        query = folder / "tables.sql"
        query.write_text(STATEMENT.replace("FROM ticks", "FROM spark_catalog.lake.ticks"))
        into = [str(query), "--into", "spark_catalog.lake.falls"]
        call(*into, "--conf", "spark.sql.sources.default=parquet")
        found = [{"s": "x", "v": 1, "vs": [3, 2, 1]}]
        assert spark.table("lake.falls").toArrow().to_pylist() == found
        call(*into, "--mode", "append")
        assert spark.table("lake.falls").count() == 2
        call(*into, "--mode", "overwrite")
        assert spark.table("lake.falls").count() == 1
        assert call(str(query)) == 's,v,vs\nx,1,"[3, 2, 1]"\n'
    finally:
        spark.sql("DROP DATABASE lake CASCADE")


def test_mistakes_are_named(folder: Path) -> None:
    query = str(folder / "query.sql")
    for arguments, words in [
        ([str(folder / "none.sql")], "cannot be read"),
        ([query, "-t", "ticks"], "a name and a file"),
        ([query, "-t", "ticks=nowhere.csv"], "does not exist"),
        ([query, "-t", f"ticks={query}"], "suffix"),
        ([query, "--format", "xml"], "not known"),
        ([query, "--conf", "spark.jars"], "a name and a value"),
        ([query, "--into", "falls", "--mode", "upsert"], "'upsert' is not known"),
        ([query, "--into", "falls", "-o", "out.csv"], "two places"),
    ]:
        with pytest.raises(errors.EnsueError, match=words):
            call(*arguments)


def test_a_statement_is_explained_as_it_would_run(folder: Path, spark: Any) -> None:
    command = ["explain", str(folder / "query.sql"), "-t", f"ticks={folder}/ticks.csv"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "engine: automaton" in done.stdout and "spark.sql." in done.stdout
    (folder / "create.sql").write_text(f"CREATE TABLE never AS {STATEMENT}")
    assert CliRunner().invoke(app, ["explain", str(folder / "create.sql"), *command[2:]]).stdout
    assert not spark.catalog.tableExists("never")

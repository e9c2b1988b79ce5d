"""Files as tables of a session; results as files (parquet, CSV, JSON, ORC, Arrow) or tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors


def register(session: SparkSession, name: str, path: Path, kind: str) -> None:
    """Makes a file the table `name` of a session."""
    if kind == "arrow":
        found = session.createDataFrame(_read_arrow(path))
    elif kind == "csv":
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        found = session.read.csv(str(path), header=True, inferSchema=True, sep=separator)
    elif kind == "json":
        found = session.read.json(str(path))
    else:
        found = session.read.format(kind).load(str(path))
    found.createOrReplaceTempView(name)


def _read_arrow(path: Path) -> pa.Table:
    """Both of Arrow's formats: the file with a footer and the plain stream."""
    try:
        with pa.memory_map(str(path)) as source:
            try:
                return pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid as problem:
        raise errors.UnsupportedInputError(
            f"{path} is not an Arrow file: {problem}", remedy="check the file, or its suffix"
        ) from None


def write(found: DataFrame, path: Path, kind: str) -> int:
    """One file, written as it is at the end; the number of rows."""
    result = found.toArrow()
    if kind == "csv":
        result.to_pandas().to_csv(path, index=False)
    elif kind == "json":
        result.to_pandas().to_json(path, orient="records", lines=True, date_format="iso")
    else:
        with path.open("wb") as sink:
            write_stream(result, sink, kind)
    return result.num_rows


def write_table(found: DataFrame, name: str, mode: str) -> int:
    """Into a table of the catalog, which makes it where there is none; the number of rows."""
    seen = Observation()
    counted = found.observe(seen, F.count(F.lit(1)).alias("rows"))
    counted.write.mode(mode).saveAsTable(name)
    return int(seen.get["rows"])


def write_stream(result: pa.Table, sink: Any, kind: str) -> None:
    """A table in a binary format."""
    if kind == "parquet":
        parquet.write_table(result, sink)
    elif kind == "orc":
        orc.write_table(result, sink)
    else:
        with pa.ipc.new_file(sink, result.schema) as writer:
            writer.write_table(result)

"""Files as data: a path may stand for a table, and is read whole, by its suffix.

A folder is read as the files in it. The command line reads its tables by the same suffixes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ensue import errors

SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def format_of(path: Path) -> str:
    """parquet, csv, json, orc or arrow."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None and path.is_dir():
        inside = [SUFFIXES[p.suffix.lower()] for p in path.iterdir() if p.suffix in SUFFIXES]
        kind = inside[0] if inside else None
    if kind is None:
        raise errors.UnsupportedInputError(
            f"{path} has no suffix that names its format",
            remedy="use one of " + ", ".join(sorted(SUFFIXES)),
        )
    return kind


def parquet_path(given: object) -> Path | None:
    """The path of Parquet data, which can be read in batches; None for anything else."""
    if not isinstance(given, (str, Path)):
        return None
    path = Path(given).expanduser()
    return path if path.exists() and format_of(path) == "parquet" else None


def read_table(given: str | Path) -> pa.Table:
    """The rows of a file or of a folder of files."""
    path = Path(given).expanduser()
    if not path.exists():
        raise errors.UnsupportedInputError(
            f"the data is given as the path {str(given)!r}, which does not exist",
            remedy="check the path; a table that Spark knows by name is spark.table(name) or "
            "spark.readStream.table(name)",
        )
    kind = format_of(path)
    try:
        return _dataset(path, kind)
    except (pa.ArrowException, OSError) as problem:
        raise errors.UnsupportedInputError(
            f"{path} cannot be read as {kind}: {problem}",
            remedy="check the file, or read it yourself and give the table",
        ) from None


def _dataset(path: Path, kind: str) -> pa.Table:
    from pyarrow import csv, dataset

    how: dataset.FileFormat | str = kind
    if kind == "csv" and path.suffix.lower() == ".tsv":
        how = dataset.CsvFileFormat(csv.ParseOptions(delimiter="\t"))
    return dataset.dataset(path, format=how, partitioning="hive").to_table()

"""Where the rows come from: samples, tables in memory, files, DataFrames of Spark.

A file is never read whole because it is there: rows are read up to a bound in rows and in bytes,
and the session says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.api.files import format_of
from ensue.api.order import KEY, time_columns
from ensue.api.tables import is_spark, to_arrow
from ensue.studio import on_spark, samples
from ensue.studio.texts import Typed
from ensue.studio.values import classed

ROWS_SETTING = "ENSUE_STUDIO_ROWS"
MAX_ROWS = 2_000_000
MAX_BYTES = 1 << 30  # of the rows, as Arrow holds them
_LOOKED_AT = 20_000  # rows, and below columns, from which keys and types are guessed
_COLUMNS = 200
_BATCH = 1 << 16
_TYPES = re.compile(
    r"(.*_)?(kind|type|event|action|activity|name|state|status|scan)", re.IGNORECASE
)


def max_rows() -> int:
    """The bound, or what the environment says."""
    said = os.environ.get(ROWS_SETTING, "")
    return int(said) if said.isdigit() and int(said) else MAX_ROWS


@dataclass
class Source:
    """A named table; `kind` is sample, table, file or spark."""

    id: str
    name: str
    kind: str
    text: str = ""
    given: Any = field(default=None, repr=False)

    def about(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "kind": self.kind, "text": self.text}

    @cached_property
    def _read(self) -> tuple[pa.Table, dict[str, Any] | None, list[str]]:
        """The rows, what they are a part of, and notes."""
        if self.kind == "sample":
            return samples.table(self.id), None, []
        if self.kind == "file":
            return read_file(Path(self.given))
        if self.kind == "spark":
            return on_spark.opened(self.given), None, []
        return to_arrow(self.given).combine_chunks(), None, []

    @property
    def table(self) -> pa.Table:
        return self._read[0]

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of columns; of a file without reading its rows."""
        if self.kind == "file" and "_read" not in self.__dict__:
            try:
                return _dataset(Path(self.given), {}).schema
            except (pa.ArrowException, OSError, ValueError):
                pass  # the reader says what is wrong
        return self.table.schema

    @property
    def sampled(self) -> dict[str, Any] | None:
        return self._read[1]

    @property
    def notes(self) -> list[str]:
        return self._read[2]

    @property
    def questions(self) -> tuple[samples.Question, ...]:
        return samples.SAMPLES[self.id].questions if self.kind == "sample" else ()


def source_of(name: str, given: Any) -> Source:
    """What a user gave under a name."""
    if is_spark(given):
        if given.isStreaming:
            raise errors.UnsupportedInputError(
                f"{name} is a streaming DataFrame, which has no rows to show",
                remedy="start it, and see its query under Streams; or open a batch of it",
            )
        return Source(name, name, "spark", "a DataFrame of Spark", given)
    if isinstance(given, (str, Path)):
        path = Path(given).expanduser()
        if not path.exists():
            raise errors.UnsupportedInputError(f"{given} does not exist", remedy="check the path")
        format_of(path)
        return Source(name, name, "file", str(path.name), path)
    return Source(name, name, "table", "a table in memory", given)


def sample_sources() -> dict[str, Source]:
    return {
        sample.id: Source(sample.id, sample.name, "sample", sample.text)
        for sample in samples.SAMPLES.values()
    }


def read_file(path: Path) -> tuple[pa.Table, dict[str, Any] | None, list[str]]:
    """The first rows of a file or folder, up to the bound; columns of mixed types as text."""
    notes: list[str] = []
    texts: dict[str, pa.DataType] = {}
    while True:
        try:
            table, whole = _first_rows(path, texts)
            break
        except (pa.ArrowException, OSError, ValueError) as problem:
            mixed = re.search(r"column #(\d+)", str(problem))
            name = _csv_column(path, int(mixed[1])) if mixed else None
            if name is None or name in texts:
                raise errors.UnsupportedInputError(
                    f"{path.name} cannot be read as {format_of(path)}: {problem}",
                    remedy="check the file, or read it yourself and write q.studio(table)",
                ) from None
            texts[name] = pa.string()
            notes.append(f"the column {name!r} has values of several types and is read as text")
    sampled = None
    if not whole:
        total = _count(path)
        of = f" of {total:,}" if total is not None else ""
        text = (
            f"the first {table.num_rows:,} rows{of} of {path.name} are shown; "
            f"the setting {ROWS_SETTING} (or --rows) reads more"
        )
        sampled = {"rows": table.num_rows, "of": total, "text": text}
    return table, sampled, notes


def _dataset(path: Path, texts: Mapping[str, pa.DataType]) -> Any:
    from pyarrow import csv, dataset

    kind: Any = format_of(path)
    if kind == "csv":
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        kind = dataset.CsvFileFormat(
            csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(column_types=dict(texts)),
        )
    return dataset.dataset(path, format=kind, partitioning="hive")


def _first_rows(path: Path, texts: Mapping[str, pa.DataType]) -> tuple[pa.Table, bool]:
    """Rows up to the bound, and whether these are all."""
    found = _dataset(path, texts)
    rows, size, batches = 0, 0, []
    most = max_rows()
    reader = found.to_batches(batch_size=_BATCH, batch_readahead=2, fragment_readahead=1)
    whole = True
    for batch in reader:
        if rows + batch.num_rows > most or size > MAX_BYTES:
            batches.append(batch.slice(0, max(0, most - rows)))
            whole = False
            break
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return to_arrow(pa.Table.from_batches(batches, found.schema)).combine_chunks(), whole


def _count(path: Path) -> int | None:
    """Rows of a file that says so itself."""
    if format_of(path) not in ("parquet", "orc"):
        return None
    count: int = _dataset(path, {}).count_rows()
    return count


def _csv_column(path: Path, number: int) -> str | None:
    names = _dataset(path, {}).schema.names if format_of(path) == "csv" else []
    return names[number] if number < len(names) else None


def columns_of(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": f.name, "type": str(f.type), "class": classed(f.type)} for f in schema]


def suggested(table: pa.Table) -> dict[str, str]:
    """What a reader would partition, order and tell types by."""
    times = time_columns(table)
    known = table.slice(0, _LOOKED_AT)
    names = [name for name in known.column_names[:_COLUMNS] if name not in times]
    counts = {name: _distinct(known.column(name)) for name in names}
    keys = [n for n in names if KEY.fullmatch(n)] + [n for n in names if n.lower().endswith("id")]
    keys += [n for n in names if classed(known.schema.field(n).type) == "text"]
    types = [
        n for n in names if classed(known.schema.field(n).type) == "text" and 1 < counts[n] <= 60
    ]
    types = [n for n in types if not KEY.fullmatch(n)]
    types = [n for n in types if _TYPES.fullmatch(n)] + types
    key = next((n for n in keys if n not in types[:1] and 1 < counts[n] <= len(known) // 2), "")
    kind = next((n for n in types if n != key), "")
    return {"partition_by": key, "order_by": times[0] if times else "", "types": kind}


def _distinct(column: pa.ChunkedArray) -> int:
    try:
        return int(pc.count_distinct(column).as_py())
    except pa.ArrowNotImplementedError:
        return 0


def first_query(table: pa.Table) -> Typed:
    """A pattern that finds something in any table: two rows in a row."""
    guess = suggested(table)
    options = {name: text for name, text in guess.items() if text}
    if guess["types"]:
        values = pc.unique(table.column(guess["types"]).slice(0, _LOOKED_AT)).to_pylist()
        words = [v for v in values if isinstance(v, str) and re.fullmatch(r"[^\W\d]\w*", v)]
        if len(words) > 1:
            return Typed("pattern", f"{words[0]} -> {words[1]}", options)
    options.pop("types", None)
    return Typed("pattern", "A B", options)

"""Edits of a running stream: a directory of files, or another stream, that Spark reads beside it.

Spark delivers each file in exactly one micro-batch, to all lanes at once, and a restart replays it
with the rows it came with: so an edit is carried out at a micro-batch boundary, once, everywhere.
Files are written whole (a draft is renamed) and named in order; a file is never changed.

`end` closes the stream: rows still waiting for the watermark are taken as complete, every
partition ends, and what matched is emitted. Without it the last rows of a stream stay open, since
nothing says that no more will come.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.query import stored
from ensue.run.lanes.orders import MAX_TEXT
from ensue.run.lanes.signing import check_secret, signed

LANE, ORDER = PREFIX + "lane", PREFIX + "order"
NAME, TEXT = "name", "text"  # of an edit, in a stream of edits
MAX_FILE = 64_000_000  # bytes; what is longer is not read
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_NAME = re.compile(r"^(\d{8})-([A-Za-z_]\w*)\.(sql|json|drop|end)$")


def orders(spark: SparkSession, given: str | DataFrame, lanes: int) -> DataFrame:
    """Each edit as one row for every lane: the name of its file, a line end, its text.

    `given` is the directory, or a stream (of a table, a topic, ...) with these two as columns.
    Files are read as bytes: a source of texts would unpack what is called .gz, and fail. What is
    not UTF-8 would fail on its way to Python; an edit longer than any is cut, and refused there.
    """
    if isinstance(given, (str, os.PathLike)):
        if "://" not in str(given):
            Path(given).mkdir(parents=True, exist_ok=True)
        files = spark.readStream.format("binaryFile").schema(_FILES).load(str(given))
        names, texts = F.col("_metadata.file_name"), F.col("content").cast("string")
        written = (F.col("length") > 0) & (F.col("length") <= MAX_FILE)
        told = files.where(written).select(names.alias(NAME), texts.alias(TEXT))
    else:
        told = _stream(given)
    text = F.coalesce(F.substring(F.make_valid_utf8(TEXT), 1, MAX_TEXT + 1), F.lit(""))
    order = F.concat(F.make_valid_utf8(NAME), F.lit("\n"), text)
    each = F.explode(F.sequence(F.lit(0), F.lit(lanes - 1)))
    return told.where(F.col(NAME).isNotNull()).select(order.alias(ORDER), each.alias(LANE))


def _stream(given: Any) -> DataFrame:
    """A stream of edits; Connect has a class of its own for it."""
    if not getattr(given, "isStreaming", False):
        raise errors.QueryError(
            f"control= is {given!r}",
            remedy="name a directory, or give a streaming DataFrame of edits",
        )
    kinds = dict(given.dtypes)
    if (kinds.get(NAME), kinds.get(TEXT)) != ("string", "string"):
        raise errors.ColumnTypeError(
            f"the stream of edits has the columns {given.dtypes}",
            remedy=f"give it {NAME!r} (such as '00000002-funnel.sql') and {TEXT!r}, both strings",
        )
    found: DataFrame = given.select(NAME, TEXT)
    return found


class Control:
    """Writes edits to the directory of a stream that runs with `control=`.

    With the `secret` that the stream was given, edits are signed: docs/security.md.

    Examples:
        >>> import tempfile
        >>> control = Control(tempfile.mkdtemp())
        >>> _ = control.put("paid", ensue.pattern("cart -> pay", types="kind").order_by("ts"))
        >>> _ = control.drop("paid")
        >>> control.versions()
        ['00000001-paid.json', '00000002-paid.drop']
    """

    def __init__(self, folder: str | os.PathLike[str], secret: str | bytes | None = None) -> None:
        self.folder = Path(folder)
        self._secret = None if secret is None else check_secret(secret)
        self.folder.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, pattern: Any) -> Path:
        """Add a pattern, or a new version of it: SQL text, or a pattern as Python has it.

        A text is sent as it is, and each lane validates it; a pattern has been checked already.
        """
        if isinstance(pattern, str):
            return self._write(name, "sql", pattern)
        return self._write(name, "json", stored.to_json(pattern.query))

    def arcs(
        self, name: str, add: Mapping[str, Mapping[str, Any]] | None = None, remove: Any = ()
    ) -> Path:
        """Change the arcs of an automaton by hand, as `matcher.revise` does; `name` as on start."""
        names = (remove,) if isinstance(remove, str) else tuple(remove)
        told = {"ensue arcs": 1, "add": {n: dict(a) for n, a in (add or {}).items()}}
        try:
            text = json.dumps(told | {"remove": list(names)}, ensure_ascii=False)
        except TypeError as problem:
            raise errors.QueryError(
                f"the edit cannot be written down: {problem}",
                remedy="write fences and transfers as SQL text: no Python function travels in one",
            ) from None
        return self._write(name, "json", text)

    def drop(self, name: str) -> Path:
        """Remove a pattern; its partial matches are dropped."""
        return self._write(name, "drop", "drop\n")  # Spark reads nothing from an empty file

    def end(self) -> Path:
        """Close the stream, once all its rows were read: `query.processAllAvailable()` first."""
        return self._write("stream", "end", "end\n")

    def finish(self, query: Any) -> None:
        """Read all rows there are, close the stream, emit what matched, and stop the query."""
        query.processAllAvailable()
        self.end()
        query.processAllAvailable()
        query.stop()

    def versions(self) -> list[str]:
        """Names of the edits so far, in order."""
        return sorted(p.name for p in self.folder.iterdir() if _NAME.match(p.name))

    def _write(self, name: str, kind: str, text: str) -> Path:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise errors.QueryError(
                f"{name!r} cannot name a pattern", remedy="use letters, digits and _"
            )
        draft = self.folder / f".{uuid.uuid4().hex}"  # Spark leaves out names with a dot
        number = 1 + max((int(n[:8]) for n in self.versions()), default=0)
        while True:
            path = self.folder / f"{number:08d}-{name}.{kind}"
            whole = text if self._secret is None else signed(path.name, text, self._secret)
            draft.write_text(whole, encoding="utf-8")
            try:
                os.link(draft, path)  # fails where another writer took the number
            except FileExistsError:
                number += 1
                continue
            draft.unlink()
            return path

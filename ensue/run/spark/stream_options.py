"""What a stream may be asked beside a batch's options, and what of it does not go together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import DataFrame

from ensue import errors
from ensue.query.duration import parse_duration, spelled
from ensue.run.lanes.signing import check_secret
from ensue.run.lanes.work import NAME, Settings

MAX_LANES = 4096


@dataclass(frozen=True)
class StreamOptions:
    """What `q.matches(stream, ...)` takes beside a batch's options; see docs/streaming.md."""

    emit: str = "final"
    speculation: str | int | None = None
    late: bool = False
    changes: str | None = None
    identity: str | Sequence[str] = ()
    sequence: str | None = None
    lanes: int = Settings.lanes
    control: str | DataFrame | None = None
    edits: bool = False
    secret: str | bytes | None = field(default=None, repr=False)
    name: str = NAME
    forget: str | None = None
    key_limit: int = Settings.key_limit
    overflow: str = "fail"
    nulls: str = "reject"
    clock: str = "rows"

    @staticmethod
    def names() -> list[str]:
        return [item.name for item in fields(StreamOptions)]

    @staticmethod
    def of(given: dict[str, Any]) -> StreamOptions:
        known = StreamOptions.names()
        for name in given:
            if name not in known:
                raise errors.QueryError(
                    f"{name}= is not known", remedy=f"a stream takes {', '.join(known)}"
                )
        return StreamOptions(**{name: spelled(value) for name, value in given.items()}).checked()

    def checked(self) -> StreamOptions:
        _one_of("emit", self.emit, ("final", "changes"))
        _one_of("overflow", self.overflow, ("fail", "shed"))
        _one_of("nulls", self.nulls, ("reject", "fail"))
        _one_of("clock", self.clock, ("rows", "spark"))
        if not isinstance(self.lanes, int) or not 1 <= self.lanes <= MAX_LANES:
            raise errors.QueryError(
                f"lanes={self.lanes!r} is not a number from 1 to {MAX_LANES}",
                remedy="give a few times the number of cores, or leave it out",
            )
        if not re.fullmatch(r"[A-Za-z_]\w*", str(self.name)):
            raise errors.QueryError(
                f"name={self.name!r} cannot name a pattern", remedy="use letters, digits and _"
            )
        if not isinstance(self.key_limit, int) or self.key_limit < 1:
            raise errors.QueryError(
                f"key_limit={self.key_limit!r} is not a positive number of rows",
                remedy="give the most rows that one key may keep in state",
            )
        if self.speculation is not None and self.emit != "changes":
            raise errors.QueryError(
                "speculation= emits rows before they are final, and emit='final' withdraws none",
                remedy="say emit='changes', or leave speculation out",
            )
        if bool(self.identity) != bool(self.sequence):
            raise errors.QueryError(
                "identity= and sequence= go together: of two versions of an event, the sequence "
                "says "
                "which is newer",
                remedy="give both, or neither where every correction comes with the old row",
            )
        if self.edits and self.control is None:
            raise errors.QueryError(
                "edits=True reads edits from a directory, and there is no control=",
                remedy="name the directory: control='control'",
            )
        if self.secret is not None:
            check_secret(self.secret)
            if self.control is None:
                raise errors.QueryError(
                    "secret= is for signed edits, and there is no control=",
                    remedy="name the directory: control='control'",
                )
        if self.identity and self.changes is None:
            raise errors.QueryError(
                "identity= says which event a correction means, and there is no changes=",
                remedy="name the column with the operation: changes='op'",
            )
        return self

    def settings(self, delay: int | None = None) -> Settings:
        """`delay`: of the watermark, in milliseconds, where the rows may tell the time."""
        kind = "identity" if self.identity else "content"
        told = self.clock == "rows" and self.emit == "final" and self.changes is None
        return Settings(
            lanes=self.lanes,
            emit=self.emit,
            speculation=_microseconds(self.speculation, "speculation"),
            late=self.late,
            corrections=kind if self.changes is not None else "",
            forget=_microseconds(self.forget, "forget"),
            key_limit=self.key_limit,
            overflow=self.overflow,
            nulls=self.nulls,
            delay=1000 * delay if told and delay is not None else None,
            name=self.name,
            secret=None if self.secret is None else check_secret(self.secret),
        )


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise errors.QueryError(
            f"{name}={value!r} is not known", remedy=f"use {' or '.join(map(repr, known))}"
        )


def _microseconds(value: str | int | None, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_duration(value)
    if value == 0:
        return 0
    raise errors.QueryError(
        f"{name}={value!r} is not a duration", remedy=f"write {name}='10 seconds'"
    )

"""What a lane is given: settings, what it counts, and the stage that it drives.

Like `lane.py`, this knows no Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from ensue.automaton.plan import PREFIX
from ensue.operator.intake import REASON
from ensue.operator.intake import TEXT as SENTENCE
from ensue.operator.protocol import Key
from ensue.operator.status import STATUS

IDENTITY = PREFIX + "identity"  # hash of the columns that name an event (CDC)
SEQUENCE = PREFIX + "sequence"  # which of two versions of an event is the newer (CDC)
SIGN = PREFIX + "sign"  # +1 an event, -1 its withdrawal (CDC), 0 an operation nobody knows
TEXT = PREFIX + "text"  # the row as JSON, where late rows are shown
OP, MATCH_ID, SHOWN = "op", "match_id", "event"
BEHIND = (STATUS, SHOWN, REASON, SENTENCE)  # columns behind what is found, where late=True
KEY_LIMIT = 1_000_000
NAME = "pattern"  # of the only pattern of a stream, where it is given none
END = "end"  # ending of the name of an order to close the stream


@dataclass(frozen=True)
class Settings:
    """How a stream is run; times in microseconds."""

    lanes: int = 16
    emit: str = "final"  # or "changes"
    speculation: int | None = None  # σ: how far past the watermark; None: all that has come
    late: bool = False  # late and rejected rows are shown, with a status
    corrections: str = ""  # "", "content" or "identity"
    forget: int | None = None  # a key silent for so long is complete
    key_limit: int = KEY_LIMIT  # rows kept of one key
    overflow: str = "fail"  # or "shed"
    nulls: str = "reject"  # or "fail"
    delay: int | None = None  # of the watermark, where rows tell the time; None: Spark alone does
    name: str = NAME  # of the pattern, in counts
    timeouts: bool = False  # what is found has a status: matched, or timeout
    secret: bytes | None = field(default=None, repr=False)  # of signed orders

    @property
    def speculative(self) -> bool:
        return self.emit == "changes"


@dataclass
class Counts:
    """Of one step; each becomes an observed metric."""

    rows: int = 0
    matches: int = 0
    late: int = 0
    rejected: int = 0
    retracted: int = 0  # matches
    corrected: int = 0  # rows
    shed: int = 0
    within: int = 0  # partial matches that ran out of their window, where these are reported
    bad_edits: int = 0
    extended: int = 0  # partial matches, under a budget
    unextended: int = 0
    promised: float = 0.0  # worth of what might have been extended, where not all of it was
    followed: float = 0.0  # and of what was
    partials: int = 0
    pending: int = 0
    keys: int = 0
    state_bytes: int = 0


GAUGES = ("partials", "pending", "keys", "state_bytes")  # of a lane as it stands; others add up


class Holding(Protocol):
    """What a lane asks of an evaluator about the keys that it holds; see `LaneEvaluator`."""

    def next_time(self) -> int | None: ...
    def sizes(self) -> Mapping[Key, int]: ...
    def drop(self, keys: Collection[Key]) -> None: ...
    def known(self) -> list[Key]: ...
    @property
    def open_keys(self) -> int: ...
    @property
    def partials(self) -> int: ...


class Stage(ABC):
    """What a lane drives: one evaluator (`stages.py`), or several patterns (`edits.py`)."""

    @property
    @abstractmethod
    def evaluators(self) -> Sequence[Holding]:
        """Those that see every row of the lane."""

    @abstractmethod
    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Rows of any keys, later than all before."""

    @abstractmethod
    def advance(self, horizon: int) -> Iterator[pa.Table]:
        """No row before `horizon` will come."""

    @abstractmethod
    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        """These keys, or all, are complete."""

    def standing(self) -> Iterator[pa.Table]:
        """What holds now and is not final: totals that still grow."""
        return iter(())

    @abstractmethod
    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        """Change patterns for events from `since`, the watermark, on.

        Tells the orders that could not be carried out, each with the reason.
        """

    def stops(self) -> list[dict[str, str]]:
        """Edits that were carried out and that the data proved wrong here, since the last call."""
        return []

    def refused(self) -> pa.Table | None:
        """Rows that could not be used, since the last call."""
        return None

    def spent(self) -> tuple[int, int, float, float]:
        """Since the last call: extensions made and not made; what was promised and followed."""
        return 0, 0, 0.0, 0.0

    @abstractmethod
    def copy(self) -> Stage: ...
    @abstractmethod
    def save(self) -> bytes: ...
    @abstractmethod
    def load(self, blob: bytes) -> None: ...

    # -- what is held ----------------------------------------------------------------------------

    def next_time(self) -> int | None:
        """The least watermark at which `advance` has something to do."""
        times = (each.next_time() for each in self.evaluators)
        return min((time for time in times if time is not None), default=None)

    def drop(self, keys: Collection[Key]) -> None:
        for each in self.evaluators:
            each.drop(keys)

    def sizes(self) -> Mapping[Key, int]:
        """Keys with many rows and how many are held of each."""
        found: dict[Key, int] = {}
        for each in self.evaluators:
            for key, size in each.sizes().items():
                found[key] = max(size, found.get(key, 0))
        return found

    def known(self) -> list[Key]:
        return list({key: None for each in self.evaluators for key in each.known()})

    @property
    def partials(self) -> int:
        return sum(each.partials for each in self.evaluators)

    @property
    def keys(self) -> int:
        return max((each.open_keys for each in self.evaluators), default=0)


@runtime_checkable
class Several(Protocol):
    """A stage of several patterns, each in its version."""

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        """How many rows of what was found are of each `pattern_name`."""


@dataclass(frozen=True)
class Work(ABC):
    """What every lane of a stream does; travels to the workers."""

    schema: pa.Schema  # of the rows that come
    found: pa.Schema  # of what the stage puts out, `MATCH` left out
    partition_by: tuple[str, ...]
    time: str  # the event-time column
    settings: Settings
    description: Mapping[str, str]

    @abstractmethod
    def stage(self, lane: int) -> Stage:
        """A new stage, without state."""

    @property
    def output(self) -> pa.Schema:
        """Of the lane's output: what is found, between what a stream adds."""
        fields = list(self.found)
        if self.settings.speculative:
            fields = [pa.field(OP, pa.string()), pa.field(MATCH_ID, pa.string()), *fields]
        if self.settings.late:
            fields += [pa.field(name, pa.string()) for name in BEHIND]
        return pa.schema(fields)


def pattern_name(name: str, version: int) -> str:
    """A pattern in its version, as counts name it."""
    return f"{name}@{version}"

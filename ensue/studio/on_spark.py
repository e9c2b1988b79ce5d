"""A DataFrame of Spark behind the same calls: whole partitions to look at, totals from Spark.

Lanes, rows and steps are of a sample, which is whole partitions, the first by key, so that what is
shown of a key is what the whole table has of it. Counts, the funnel, the reasons and the first rows
of the result are asked of Spark over all rows. Public DataFrame methods only, so Connect works.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.studio.answer import Answer
from ensue.studio.arranged import Arranged, arranged

SAMPLE_ROWS = 200_000
SAMPLE_KEYS = 5_000
OPENED = 1_000  # rows from which columns are guessed
SHOWN = 1_000  # rows of the result
_KEYS, _ROWS = "__ensue_keys", "__ensue_rows"
_LOST = (
    "java.lang.IllegalStateException", "stopped SparkContext", "SparkContext was shut down",
    "Connection refused", "UNAVAILABLE", "INVALID_HANDLE", "NO_ACTIVE_SESSION",
    "SESSION_OR_CONTEXT_NOT_EXISTS",
    "Answer from Java side is empty", "NoneType",
)  # fmt: skip


class SparkAnswer(Answer):
    """An answer whose `table` is the sample, and whose `data` is all rows."""

    def __init__(self, pattern: Pattern, frame: Any, table: pa.Table, rows: Arranged) -> None:
        super().__init__(pattern, table, rows)
        self.data = frame
        self._shown = Answer(pattern, table, rows)

    @cached_property
    def measured(self) -> pa.Table | None:
        return self._shown.measured

    @cached_property
    def total(self) -> int:
        with asked():
            return self.pattern.count(self.data)

    @cached_property
    def result(self) -> pa.Table:
        return self.collected(self.pattern.matches(self.data).limit(SHOWN))

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        return self.rows.keys_of(self.result), None

    @cached_property
    def reasons(self) -> list[tuple[str, int]]:
        counted = self.collected(self.pattern.why(self.data).groupBy("reason").count())
        found = [(r["reason"], r["count"]) for r in counted.to_pylist() if r["reason"] is not None]
        return sorted(found, key=lambda pair: -pair[1])

    @cached_property
    def whole_keys(self) -> int:
        """Partitions of the whole table."""
        keys = list(self.query.partition_by)
        with asked():
            return self.data.select(*keys).distinct().count() if keys else self.rows.keys

    @property
    def sampled(self) -> str | None:
        if self.whole_keys <= self.rows.keys:
            return None
        return (
            f"the lanes show {self.rows.keys:,} of {self.whole_keys:,} keys; matches, reasons and "
            "the funnel are of all rows"
        )

    def collected(self, found: Any) -> pa.Table:
        with asked():
            return found.toArrow()


def opened(frame: Any) -> pa.Table:
    """The first rows, from which columns are guessed."""
    with asked():
        return frame.limit(OPENED).toArrow()


def answer_of(pattern: Pattern, frame: Any) -> SparkAnswer:
    query = bind(pattern.query, frame.columns)
    table = sample(query, frame)
    return SparkAnswer(pattern, frame, table, arranged(query, table))


def sample(query: Query, frame: Any) -> pa.Table:
    """Whole partitions, the first by key, up to the bound."""
    keys = list(query.partition_by)
    with asked():
        if not keys:
            rows = frame.limit(SAMPLE_ROWS + 1).toArrow()
            if rows.num_rows > SAMPLE_ROWS:
                raise errors.LimitError(
                    f"the query has no partition, and the table more than {SAMPLE_ROWS:,} rows to "
                    "show as one sequence",
                    remedy="name a partition column, or open a part of the table",
                )
            return rows
        counted = frame.groupBy(*keys).count().withColumnRenamed("count", _ROWS).orderBy(*keys)
        sizes = counted.limit(SAMPLE_KEYS).select(_ROWS).toArrow().column(_ROWS).to_numpy()
        chosen = int(np.searchsorted(np.cumsum(sizes), SAMPLE_ROWS, side="right"))
        if len(sizes) and not chosen:
            raise errors.LimitError(
                f"the first partition has {int(sizes[0]):,} rows; {SAMPLE_ROWS:,} can be shown",
                remedy="partition by more columns, or open a part of the table",
            )
        names = [f"{_KEYS}{number}" for number in range(len(keys))]
        heads = counted.limit(chosen).select(*keys).toDF(*names)
        same = [frame[key].eqNullSafe(heads[name]) for key, name in zip(keys, names, strict=True)]
        condition = same[0]
        for part in same[1:]:
            condition = condition & part
        found: pa.Table = frame.join(heads, condition, "left_semi").toArrow()
        return found


@contextmanager
def asked() -> Iterator[None]:
    """Errors of a Spark that is gone, said so; those of Ensue's workers as they were raised."""
    from ensue.run.spark.raised import own_errors

    try:
        with own_errors():
            yield
    except errors.EnsueError:
        raise
    except Exception as problem:
        text = str(problem).strip().split("\n")[0][:300]
        if any(word in f"{type(problem).__name__} {problem}" for word in _LOST):
            raise errors.SparkFailureError(
                f"Spark no longer answers: {text}",
                remedy="start a session and open the studio again; what you typed is kept",
            ) from None
        raise errors.SparkFailureError(
            f"Spark refused or failed: {text}", remedy="see Spark's own log"
        ) from None

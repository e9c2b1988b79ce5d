"""Settings of a Spark session that matter to Ensue, and what runs where: `ensue.tune`.

Ensue changes no setting by itself: a session is its user's. `tune` says what is set, what would
help and why, and sets it where asked. Only what was measured is advised; the rest is shown.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ensue.kernel_cache import kernels_line
from ensue.run.spark.quiet import asking
from ensue.run.spark.raised import own_errors
from ensue.run.spark.ship import own_version, shipped

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
PARTITIONS = "spark.sql.shuffle.partitions"
STORE = "spark.sql.streaming.stateStore.providerClass"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
REUSE = "spark.python.worker.reuse"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_NO_BOUND = "2147483647"
_WHERE = "host string, python string, program string, java string, ensue string, kernels string"


@dataclass(frozen=True)
class Setting:
    """A setting as it is and as it would help; `advised` None: as you like."""

    name: str
    value: str | None  # None: this Spark does not know it
    advised: str | None
    why: str
    streams: bool = False  # of use to streams alone

    @property
    def good(self) -> bool:
        return self.value is None or self.advised is None or self.value == self.advised

    def __str__(self) -> str:
        if self.value is None:
            return f"  {self.name}: this Spark does not have it"
        head = f"{self.name} = {self.value.rpartition('.')[2]}"
        if self.advised is None or self.good:
            return f"  {head}: {self.why}"
        return f"! {head}, better {self.advised.rpartition('.')[2]}: {self.why}"


@dataclass(frozen=True)
class Executor:
    """A Python worker: where it runs, and what it has."""

    host: str
    python: str
    program: str
    java: str
    ensue: str
    kernels: str

    def __str__(self) -> str:
        return (
            f"  {self.host}: Python {self.python} ({self.program}), Java {self.java}, "
            f"Ensue {self.ensue}, {self.kernels}"
        )


@dataclass(frozen=True)
class Tuning:
    """What `tune` found; prints as a list."""

    settings: tuple[Setting, ...]
    executors: tuple[Executor, ...]
    applied: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = ["Settings (! would help)", *map(str, self.settings)]
        if self.applied:
            lines += ["Set for this session", *(f"  {name}" for name in self.applied)]
        return "\n".join([*lines, "Workers", *map(str, self.executors)])

    __repr__ = __str__


def tune(spark: SparkSession, apply: bool = False) -> Tuning:
    """Which settings help Ensue, which are set, and what runs on the executors; a small job.

    `apply` sets those that help, for this session.
    """
    settings = tuple(read_settings(spark, _cores(spark)))
    applied = []
    for setting in settings if apply else ():
        if not setting.good and setting.advised is not None:
            spark.conf.set(setting.name, setting.advised)
            applied.append(f"{setting.name} = {setting.advised}")
    if applied:
        settings = tuple(read_settings(spark, _cores(spark)))
    return Tuning(settings, _executors(spark), tuple(applied))


def read_settings(spark: SparkSession, cores: int | None = None) -> Iterator[Setting]:
    """The settings that matter; without `cores` no advice depends on them."""

    def read(name: str) -> str | None:
        try:
            with asking():
                value = spark.conf.get(name)
        except PySparkException:
            return None
        return None if value is None else value.removesuffix("b") if name == BYTES else value

    yield Setting(
        BYTES,
        read(BYTES),
        _NO_BOUND,
        "with a bound Spark asks for the size of a batch after every row, a third of the CPU "
        "where rows are small",
    )
    yield Setting(
        ROWS, read(ROWS), None, "rows per Arrow batch; Ensue gathers batches before it works"
    )
    few = None if cores is None else str(cores)
    partitions = read(PARTITIONS)
    if partitions is not None and cores is not None and cores <= int(partitions) <= 4 * cores:
        few = partitions
    yield Setting(
        PARTITIONS, partitions, few, "tasks of a shuffle, and of every micro-batch; about the cores"
    )
    yield Setting(
        REUSE, read(REUSE) or "true", "true", "a new worker imports Ensue for every task", False
    )
    yield Setting(
        STORE, read(STORE), _ROCKS, "keeps state on disk and writes only what changed", True
    )
    yield Setting(
        NO_DATA,
        read(NO_DATA),
        None,
        "micro-batches without rows settle what the watermark has passed; false saves their cost",
        True,
    )


def plan_lines(df: DataFrame) -> list[str]:
    """The settings that matter to the plan of a DataFrame, for `explain`; runs no job."""
    found = [s for s in read_settings(df.sparkSession) if df.isStreaming or not s.streams]
    return ["", "Settings (! would help; ensue.tune says more)", *map(str, found)]


def _cores(spark: SparkSession) -> int:
    """Tasks that run at once, by the partitions that Spark gives to a range of its own."""
    parts = spark.range(10_000).select(F.spark_partition_id()).distinct()
    return max(1, parts.count())


def _executors(spark: SparkSession) -> tuple[Executor, ...]:
    tasks = 2 * _cores(spark)
    java = F.expr("reflect('java.lang.System', 'getProperty', 'java.version')").alias("java")
    asked = spark.range(0, tasks, 1, tasks).select(java)
    with own_errors():
        rows = asked.mapInArrow(shipped(_describe), _WHERE).distinct().collect()
    return tuple(sorted((Executor(*row) for row in rows), key=str))


def _describe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for java in batch.column("java").to_pylist():
            told = [platform.node(), platform.python_version(), sys.executable, java]
            yield from _row([*told, own_version(), kernels_line()])


def _row(values: Sequence[str]) -> Iterator[pa.RecordBatch]:
    names = [part.split()[0] for part in _WHERE.split(", ")]
    yield pa.record_batch([pa.array([value]) for value in values], names=names)

"""Functions on their way to Spark's Python workers, behind a guard that travels by value.

Every function that Ensue gives to Spark goes through here: `on_executor.py` checks that the worker
has the driver's Ensue before it opens the function proper, and says what to do where it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.serializers import CloudPickleSerializer

from ensue import stopping
from ensue.run.spark import on_executor

_register: Any = cloudpickle.register_pickle_by_value
_register(on_executor)

Batches = Iterable[pa.RecordBatch]
Mapped = Callable[[Batches], Iterator[pa.RecordBatch]]
Steps = Callable[[tuple[Any, ...], Iterator[Any], Any], Iterator[Any]]


def shipped(work: Mapped) -> Mapped:
    """`work`, to be given to `mapInArrow`; each task has the time that the call was given."""
    seconds = stopping.seconds()

    def within(batches: Batches) -> Iterator[pa.RecordBatch]:
        with stopping.watch(seconds):
            yield from work(batches)

    return on_executor.mapper(*_packed(work if seconds is None else within))


def shipped_steps(work: Steps) -> Steps:
    """`work`, to be given to `applyInPandasWithState`."""
    return on_executor.stepper(*_packed(work))


def own_version() -> str:
    return str(import_module("ensue").__version__)


def _packed(work: Callable[..., Any]) -> tuple[bytes, str]:
    serializer: Any = CloudPickleSerializer
    return serializer().dumps(work), own_version()

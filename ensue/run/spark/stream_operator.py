"""The one place that knows which of Spark's stateful operators is used.

    rows → pack (mapInArrow) → shuffle by lane → step (applyInPandasWithState) → unpack (mapInArrow)

Packing turns the rows of a lane into one Arrow blob before the shuffle: pandas, through which the
stateful operator moves its rows, then sees one cell per blob and never a user's value (integers
with nulls, decimals and nested values would not survive it). State is one blob per lane, written
only where the step changed it; a timeout on the watermark wakes a lane that has something to do
though no row came. Why this operator and not transformWithState: docs/decisions/0013.

Two tricks, both with public calls only. Spark drops rows older than the watermark in front of a
stateful function; the blobs carry no event time, so nothing is dropped and the lane judges
lateness row by row. And Spark wants to see a column with a watermark before it allows timeouts:
`MARK` is given the watermark's metadata, and is null, which is older than no watermark. (Any time
would be older than some: one row of the year 9999 is enough.)
"""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.state import GroupStateTimeout

from ensue.automaton.plan import PREFIX
from ensue.operator.arrange import flat
from ensue.run.lanes.hashes import Hashes
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import GAUGES, Counts, Work
from ensue.run.spark.ship import Steps, shipped, shipped_steps
from ensue.run.spark.versions import spark_schema

LANE, BLOB, ORDER = PREFIX + "lane", PREFIX + "blob", PREFIX + "order"
MARK = PREFIX + "mark"
OBSERVED = "ensue"
DELAY = "spark.watermarkDelayMs"  # in the metadata of a column that has a watermark
_PACKED = f"{LANE} int, {BLOB} binary, {ORDER} string"
_COUNTS = [item.name for item in fields(Counts)]
_KINDS = {item.name: "double" if item.type == "float" else "bigint" for item in fields(Counts)}
COUNTS, PATTERNS, LANES, RECALL = "counts", "patterns", "lanes", "recall"
_STEPPED = f"{BLOB} binary, {COUNTS} array<double>, {PATTERNS} string, {LANE} int"
_TALLY = "map<string,bigint>"
_VALUE = "value"
_STATE = "state binary"
_NO_ROWS = (pa.nulls(1, pa.binary()), pa.nulls(1, pa.string()))
PACK_BYTES = 4 << 20
OUTPUT_ROWS = 10_000


def run(
    prepared: DataFrame,
    work: Work,
    watermark: int,
    control: DataFrame | None,
    hashes: Hashes | None = None,
) -> DataFrame:
    """The output of all lanes over prepared rows; these have a column LANE where no hashes are.

    `control` has the columns LANE and ORDER: edits that every lane gets in the same micro-batch.
    """
    packed = prepared.mapInArrow(shipped(_packer(work.schema, hashes)), _PACKED)
    if control is not None:
        empty = F.lit(None).cast("binary").alias(BLOB)
        packed = packed.unionByName(control.select(LANE, empty, ORDER))
    mark = F.lit(None).cast("timestamp").alias(MARK, metadata={DELAY: watermark})
    stepped = (
        packed.select(LANE, BLOB, ORDER, mark)
        .groupBy(LANE)
        .applyInPandasWithState(
            shipped_steps(_steps(work)),
            _STEPPED,
            _STATE,
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    )
    return (
        stepped.observe(OBSERVED, *_metrics())
        .select(BLOB)
        .mapInArrow(shipped(_unpacker(work.output)), spark_schema(work.output))
    )


def _metrics() -> list[Column]:
    """What a micro-batch did: counts of all lanes together, by pattern, and the state of each.

    A lane counts once, however often Spark runs it: a sink with two actions, a task that is tried
    again and a speculative one all observe the same step. Spark goes through these expressions many
    times in every micro-batch, so they are kept small.
    """
    none = F.lit(0).cast("bigint")
    count = {name: F.col(COUNTS)[place] for place, name in enumerate(_COUNTS)}

    def added(total: Column, text: Column) -> Column:
        tally = F.from_json(text, _TALLY)
        return F.map_zip_with(
            total, tally, lambda _, a, b: F.coalesce(a, none) + F.coalesce(b, none)
        )

    by_pattern = _over_lanes(F.col(PATTERNS), F.create_map().cast(_TALLY), added)
    gauges = F.array(*(count[name].cast("bigint") for name in GAUGES))
    state = _over_lanes(
        F.struct(F.col(LANE).cast("string").alias(LANE), gauges.alias(LANES)),
        F.create_map().cast("map<string,array<bigint>>"),
        lambda total, one: F.map_concat(total, F.create_map(one[LANE], one[LANES])),
    )
    sums = [
        _over_lanes(count[name].cast(kind), F.lit(0).cast(kind), lambda total, one: total + one)
        for name, kind in _KINDS.items()
    ]
    recall = _over_lanes(
        F.array(*(count[name] for name in ("rows", "shed", "promised", "followed"))),
        F.array(*[F.lit(0.0)] * 4),
        lambda total, one: F.zip_with(total, one, lambda a, b: a + b),
        _recall,
    )
    return [
        *(value.alias(name) for value, name in zip(sums, _COUNTS, strict=True)),
        recall.alias(RECALL),
        by_pattern.alias(PATTERNS),
        state.alias(LANES),
    ]


def _recall(total: Column) -> Column:
    rows, shed, promised, followed = (total[place] for place in range(4))
    kept = 1 - shed / F.greatest(rows, shed, F.lit(1.0))
    return kept * F.when(promised > 0, followed / promised).otherwise(1.0)


def _over_lanes(
    value: Column,
    zero: Column,
    add: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] = lambda total: total,
) -> Column:
    """What the lanes observed together, every lane once."""
    seen = F.collect_list(F.when(F.col(LANE) >= 0, F.struct(F.col(LANE), value.alias(_VALUE))))

    def step(total: Column, pair: Column) -> Column:
        more = F.struct(pair[LANE].alias(LANE), add(total[_VALUE], pair[_VALUE]).alias(_VALUE))
        return F.when(pair[LANE] == total[LANE], total).otherwise(more)

    start = F.struct(F.lit(-1).alias(LANE), zero.alias(_VALUE))
    return F.reduce(F.sort_array(seen), start, step, lambda total: finish(total[_VALUE]))


# -- before and after the shuffle -----------------------------------------------------------------


def _packer(
    schema: pa.Schema, hashes: Hashes | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > PACK_BYTES:
                yield packed(held, schema, hashes)
                held, size = [], 0
        if size:
            yield packed(held, schema, hashes)
        # Lane 0 is called in every micro-batch: it finds out at once whether the checkpoint was
        # written with other settings, whichever lanes the rows are of.
        yield pa.record_batch([pa.array([0], pa.int32()), *_NO_ROWS], names=[LANE, BLOB, ORDER])

    return pack


def packed(
    batches: list[pa.RecordBatch], schema: pa.Schema, hashes: Hashes | None = None
) -> pa.RecordBatch:
    """One blob for each lane that the rows belong to."""
    table = pa.Table.from_batches(batches).combine_chunks()
    if hashes is None:
        places = flat(table, LANE).to_numpy()
    else:
        table, places = hashes.added(table), hashes.lanes_of(table)
    lanes = places.astype(np.int16)  # which numpy sorts by counting
    order = np.argsort(lanes, kind="stable")
    ordered = lanes[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)]))
    rows = table.select(schema.names).cast(schema).take(pa.array(order)).combine_chunks()
    batch = rows.to_batches()[0]
    blobs = [blob_of(batch.slice(int(begin), int(end - begin))) for begin, end in pairwise(starts)]
    return pa.record_batch(
        {
            LANE: pa.array(ordered[starts[:-1]], pa.int32()),
            BLOB: pa.array(blobs, pa.binary()),
            ORDER: pa.nulls(len(blobs), pa.string()),
        }
    )


def blob_of(batch: pa.RecordBatch) -> bytes:
    """The batch without its schema, which both sides know."""
    return batch.serialize().to_pybytes()


def table_of(blob: bytes, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(blob), schema)])


def _unpacker(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0).to_pylist():
                if blob:
                    found = pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
                    yield from pa.Table.from_batches([found]).to_batches(OUTPUT_ROWS)

    return unpack


# -- in the stateful operator ---------------------------------------------------------------------


def _steps(work: Work) -> Steps:
    def step(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Any:
        yield from stepped(work, int(key[0]), frames, state)
        _settle_in()

    return step


@cache  # gc.get_freeze_count() would go through all that is frozen
def _settle_in() -> None:
    """Once per worker, when all is imported: leave what stays anyway out of garbage collection.

    Spark's daemon collects after every task of a worker, and going through the modules and the
    compiled kernels takes longer than a small micro-batch does.
    """
    # Spark fills its answer up with empty rows; pandas warns of that, lane after lane.
    padding = "The behavior of DataFrame concatenation with empty"
    warnings.filterwarnings("ignore", padding, FutureWarning)
    gc.collect()
    gc.freeze()


def stepped(
    work: Work, number: int, frames: Iterable[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    """One lane in one micro-batch."""
    lane = Lane(work, number)
    blobs: list[bytes] = []
    orders: list[str] = []
    if not state.hasTimedOut:
        for frame in frames:
            blobs += [blob for blob in frame[BLOB] if blob is not None]
            # pandas 3 has NaN where pandas 2 has None.
            orders += [text for text in frame[ORDER] if isinstance(text, str)]
    if state.exists:
        lane.load(bytes(state.get[0]))
    milliseconds = state.getCurrentWatermarkMs()
    watermark = 1000 * milliseconds if milliseconds > 0 else None
    tables = [table_of(blob, work.schema) for blob in blobs]
    found = [
        blob_of(batch)
        for table in lane.step(tables, watermark, orders)
        for batch in table.combine_chunks().to_batches()
    ]
    saved = lane.save(always=number == 0 and not state.exists)
    if saved is not None:
        state.update((saved,))
    _wake(state, lane.wake_at(watermark), milliseconds)
    told = [float(getattr(lane.counts, name)) for name in _COUNTS]
    counts: dict[str, Any] = {COUNTS: told, PATTERNS: json.dumps(lane.patterns), LANE: number}
    nothing = {COUNTS: None, PATTERNS: None, LANE: -1}
    # Bytes even where nothing was found: pandas complains about a column of nothing.
    rows: list[dict[str, Any]] = [{BLOB: blob, **nothing} for blob in found] or [{BLOB: b""}]
    rows[0] |= counts
    yield pd.DataFrame(rows)


def _wake(state: Any, time: int | None, watermark: int) -> None:
    """Call this lane again when the watermark has reached `time`, even if no row comes."""
    if time is None or not state.exists:
        return
    # Spark calls when the watermark is past the timeout, and takes no timeout that is past already.
    state.setTimeoutTimestamp(max((time - 1) // 1000, watermark + 1))

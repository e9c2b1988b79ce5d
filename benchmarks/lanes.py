"""What a stream costs in Ensue's own Python, without Spark: packing rows, and the lanes.

Everything between is Spark's (`stream` measures it whole): what is left of its figures when these
are taken away is reading, the shuffle, Arrow and pandas, and the state store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import rows
from benchmarks.harness import Target, compare, report
from benchmarks.rows import MILLION, Settings, Workload
from ensue.automaton.plan import plan
from ensue.operator.prepare import prepare
from ensue.query.binding import bind
from ensue.run.lanes.hashes import Hashes
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import Settings as Lanes
from ensue.run.lanes.works import matches_work
from ensue.run.spark.stream_operator import BLOB, LANE, packed, table_of

DELAY = 10_000_000  # of the watermark, in microseconds
BLOCK = 150_000  # rows packed at a time


@dataclass
class Stream:
    """A workload cut into micro-batches, as a lane's worker sees it."""

    work: Workload
    count: int
    state: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = self.work.make(self.work.keys, self.count).select(self.work.columns).sort_by("ts")
        query = bind(self.work.query.query, table.column_names)
        self.planned = plan(query)
        self.rows = prepare(self.planned, table.combine_chunks())
        names = tuple(self.rows.column_names)
        lanes = Lanes().lanes
        self.hashes = Hashes(names, query.partition_by, query.partition_by, lanes, keyed=False)
        self.schema = pa.schema([*self.rows.schema, *self.hashes.fields()])

    def packed(self, part: pa.Table) -> Iterator[pa.RecordBatch]:
        for begin in range(0, part.num_rows, BLOCK):
            blocks = part.slice(begin, BLOCK).to_batches()
            yield packed(blocks, self.schema, self.hashes)

    def pack(self) -> int:
        return sum(batch.num_rows for batch in self.packed(self.rows))

    def run(self, batches: int) -> int:
        """Every row through its lane, the state written and read between micro-batches."""
        settings = Lanes(delay=DELAY)
        work = matches_work(self.planned, None, self.schema, "ts", settings, {})
        self.state, matches, mark = {}, 0, None
        for number in range(batches):
            begin, end = (self.count * n // batches for n in (number, number + 1))
            part = self.rows.slice(begin, end - begin)
            blobs: dict[int, list[bytes]] = {}
            for batch in self.packed(part):
                pairs = zip(batch[LANE].to_pylist(), batch[BLOB].to_pylist(), strict=True)
                for number_of_lane, blob in pairs:
                    blobs.setdefault(number_of_lane, []).append(blob)
            for number_of_lane, mine in blobs.items():
                lane = Lane(work, number_of_lane)
                if number_of_lane in self.state:
                    lane.load(self.state[number_of_lane])
                for _ in lane.step([table_of(blob, self.schema) for blob in mine], mark):
                    pass
                saved = lane.save()
                if saved is not None:
                    self.state[number_of_lane] = saved
                matches += lane.counts.matches
            newest = pc.max(part["ts"]).value
            mark = newest // 1000 * 1000 - DELAY
        return matches


def run_lanes(settings: Settings) -> bool:
    """stream-lanes: W1 and W2 through packing and lanes, in process: Ensue's part of a stream"""
    count, met = settings.rows or MILLION, True
    for work in (rows.w1(), rows.w2()):
        stream = Stream(work, count)
        found = compare(
            {
                "pack": (count, stream.pack),
                "pack and lanes, one micro-batch": (count, partial(stream.run, 1)),
                "pack and lanes, five micro-batches": (count, partial(stream.run, 5)),
            },
            repeat=settings.repeat,
            warm_up=1,
        )
        stored = sum(map(len, stream.state.values()))
        found[2].notes["bytes per key"] = f"{stored / work.keys:.1f}"
        limits = [
            Target("rows per CPU second, one micro-batch", found[1].rate, 2e6, at_most=False),
            Target("matches, five ÷ one", found[2].answer / found[1].answer, 1, at_most=False),
        ]
        met &= report(
            f"{work.name}, {count:,} rows, Python alone", found, limits, f"lanes-{work.name}"
        )
    return met


COMMANDS = {"stream-lanes": run_lanes}

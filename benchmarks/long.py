"""One long sequence in a Parquet file: matched as it is read, beside the file read whole.

Each run is a process of its own, so that the memory is its own; what counts is the most that it
held. The sequence comes in two lengths: memory that does not grow with it is the promise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Measurement, Target, report
from benchmarks.rows import MILLION, Settings

_RUN = """
import json, sys, time
import ensue
from ensue.run import streamed
path, limit = sys.argv[1], int(sys.argv[2])
streamed.LARGE = limit
q = (ensue.pattern("A B{4,} C{4,}").define(B="price < PREV(price)", C="price > PREV(price)")
     .order_by("t").measures(first="FIRST(A.t)", last="LAST(C.t)"))
begin, wall = time.process_time(), time.perf_counter()
found = q.matches(path)
used = time.process_time() - begin, time.perf_counter() - wall
status = open("/proc/self/status").readlines()  # getrusage counts what the parent held, too
most = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps([*used, most, found.num_rows]))
"""


def run_long(settings: Settings) -> bool:
    """long: a row pattern over one sequence in Parquet, as it is read and read whole"""
    rows = settings.rows or 32 * MILLION
    short, full = _ticks(settings.folder, rows // 4), _ticks(settings.folder, rows)
    _child(_ticks(settings.folder, rows // 16), 0)  # compiles what is not compiled yet
    asked = {
        f"as it is read, {rows // 4:,} rows": (short, 0, rows // 4),
        f"as it is read, {rows:,} rows": (full, 0, rows),
        f"read whole, {rows // 4:,} rows": (short, 1 << 60, rows // 4),
    }
    found, most, matches = [], [], []
    for name, (path, limit, size) in asked.items():
        cpu, wall, megabytes, count = _child(path, limit)
        notes = {"MB at most": round(megabytes), "matches": count}
        found.append(Measurement(name, size, [wall], [cpu], [0], notes=notes))
        most.append(megabytes)
        matches.append(count)
    assert matches[0] == matches[2]
    targets = [
        Target("memory, four times the rows ÷ the rows", most[1] / most[0], 1.1),
        Target("memory, as it is read ÷ read whole", most[0] / most[2], 0.7),
        Target("CPU, as it is read ÷ read whole", found[0].cpu[0] / found[2].cpu[0], 1.0),
    ]
    return report("one long sequence in a file", found, targets, "long")


def _child(path: Path, limit: int) -> tuple[float, float, float, int]:
    given = [sys.executable, "-c", _RUN, str(path), str(limit)]
    done = subprocess.run(given, capture_output=True, text=True, check=True, env=os.environ)
    cpu, wall, most, count = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall, most, count


def _ticks(folder: Path, rows: int) -> Path:
    path = folder / f"long_{rows}.parquet"
    if path.exists():
        return path
    random, level, size = np.random.default_rng(7), 0.0, min(rows, MILLION)
    schema = pa.schema([("t", pa.int64()), ("price", pa.float64()), ("user", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for begin in range(0, rows, size):
            count = min(size, rows - begin)
            price = level + np.cumsum(random.normal(0, 1, count))
            level = float(price[-1])
            t, user = np.arange(begin, begin + count), random.integers(0, 1 << 40, count)
            writer.write_table(pa.table([t, price, user], schema=schema), row_group_size=size // 2)
    return path


COMMANDS = {"long": run_long}

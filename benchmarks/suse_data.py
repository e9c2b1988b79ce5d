"""SuSe on real data: figures 12 (Citi Bike) and 13 (NASDAQ), with `--data FOLDER`.

The folder holds `trips.parquet` or `bars.parquet` (somewhere below it). Character types are
derived in Spark SQL as §7.5 and §7.6 describe them; the paper names the types and not their
thresholds, so those here are quantiles of the data, written down in the SQL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import suse_streams as s
from benchmarks.harness import say, write_rows
from benchmarks.rows import Settings

# B popular route, C short ride at a busy station, E ride from a busy station, F long ride at a
# central station, H other ride at a central station, K member ride at a quiet station.
CITIBIKE = """
WITH stations AS (
  SELECT start_station AS station, COUNT(*) AS starts,
         PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS busy
  FROM trips GROUP BY start_station
), routes AS (
  SELECT start_station, end_station, PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS popular
  FROM trips GROUP BY start_station, end_station
), typed AS (
  SELECT t.start_time, CASE
    WHEN s.busy >= 0.9 AND t.seconds < 300 THEN 'C'
    WHEN s.busy >= 0.9 THEN 'E'
    WHEN s.busy >= 0.6 AND t.seconds >= 900 THEN 'F'
    WHEN s.busy >= 0.6 THEN 'H'
    WHEN r.popular >= 0.95 THEN 'B'
    WHEN s.busy < 0.4 AND t.member THEN 'K'
    ELSE 'X' END AS kind
  FROM trips t
  JOIN stations s ON t.start_station = s.station
  JOIN routes r ON t.start_station = r.start_station AND t.end_station = r.end_station
)
SELECT kind, ROW_NUMBER() OVER (ORDER BY start_time) AS t FROM typed
"""

# A price surge, B price drop, G uncertainty (wide range, little change), V high volume, X the rest.
NASDAQ = """
WITH moves AS (
  SELECT ts, symbol, close / open - 1 AS move, (high - low) / open AS spread, volume,
         AVG(volume) OVER (PARTITION BY symbol) AS usual
  FROM bars
), typed AS (
  SELECT ts, symbol, CASE
    WHEN move >= 0.001 THEN 'A'
    WHEN move <= -0.001 THEN 'B'
    WHEN spread >= 0.001 THEN 'G'
    WHEN volume >= 2 * usual THEN 'V'
    ELSE 'X' END AS kind
  FROM moves
)
SELECT kind, ROW_NUMBER() OVER (ORDER BY ts, symbol) AS t FROM typed
"""
# The file, the SQL, and columns of which one tells the file from others of its name.
SOURCES = {
    "figure12": ("trips", CITIBIKE, {"start_station", "start_station_id"}),
    "figure13": ("bars", NASDAQ, {"ts"}),
}
QUERIES = {
    "figure12": {"Q0": "E (H | K)* E", "Q1": "(E | B | F)+ C E H F"},
    "figure13": {"Q0": "A (B | G)* A", "Q1": "A* G (A | B)* G* A"},
}


def run_figure12(settings: Settings) -> bool:
    """suse-figure12    Citi Bike: recall against FIFO and random, throughput, latency (--data)."""
    return _run(settings, "figure12")


def run_figure13(settings: Settings) -> bool:
    """suse-figure13    NASDAQ: recall against FIFO and random, throughput, latency (--data)."""
    return _run(settings, "figure13")


def stream(settings: Settings, figure: str) -> pa.Table | None:
    """The typed events of a figure; None where the folder has no such file."""
    name, sql, needed = SOURCES[figure]
    for path in sorted(settings.folder.rglob(f"{name}.parquet")):
        found = {c.lower().replace(" ", "_") for c in pq.read_schema(path).names}
        if found & needed:
            return _typed(settings, path, name, sql)
    say(f"{figure} needs {name}.parquet below {settings.folder}: give --data FOLDER")
    return None


def _run(settings: Settings, figure: str) -> bool:
    typed = stream(settings, figure)
    if typed is None:
        return True
    events = typed.slice(0, settings.rows or 50_000)
    say(f"{figure}: {events.num_rows:,} events, {_shares(events)}")
    rows = []
    for label, text in QUERIES[figure].items():
        for size in (100, 250, 500):
            for window in (100, 250, 500):
                rows += _measure(events, label, text, size, window)
    write_rows(f"suse-{figure}", rows)
    say(f"{figure}: median improvement {np.median([r['improvement'] for r in rows]):.3g}, "
        f"slowest {min(r['per second'] for r in rows):,.0f} events/s")  # fmt: skip
    return True


def _typed(settings: Settings, path: Path, name: str, sql: str) -> pa.Table:
    frame = settings.spark.read.parquet(str(path))
    if name == "trips":
        frame = frame.select(*_trip_columns(frame.columns))
    frame.createOrReplaceTempView(name)
    return settings.spark.sql(sql + " ORDER BY t").toArrow()


def _trip_columns(columns: list[str]) -> list[Any]:
    """The published files differ in the spelling of their columns."""
    from pyspark.sql import functions as F  # noqa: N812

    folded = {c.lower().replace(" ", "_"): c for c in columns}

    def first(*names: str) -> Any:
        return F.col(f"`{next(folded[n] for n in names if n in folded)}`")

    start = first("start_time", "starttime", "started_at").cast("timestamp")
    stop = first("stop_time", "stoptime", "ended_at").cast("timestamp")
    kind = first("user_type", "usertype", "member_casual")
    return [
        start.alias("start_time"),
        (stop.cast("long") - start.cast("long")).alias("seconds"),
        first("start_station", "start_station_id", "start_station_name").alias("start_station"),
        first("end_station", "end_station_id", "end_station_name").alias("end_station"),
        F.lower(kind).isin("subscriber", "member").alias("member"),
    ]


def _measure(
    events: pa.Table, label: str, text: str, size: int, window: int
) -> list[dict[str, Any]]:
    asked = s.triggers(events.num_rows, 10, 1)
    ours = s.feed(text, events, size, window, "benefit", asked)
    found = []
    for baseline in ("fifo", "random"):
        theirs = s.feed(text, events, size, window, baseline, asked)
        found.append(
            {
                "query": label, "pattern": text, "size": size, "window": window,
                "baseline": baseline, "improvement": s.improvement(ours.counts, theirs.counts),
                "per second": events.num_rows / ours.seconds,
                "latency": ours.seconds / events.num_rows,
            }
        )  # fmt: skip
    return found


def _shares(events: pa.Table) -> str:
    counted = events["kind"].value_counts().to_pylist()
    return ", ".join(f"{row['values']} {row['counts'] / events.num_rows:.0%}" for row in counted)


COMMANDS = {"suse-figure12": run_figure12, "suse-figure13": run_figure13}

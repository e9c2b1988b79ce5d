"""The workloads in Flink SQL; runs in the environment that `flink.py` makes.

Called as `python -m benchmarks.flink_job WORKLOAD CSV WARM_UP REPEAT PARALLELISM MODE`, the mode
being batch or streaming; prints one JSON object a run on standard output. `read` is the same source
with a plain aggregate over it (batch), or with all rows into nothing (streaming).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.processes import Clock

TABLES = {
    "w1": ("symbol STRING, ts TIMESTAMP(3), price DOUBLE, volume BIGINT", "SUM(price)"),
    "w2": ("user_id BIGINT, ts TIMESTAMP(3), kind STRING, amount DOUBLE", "SUM(amount)"),
}

# Flink refuses a greedy quantifier at the end of a pattern, hence the reluctant C+? of W1.
MATCHES = {
    "w1": """
        events MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY ts
            MEASURES FIRST(A.price) AS first_price, LAST(B.price) AS bottom,
                     LAST(C.price) AS last_price
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B+ C+?)
            DEFINE B AS B.price < LAST(price, 1), C AS C.price > LAST(price, 1)
        )""",
    "w2": """
        events MATCH_RECOGNIZE (
            PARTITION BY user_id ORDER BY ts
            MEASURES COUNT(C.user_id) AS carts, P.amount AS paid
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (V C+ P) WITHIN INTERVAL '1' HOUR
            DEFINE V AS V.kind = 'view', C AS C.kind = 'cart', P AS P.kind = 'pay'
        )""",
}
MEASURES = {
    "w1": {"first_price": "DOUBLE", "bottom": "DOUBLE", "last_price": "DOUBLE"},
    "w2": {"carts": "BIGINT", "paid": "DOUBLE"},
}


def main(
    workload: str, path: str, warm_up: str, repeat: str, parallelism: str, mode: str = "batch"
) -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    streaming = mode == "streaming"
    chosen = (
        EnvironmentSettings.in_streaming_mode if streaming else EnvironmentSettings.in_batch_mode
    )
    env = TableEnvironment.create(chosen())
    env.get_config().set("parallelism.default", parallelism)
    env.get_config().set("table.local-time-zone", "UTC")
    columns, total = TABLES[workload]
    env.execute_sql(
        # A row at the watermark is late: one of the same time must find it still before.
        f"CREATE TABLE events ({columns}, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', "
        "'csv.null-literal' = '')"
    )
    sums = ", ".join(f"SUM({name})" for name in MEASURES[workload])
    queries = {
        "read": f"SELECT COUNT(*), {total} FROM events",
        "match": f"SELECT COUNT(*), {sums} FROM {MATCHES[workload]} AS found",
    }
    if streaming:
        _sinks(env, workload, columns, path)
        names = ", ".join(MEASURES[workload])
        queries = {
            "read": "INSERT INTO all_rows SELECT * FROM events",
            "match": f"INSERT INTO nowhere SELECT {names} FROM {MATCHES[workload]} AS found",
        }
    for number in range(int(warm_up) + int(repeat)):
        for name, text in queries.items():
            with Clock() as clock:
                answer = None if streaming else _last(env.execute_sql(text))
                if streaming:
                    env.execute_sql(text).wait()
            told = {"query": name, "warm_up": number < int(warm_up), "answer": answer}
            _tell(told | {k: getattr(clock, k) for k in ("wall", "cpu", "others")})
    if streaming:
        env.execute_sql(queries["match"].replace("nowhere", "files", 1)).wait()
        told = {"query": "match", "warm_up": True, "answer": _sums(f"{path}.found")}
        _tell(told | dict.fromkeys(("wall", "cpu", "others"), 0.0))


def _sinks(env: Any, workload: str, columns: str, path: str) -> None:
    """A stream's running sums would be a row each: matches go nowhere, and once into files."""
    measures = ", ".join(f"{name} {kind}" for name, kind in MEASURES[workload].items())
    shutil.rmtree(f"{path}.found", ignore_errors=True)
    env.execute_sql(f"CREATE TABLE all_rows ({columns}) WITH ('connector' = 'blackhole')")
    env.execute_sql(f"CREATE TABLE nowhere ({measures}) WITH ('connector' = 'blackhole')")
    env.execute_sql(
        f"CREATE TABLE files ({measures}) WITH ('connector' = 'filesystem', "
        f"'path' = '{path}.found', 'format' = 'csv')"
    )


def _last(result: Any) -> list[Any]:
    with result.collect() as rows:
        return [list(row) for row in rows][-1]


def _sums(folder: str) -> list[float]:
    """The number of matches in the files, and the sum of each measure."""
    lines = [line.split(",") for p in Path(folder).iterdir() for line in p.read_text().split()]
    columns = zip(*lines, strict=True)
    return [len(lines), *(sum(float(value) for value in column) for column in columns)]


def _tell(told: dict[str, Any]) -> None:
    print(json.dumps(told))
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

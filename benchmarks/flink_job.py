"""The workloads in Flink SQL; runs in the environment that `flink.py` makes.

Called as `python -m benchmarks.flink_job WORKLOAD CSV WARM_UP REPEAT PARALLELISM MODE`, the mode
being batch or streaming; prints one JSON object a run on standard output. `read` is the same source
with a plain aggregate over it.
"""

from __future__ import annotations

import json
import sys

from benchmarks.processes import Clock

TABLES = {
    "w1": ("symbol STRING, ts TIMESTAMP(3), price DOUBLE, volume BIGINT", "SUM(price)"),
    "w2": ("user_id BIGINT, ts TIMESTAMP(3), kind STRING, amount DOUBLE", "SUM(amount)"),
}

# Flink refuses a greedy quantifier at the end of a pattern, hence the reluctant C+? of W1.
QUERIES = {
    "w1": """
        SELECT COUNT(*), SUM(first_price), SUM(bottom), SUM(last_price)
        FROM events MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY ts
            MEASURES FIRST(A.price) AS first_price, LAST(B.price) AS bottom,
                     LAST(C.price) AS last_price
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B+ C+?)
            DEFINE B AS B.price < LAST(price, 1), C AS C.price > LAST(price, 1)
        ) AS found""",
    "w2": """
        SELECT COUNT(*), SUM(carts), SUM(paid)
        FROM events MATCH_RECOGNIZE (
            PARTITION BY user_id ORDER BY ts
            MEASURES COUNT(C.user_id) AS carts, P.amount AS paid
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (V C+ P) WITHIN INTERVAL '1' HOUR
            DEFINE V AS V.kind = 'view', C AS C.kind = 'cart', P AS P.kind = 'pay'
        ) AS found""",
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
        f"CREATE TABLE events ({columns}, WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', "
        "'csv.null-literal' = '')"
    )
    for number in range(int(warm_up) + int(repeat)):
        for name, text in (
            ("read", f"SELECT COUNT(*), {total} FROM events"),
            ("match", QUERIES[workload]),
        ):
            with Clock() as clock, env.execute_sql(text).collect() as rows:
                answer = [list(row) for row in rows][-1]  # a stream tells every step on the way
            told = {"query": name, "warm_up": number < int(warm_up), "answer": answer}
            print(json.dumps(told | {k: getattr(clock, k) for k in ("wall", "cpu", "others")}))
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The driver of `test_cluster.py`: a cluster whose executors have no Ensue of their own.

    python -m tests.spark.cluster_job FOLDER

The session is made before Ensue is imported. Every answer is printed beside the in-process one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.standalone import Cluster, session_of, worker_python

FOLDER = Path(sys.argv[1])
ROWS = 20_000
ENDS = {"src": "src", "label": "label", "dst": "dst"}


def main() -> None:
    with Cluster(FOLDER, workers=2) as cluster:
        spark = session_of(cluster.url)
        out = answers(spark, cluster)
        spark.stop()
    print("RESULT" + json.dumps(out, default=str))


def answers(spark: Any, cluster: Cluster) -> dict[str, Any]:
    import ensue
    from benchmarks import rows
    from ensue.spark.pack import pack

    tables = {work.name: work.make(100, ROWS) for work in (rows.w1(), rows.w2())}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    first = rows.w1().query
    out: dict[str, Any] = {"none": refusal(lambda: first.count(frames["w1"]))}
    packed = pack(FOLDER / "ensue.zip")
    spark.addArtifacts(str(packed.path), pyfile=True)
    for work in (rows.w1(), rows.w2()):
        found = work.query.matches(frames[work.name]).toArrow()
        here = work.query.matches(tables[work.name])
        out[work.name] = [listed(found), listed(here)]
    out["stream"] = streamed(spark)
    out |= graphs(spark, ensue)
    out["killed"] = killed(spark, cluster, first, frames["w1"], tables["w1"])
    ensue.__version__ = "99.0"
    out["other"] = refusal(lambda: first.count(frames["w1"]))
    return out


def refusal(call: Callable[[], Any]) -> list[str]:
    from ensue import errors

    try:
        call()
    except errors.EnsueError as problem:
        return [type(problem).__name__, problem.problem, problem.remedy]
    return []


def listed(table: Any) -> list[Any]:
    return sorted(str(list(row.values())) for row in table.to_pylist())


def streamed(spark: Any) -> list[Any]:
    """Half of the files, a stop, the other half on the same checkpoint."""
    from ensue.spark.control import Control
    from tests.spark.test_stream import PATTERN, events, files, stream_of

    table = events(120)
    source, later = FOLDER / "in", FOLDER / "later"
    files(table.slice(0, 60), source)
    files(table.slice(60), later)
    control = Control(FOLDER / "control")
    found = PATTERN.matches(stream_of(spark, source), lanes=4, control=str(control.folder))
    writer = found.writeStream.format("parquet").option("path", str(FOLDER / "out"))
    writer = writer.option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for path in sorted(later.iterdir()):
        path.rename(source / f"9{path.name}")
    control.end()
    writer.trigger(availableNow=True).start().awaitTermination()
    read = spark.read.parquet(str(FOLDER / "out")).select("user", "bs", "last").toArrow()
    here = PATTERN.matches(table).select(["user", "bs", "last"])
    return [listed(read), listed(here)]


def graphs(spark: Any, ensue: Any) -> dict[str, Any]:
    """Copied as files that only Spark can bring, and joined."""
    import pyarrow as pa

    from ensue.run.spark import graph as on_spark

    on_spark.IN_TASK_BYTES = 0
    nodes = range(60)
    edges = pa.table(
        {
            "src": [f"n{i}" for i in nodes],
            "label": ["next" if i % 3 else "skip" for i in nodes],
            "dst": [f"n{(i * 7 + 1) % 60}" for i in nodes],
        }
    )
    df = spark.createDataFrame(edges)
    here = listed(ensue.graph(edges, **ENDS).paths("next/skip|next+", max_hops=4))
    out = {}
    for plan in ("copy", "join"):
        graph = ensue.graph(df, **ENDS, plan=plan)
        if plan == "copy":
            runner = graph._spark._runner
            runner.ticket = replace(runner.ticket, folder="")  # as on another machine
            assert runner.ticket.archive
            del runner
        asked = graph.paths("next/skip|next+", max_hops=4)
        del graph  # what it asked goes on without it
        out[plan] = [listed(asked.toArrow()), here]
    return out


def killed(spark: Any, cluster: Cluster, query: Any, df: Any, table: Any) -> list[Any]:
    """A third worker joins, and is killed while it works on the job."""
    third = cluster.add_worker()
    work = cluster.folder / f"worker{third}"

    go = FOLDER / "go"

    def waiting(batches: Any) -> Any:
        Path("busy").touch()  # in the executor's own folder
        while not go.exists():
            time.sleep(0.05)
        yield from batches

    slow = df.repartition(12).mapInArrow(waiting, df.schema)
    found: list[Any] = []
    job = threading.Thread(target=lambda: found.append(query.matches(slow).toArrow()))
    job.start()
    patience = time.monotonic() + 200
    while not list(work.glob("*/*/busy")) and time.monotonic() < patience:
        time.sleep(0.05)
    busy = bool(list(work.glob("*/*/busy"))) and job.is_alive()
    cluster.kill_worker(third)
    go.touch()
    job.join()
    return [busy, listed(found[0]), listed(query.matches(table))]


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = worker_python()
    main()

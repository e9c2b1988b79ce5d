"""Row patterns on clusters of processes: Spark standalone and local-cluster, two workers each.

Both run on this machine, so their figures say what a cluster costs (JVMs, shuffles over sockets,
Ensue unpacked by every node), not how it scales. Answers must equal those in process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import rows
from benchmarks.harness import compare, report
from benchmarks.standalone import Cluster, session_of, worker_python
from ensue.spark.pack import pack

ROWS = 200_000
LOCAL_CLUSTER = "local-cluster[2,1,1024]"


def run_cluster(settings: rows.Settings) -> bool:
    """cluster: W1 and W2 on Spark standalone with a packed Ensue, and on local-cluster"""
    with TemporaryDirectory(prefix="ensue-cluster-") as name:
        packed = pack(Path(name) / "ensue.zip")
        os.environ["PYSPARK_PYTHON"] = worker_python()
        with Cluster(Path(name) / "nodes", workers=2) as cluster:
            session = session_of(cluster.url)
            session.addArtifacts(str(packed.path), pyfile=True)
            met = _measured("standalone", session, settings)
            session.stop()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = session_of(LOCAL_CLUSTER)
    met &= _measured(LOCAL_CLUSTER, session, settings)
    session.stop()
    return met


def _measured(place: str, session: Any, settings: rows.Settings) -> bool:
    met = True
    count = settings.rows or ROWS
    for work in (rows.w1(), rows.w2()):
        table = work.make(work.keys, count)
        frame = session.createDataFrame(table.select(work.columns)).cache()
        plans = {"shuffle and sort": rows.baseline(frame, work), "Ensue": work.query.matches(frame)}
        found = compare(
            {name: (count, plan.write.format("noop").mode("overwrite").save)
             for name, plan in plans.items()},
            repeat=settings.repeat,
            warm_up=1,
        )  # fmt: skip
        file = f"{work.name}-cluster-{place.partition('[')[0]}"
        report(f"{work.name}, {count:,} rows, {place}, two workers", found, (), file)
        there = rows.answer_of(work, plans["Ensue"].toArrow())
        here = rows.answer_of(work, work.query.matches(table))
        met &= rows.same(f"{place} and in process", there, here)
        frame.unpersist()
    return met


COMMANDS = {"cluster": run_cluster}

"""Spark's daemon of Python workers, with Ensue imported before it forks them.

Otherwise each worker imports Ensue, Numba and Arrow for itself: more than a second of CPU. Workers
collect garbage after each task, which takes 80 ms unless what was imported is set aside.
"""

import gc

from pyspark import daemon

import ensue.run.spark.batch
import ensue.run.spark.graph
import ensue.run.spark.quantify
import ensue.run.spark.stream
import ensue.run.spark.workload  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()

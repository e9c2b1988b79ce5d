"""Compile, or load from Numba's disk cache, the path kernels a call needs, before it is timed.

As `rows/warm.py` does for row patterns: on a fresh install that takes some seconds, once per
machine, and a message says so. Spark's workers on this host then load the cached machine code.
"""

from __future__ import annotations

import sys
import threading
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import Origins
from ensue.paths.search import PathEngine, Request
from ensue.query import nodes
from ensue.query.paths import EdgeTest, PathQuery, Semantics

_PATIENCE = 2.0


@lru_cache(maxsize=8)
def warm_up(asked: str) -> None:
    """`asked` is paths, ends or counts; does nothing the second time."""
    message = "ensue: compiling its kernels, once per machine (the result is cached on disk) ..."
    timer = threading.Timer(_PATIENCE, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        _run(asked)
    finally:
        timer.cancel()


def _run(asked: str) -> None:
    one = np.zeros(1, np.int32)
    store = GraphStore.build(one, one, one + np.int32(1), pa.array(["a", "b"]), ("x",))
    loop = PathQuery(nodes.Repetition(nodes.Label("0"), 1, None), (EdgeTest(("x",)),))
    origins = Origins.everywhere(np.zeros(1, np.int64), 1)
    many = Origins(np.zeros(64, np.int32), np.zeros(64, np.int32), origins.sets)
    engine = PathEngine(store)
    if asked == "ends":
        for some in (origins, many):
            engine.ends(Request((loop,), some))
    elif asked == "counts":
        engine.path_counts(Request((loop,), origins))
    else:
        for _ in engine.paths(Request((loop,), origins, semantics=Semantics.WALK)):
            pass

"""A small search of each kind, so that the path kernels a call needs are compiled before it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.kernels.warm import announced
from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import Origins
from ensue.paths.search import PathEngine, Request
from ensue.query import nodes
from ensue.query.paths import EdgeTest, PathQuery, Semantics


@lru_cache(maxsize=8)
@announced
def warm_up(asked: str) -> None:
    """`asked` is paths, ends, counts or shortest; does nothing the second time."""
    one = np.zeros(1, np.int32)
    store = GraphStore.build(one, one, one + np.int32(1), pa.array(["a", "b"]), ("x",))
    loop = PathQuery(nodes.Repetition(nodes.Label("0"), 1, None), (EdgeTest(("x",)),))
    origins = Origins.everywhere(np.zeros(1, np.int64), 1)
    many = Origins(np.zeros(64, np.int32), np.zeros(64, np.int32), origins.sets)
    engine = PathEngine(store)
    if asked == "ends":
        for some in (origins, many):
            engine.ends(Request((loop,), some))
    elif asked == "shortest":
        column = pa.table({"weight": [1.0]})
        engine = PathEngine(replace(store, edges=column))
        end = np.ones(1, np.int64)
        for weight in (None, "weight"):
            for ends in (end, None):
                asking = Request((loop,), origins, ends, shortest="any", weight=weight)
                list(engine.paths(asking))
    elif asked == "counts":
        engine.path_counts(Request((loop,), origins))
    else:
        for _ in engine.paths(Request((loop,), origins, semantics=Semantics.WALK)):
            pass

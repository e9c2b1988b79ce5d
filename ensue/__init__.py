"""Ensue finds, counts and ranks patterns of events: in tables, on Spark.

    >>> import ensue, pyarrow as pa
    >>> shop = pa.table({"user": [1, 1, 2], "ts": [0, 5, 0], "kind": ["view", "pay", "view"]})
    >>> bought = ensue.pattern("view -> pay", types="kind").partition_by("user").order_by("ts")
    >>> bought.count(shop)
    1
    >>> bought.matches(shop).select(["user", "first", "last"]).to_pylist()
    [{'user': 1, 'first': 0, 'last': 5}]

Say a pattern with `ensue.pattern` (text), `ensue.begin` (step by step), `ensue.sase` or `ensue.sql`
(a whole statement with MATCH_RECOGNIZE). Ask it with `matches`, `count`, `aggregate`, `summarize`
or `matcher`; look at it with `explain`, `plot`, `show` and `timeline`; ask `why` where it found
nothing. `ensue.workload` runs many patterns as one, `ensue.graph` finds paths, `ensue.quantify`
computes what the structure of a stream adds up to, `ensue.Automaton` draws automata by hand.

An Arrow, pandas or Polars table, a file or a Spark DataFrame goes in, and a table of the same kind
comes out. Examples in docstrings take `import ensue, pyarrow as pa` and `from ensue import quantify
as q` as given.

A public name is loaded when it is first used, so that `import ensue` costs next to nothing: Numba,
sqlglot and Arrow come with the first pattern, pyspark with the first DataFrame. Spark's workers
gain as much, since each loads the rooms that its own job needs and no others.
"""

from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any

from ensue.errors import EnsueError
from ensue.java import use_packaged_java
from ensue.worker_python import use_this_python

if TYPE_CHECKING:
    from ensue import quantify
    from ensue.api.automaton import Automaton
    from ensue.api.chain import begin
    from ensue.api.graph import Graph, graph
    from ensue.api.matching import restore
    from ensue.api.pattern import Pattern, pattern, sase
    from ensue.api.sql import sql
    from ensue.api.sql_explain import explain
    from ensue.api.tune import tune
    from ensue.api.workload import Workload, workload
    from ensue.operator.budget import Budget
    from ensue.operator.protocol import Watermark
    from ensue.paths.similarity import Question
    from ensue.query.query import UNORDERED
    from ensue.sequences.compact import expand

__version__ = "0.2.0"
__all__ = [
    "UNORDERED",
    "Automaton",
    "Budget",
    "EnsueError",
    "Graph",
    "Pattern",
    "Question",
    "Watermark",
    "Workload",
    "begin",
    "expand",
    "explain",
    "graph",
    "pattern",
    "quantify",
    "restore",
    "sase",
    "sql",
    "tune",
    "workload",
]
# Where each name above is defined; a module stands for itself.
_PLACES = {
    "UNORDERED": "ensue.query.query",
    "Automaton": "ensue.api.automaton",
    "Budget": "ensue.operator.budget",
    "Graph": "ensue.api.graph",
    "Pattern": "ensue.api.pattern",
    "Question": "ensue.paths.similarity",
    "Watermark": "ensue.operator.protocol",
    "Workload": "ensue.api.workload",
    "begin": "ensue.api.chain",
    "expand": "ensue.sequences.compact",
    "explain": "ensue.api.sql_explain",
    "graph": "ensue.api.graph",
    "pattern": "ensue.api.pattern",
    "quantify": "ensue.quantify",
    "restore": "ensue.api.matching",
    "sase": "ensue.api.pattern",
    "sql": "ensue.api.sql",
    "tune": "ensue.api.tune",
    "workload": "ensue.api.workload",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        here = modules[__name__]  # Python names the nearest of its names
        raise AttributeError(f"module 'ensue' has no attribute {name!r}", name=name, obj=here)
    module = import_module(place)
    value = module if place == f"ensue.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "errors"]


use_this_python()
use_packaged_java()

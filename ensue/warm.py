"""`ensue warm`: a small query of every kind, so that later ones find their kernels compiled.

A kernel is compiled for the types it is called with, so each part calls what users call, on a few
rows of the usual types: integers, floats, text and times. What only rare queries call (state that
grew large, sums beyond 64 bits) is left to those.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core import event

from ensue import errors, quantify
from ensue.api.automaton import Automaton
from ensue.api.graph import graph
from ensue.api.pattern import Pattern, pattern
from ensue.api.workload import workload
from ensue.kernel_cache import kernels
from ensue.kernels.order import has_equal
from ensue.kernels.warm import COMPILED, kernel_of
from ensue.missing.warm import warm_up as warm_missing
from ensue.operator.budget import Budget
from ensue.paths.similarity import Question
from ensue.paths.warm import warm_up as warm_paths
from ensue.progress import counting
from ensue.rows.warm import warm_up as warm_rows
from ensue.run.lanes.hashes import spark_hashes

_ROWS = 64
_ORDER: dict[str, Any] = {"speculation": math.inf}


@dataclass(frozen=True)
class Warmed:
    """How many kernels were compiled, and how long that took."""

    compiled: int
    seconds: float


def warm(parts: Sequence[str] = ()) -> Warmed:
    """Compile what is missing of these parts, or of all; a bar shows how far it is."""
    for part in parts:
        if part not in PARTS:
            raise errors.QueryError(
                f"ensue warm knows no part {part!r}", remedy=f"parts are: {', '.join(PARTS)}"
            )
    done: set[str] = set()
    begin = time.perf_counter()
    missing = sum(not kernel.files for kernel in kernels())
    with counting("compiling", None if parts else missing) as step:

        def compiled(name: str) -> None:
            if name not in done and step is not None:
                step(name)
            done.add(name)

        with event.install_listener(COMPILED, _Compiled(compiled)):
            for part in parts or PARTS:
                PARTS[part]()
    return Warmed(len(done), time.perf_counter() - begin)


class _Compiled(event.Listener):
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def on_start(self, event: event.Event) -> None:
        pass

    def on_end(self, event: event.Event) -> None:
        kernel = kernel_of(event)
        if kernel is not None:
            self._tell(kernel)


# -- a few rows -----------------------------------------------------------------------------------


def _events(timed: bool = True) -> pa.Table:
    numbers = np.arange(_ROWS)
    moments = pa.array(numbers * 10**6, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "k": ["u", "w"] * (_ROWS // 2),
            "t": moments if timed else pa.array(numbers),
            "kind": list("AABBCCAX") * (_ROWS // 8),
            "n": numbers * 7 % 11,
            "x": numbers * 7 % 5 + 0.5,
        }
    )


def _asked(text: str, timed: bool = True, **define: str) -> Pattern:
    size: Any = "10 seconds" if timed else 10
    query = pattern(text, types="kind").define(**define).partition_by("k")
    return query.order_by("t", ties="ignore").within(size)


def _live(matcher: Any, events: pa.Table) -> None:
    """In pieces, out of order, with a correction and a snapshot."""
    middle = events.num_rows // 2
    matcher.insert(events.slice(middle))
    matcher.insert(events.slice(0, middle))
    matcher.retract(events.slice(3, 1))
    matcher.advance(events.column("t")[middle].as_py())
    matcher.snapshot()
    matcher.end()


# -- the parts ------------------------------------------------------------------------------------


def _row_patterns() -> None:
    warm_rows(guarded=False)
    warm_rows(guarded=True)
    for timed in (True, False):
        events = _events(timed)
        plain = pattern("A B+", types="kind").partition_by("k").order_by("t", ties="ignore")
        for query in (
            plain.define(B="x < PREV(x)").measures(m="MAX(B.x)", n="COUNT(*)"),
            plain.define(B="n > A.n AND x < AVG(B.x) + 9").measures(a="SUM(B.n)", b="AVG(B.x)"),
            plain.rows_per_match("all rows").measures(c="CLASSIFIER()", s="SUM(x)"),
            plain.measures(d="COUNT(DISTINCT B.n)", l="ARRAY_AGG(n)", s="SUM(CAST(n AS DECIMAL))"),
            plain.rows_per_match("all rows").measures(l="ARRAY_AGG(n)", d="COUNT(DISTINCT n)"),
        ):
            query.matches(events)
        _live(plain.define(B="n > A.n").matcher(**_ORDER), events)


def _event_patterns() -> None:
    for timed in (True, False):
        events = _events(timed)
        for query in (
            _asked("A -> B+ -> C", timed),
            _asked("A ->> B ->> C", timed, C="n > A.n"),
            _asked("A ->> B+ ->> C", timed, B="x > LAST(A.x)"),
            _asked("A -> !X -> B", timed),
            _asked("A B", timed).select("next").after_match("past last row"),
        ):
            query.matches(events)
            query.matches(events, limit=5)
            query.matches(events, sample=5)
            query.matches(events, timeouts=True)
            query.count(events)
            query.aggregate(events, by="k", n="count(*)", s="sum(A.n)", a="avg(A.x)", m="max(A.x)")
            _live(query.matcher(**_ORDER), events)
    _asked("A -> B+ -> C").matches(_events(), compact=True)
    _live(_asked("A -> B").matcher(aggregate={"n": "count(*)", "s": "sum(A.n)"}), _events())


def _missing_events() -> None:
    warm_missing()
    events = _events()
    for query in (_asked("A ->> B ->> C"), _asked("A ->> B ->> C", C="n > A.n")):
        near = query.allow_missing(1)
        for budget in (None, Budget(work=5)):
            near.matches(events, budget=budget)
        _live(near.matcher(**_ORDER), events)


def _workloads() -> None:
    events = _events()
    both = workload(
        one=_asked("A ->> B ->> C"),
        two=_asked("A ->> B ->> A", B="n > A.n"),
        three=_asked("B ->> C"),
    )
    for budget in (None, Budget(work=3), Budget(work="50%")):
        both.matches(events, budget=budget)
    alone = pattern("A B+ C", types="kind").partition_by("k").order_by("t", ties="ignore")
    alone.after_match("to next row").matches(events, budget=Budget(work=3))
    live = both.matcher()
    live.insert(events)
    live.snapshot()
    live.end()


def _summaries() -> None:
    events = _events(timed=False).drop_columns(["k"])
    query = pattern("A B* C", types="kind").select("any").order_by("t", ties="ignore").within(20)
    for size in (8, 1_000):
        for select in ("benefit", "fifo", "random"):
            done = query.summarize(events, size=size, select=select, total="sum(n)")
            done.result()
            done.snapshot()
    query.partition_by("k").summarize(_events(timed=False), size=20).result()
    _live(query.summarize(size=20, **_ORDER), events)


def _automata() -> None:
    for timed in (True, False):
        events = _events(timed)
        size: Any = "10 seconds" if timed else 10
        automaton = (
            Automaton({"c": "bigint"}, order_by="t", partition_by="k", within=size)
            .arc("q0", "q1", when="kind = 'A'", set={"c": "c + 1"})
            .arc("q1", "q1", when="kind = 'B'", set={"c": "c + n"})
            .arc("q1", "q2", epsilon=True)
            .arc("q2", "end", when="kind = 'C' AND n > c")
            .final("end")
        )
        automaton.matches(events)
        _live(automaton.matcher(), events)
        edited = automaton.matcher(events.schema)
        edited.insert(events.slice(0, 20))
        edited.revise(add={"more": {"source": "q0", "target": "end", "when": "kind = 'X'"}})
        edited.insert(events.slice(20))
        edited.revise(remove=["more"])
        edited.end()
        quick = automaton.matcher(events.schema)
        quick.prepare({"more": {"source": "q0", "target": "end", "when": "kind = 'X'"}})
        quick.revise_during(events, at=[10, 20], add=["more", None], remove=[None, "more"])
        quick.end()


def _quantities() -> None:
    if importlib.util.find_spec("z3") is None:
        return  # of the extra `solver`
    block = quantify.split(
        "a + b", quantify.sum("n", over="kind <> 'B'"), quantify.event("kind = 'B'", "n")
    )
    for query in (quantify.iter("last", block), quantify.max("x"), quantify.sum("n")):
        query.values(_events(), partition_by="k", order_by="t")


def _streams() -> None:
    """What the lanes of a stream add to the kernels of its query."""
    events = _events()
    spark_hashes(events, events.column_names)
    has_equal(np.arange(4))


def _graphs() -> None:
    for asked in ("paths", "ends", "counts", "shortest"):
        warm_paths(asked)
    edges = pa.table(
        {
            "subject": [f"a{n % 7}" for n in range(40)],
            "relation": ["x", "y"] * 20,
            "object": [f"a{n % 5}" for n in range(40)],
            "since": list(range(40)),
        }
    )
    known = graph(edges)
    for expression in ("x/y", "(x|^y)+", "x[edge.since > 3]/y"):
        for way in ("walk", "trail", "simple", "no_return"):
            known.paths(expression, start="a1", max_hops=3, semantics=way)
            known.count(expression, start="a1", max_hops=3, semantics=way)
        known.ends(expression)
        known.ends(expression, start="a1", end="a2")
        known.paths(expression, end="a2", max_hops=3)
        known.paths(expression, start="a1", max_hops=3, limit=2)
    known.retrieve(Question("x then y", "a1", ("x/y", "y/x")), budget=Budget(work=5))


PARTS: dict[str, Callable[[], None]] = {
    "rows": _row_patterns,
    "events": _event_patterns,
    "missing": _missing_events,
    "workloads": _workloads,
    "summaries": _summaries,
    "automata": _automata,
    "quantities": _quantities,
    "streams": _streams,
    "graphs": _graphs,
}

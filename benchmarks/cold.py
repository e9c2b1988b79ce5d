"""Cold start: what the first query of each kind costs where nothing was compiled yet.

Each query runs in a process of its own: with an empty kernel cache; as a second worker, whose own
cache is empty too and which is given the kernels of the first by ENSUE_KERNELS; and with the cache
that the first left. What counts is CPU time, of the import and of the query, on a few rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness import Measurement, Target, report
from benchmarks.rows import Settings

ROWS = 64
LONGEST = 10.0  # CPU seconds, of the first query of any kind
FIRST_ROW_MATCH, IMPORT = 3.0, 0.4


def run_cold(settings: Settings) -> bool:
    """cold: the first query of each kind with an empty kernel cache, beside the same one warm"""
    found, targets = [], []
    for kind in KINDS:
        ways = cold, second, warm = [
            Measurement(f"{kind}, {way}", ROWS) for way in ("cold", "second worker", "warm")
        ]
        with tempfile.TemporaryDirectory(prefix="ensue-cold-") as folder:
            one, two, shared = (str(Path(folder, name)) for name in ("one", "two", "shared"))
            _run(kind, one, cold, share=shared)
            _run(kind, two, second, ENSUE_KERNELS=shared)
            _run(kind, one, warm)
        for measured in (cold, second):
            ratio = measured.cpu_median / max(warm.cpu_median, 1e-9)
            measured.notes["/ warm"] = f"{ratio:.1f}"
        found += ways
        limit = FIRST_ROW_MATCH if kind == "row match" else LONGEST
        targets.append(Target(f"first {kind}, CPU s", cold.cpu_median, limit))
    imports = min(float(m.notes["import s"]) for m in found)
    targets.append(Target("import ensue, CPU s", imports, IMPORT))
    return report("Cold start, CPU seconds of the query", found, targets, "cold")


def _run(kind: str, cache: str, measured: Measurement, share: str = "", **settings: str) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "ENSUE_PROGRESS": "off"} | settings
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.cold", kind, share],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    measured.wall.append(time.perf_counter() - begin)
    measured.cpu.append(told["query"])
    measured.others.append(0.0)
    measured.notes |= {"import s": f"{told['import']:.2f}", "loading s": f"{told['loading']:.2f}"}


# -- in the process of a query -------------------------------------------------------------------


def _events() -> Any:
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(ROWS)
    kinds = list("AABBCCAX") * (ROWS // 8)
    columns = {"k": ["u", "w"] * (ROWS // 2), "t": numbers, "kind": kinds}
    return pa.table(columns | {"n": numbers * 7 % 11, "x": numbers * 7 % 5 + 0.5})


def _asked(text: str, **define: str) -> Any:
    import ensue

    query = ensue.pattern(text, types="kind").define(**define).partition_by("k")
    return query.order_by("t", ties="ignore").within(10)


def _row_pattern(condition: str) -> Any:
    import ensue

    query = ensue.pattern("A B+", types="kind").define(B=condition).partition_by("k")
    return query.order_by("t", ties="ignore").measures(m="MAX(B.x)", n="COUNT(*)")


def _workload(events: Any) -> None:
    import ensue

    two = {"one": _asked("A ->> B ->> C"), "two": _asked("A ->> B ->> A")}
    ensue.workload(**two).matches(events)


def _summarize(events: Any) -> None:
    import ensue

    query = ensue.pattern("A B* C", types="kind").select("any").order_by("t", ties="ignore")
    query.within(20).summarize(events.drop_columns(["k"]), size=20, total="sum(n)").result()


def _automaton(events: Any) -> None:
    import ensue

    automaton = ensue.Automaton({"c": "bigint"}, order_by="t", partition_by="k", within=10)
    automaton = automaton.arc("q0", "q1", when="kind = 'A'", set={"c": "c + 1"})
    automaton.arc("q1", "end", when="kind = 'C' AND n > c").final("end").matches(events)


def _quantify(events: Any) -> None:
    from ensue import quantify

    block = quantify.split(
        "a + b", quantify.sum("n", over="kind <> 'B'"), quantify.event("kind = 'B'", "n")
    )
    quantify.iter("last", block).values(events, partition_by="k", order_by="t")


def _paths(events: Any) -> None:
    import ensue

    numbers = range(ROWS)
    edges = {
        "subject": [f"a{n % 7}" for n in numbers],
        "relation": ["x", "y"] * (ROWS // 2),
        "object": [f"a{n % 5}" for n in numbers],
    }
    import pyarrow as pa

    ensue.graph(pa.table(edges)).paths("x/y", start="a1", max_hops=3)


KINDS: dict[str, Callable[[Any], Any]] = {
    "row match": lambda events: _row_pattern("x < PREV(x)").matches(events),
    "correlated row match": lambda events: _row_pattern("x > A.x").matches(events),
    "event match": lambda events: _asked("A -> B+ -> C").matches(events),
    "correlated event match": lambda events: _asked("A ->> B ->> C", C="n > A.n").matches(events),
    "count": lambda events: _asked("A -> B+ -> C").count(events),
    "summarize": _summarize,
    "workload of two": _workload,
    "allow_missing": lambda events: _asked("A ->> B ->> C").allow_missing(1).matches(events),
    "automaton": _automaton,
    "quantify": _quantify,
    "paths": _paths,
}


def main(kind: str, share: str) -> None:
    events = _events()
    marks = [time.process_time()]
    import ensue

    marks.append(time.process_time())
    _ = ensue.pattern, ensue.workload, ensue.Automaton, ensue.graph
    marks.append(time.process_time())
    KINDS[kind](events)
    marks.append(time.process_time())
    spans = [after - before for before, after in pairwise(marks)]
    if share:
        from ensue.kernel_cache import kernels
        from ensue.kernels import given

        given.share(Path(share), (form for kernel in kernels() for form in kernel.compiled()))
    print(json.dumps(dict(zip(("import", "loading", "query"), spans, strict=True))))


if __name__ == "__main__":
    main(*sys.argv[1:])

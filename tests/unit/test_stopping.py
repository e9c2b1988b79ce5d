"""Whatever runs can be stopped, by `timeout=` and by Ctrl-C, and answers right afterwards.

Each case would run for minutes to years. Nothing here asserts on seconds: what is not stopped hangs
until the harness of a subprocess, or whoever runs the tests, gives up.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from inspect import getattr_static, isclass, isfunction, signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors

ROOT = Path(__file__).resolve().parents[2]


def rows(count: int) -> pa.Table:
    numbers = np.arange(count)
    kinds = pa.DictionaryArray.from_arrays(pa.array(numbers % 2, pa.int8()), ["A", "B"])
    columns = {
        "t": numbers,
        "v": numbers * 7919 % 1000,
        "w": numbers % 3,
        "k": kinds.cast("string"),
    }
    return pa.table(columns)


def complete_graph(nodes: int) -> ensue.Graph:
    pairs = [(str(a), str(b)) for a in range(nodes) for b in range(nodes) if a != b]
    subjects, objects = zip(*pairs, strict=True)
    return ensue.graph(
        pa.table({"subject": subjects, "relation": ["r"] * len(pairs), "object": objects})
    )


PRODUCT = "SELECT sum(a.v * b.v * c.v) FROM x a, x b, x c"
ANY = ensue.pattern("A ->> B+ ->> C", types="k").order_by("t")
# Every case but the sum finds nothing, for as long as it may look.
pytestmark = pytest.mark.filterwarnings("ignore::ensue.errors.NothingMatchesWarning")
LISTED = ensue.pattern("A ->> B ->> C").define(B="B.v <> A.v", C="C.v < 0").order_by("t")
THREADS = ensue.pattern("A B* C").define(C="C.v = SUM(B.v) + 99999999").order_by("t")
PYTHON = ensue.pattern("A B* C").define(C="concat(C.k, FIRST(B.k), COUNT(B.v)) = 'x'").order_by("t")
ROUNDS = ensue.pattern("A ->> B+", types="k").order_by("t")
MACHINE = (
    ensue.Automaton({"n": "bigint"}, order_by="t", within=10**9)
    .arc("q0", "q1", when="w = 0", set={"n": "v"})
    .arc("q1", "q1", when="v <> n", set={"n": "n + v"})
    .arc("q1", "q2", when="v < 0")
    .final("q2")
)
GRAPH = complete_graph(14)
TWO = ensue.workload(
    one=ensue.pattern("A ->> B ->> C").define(B="B.v <> A.v", C="C.v < A.v - 999").order_by("t"),
    two=ensue.pattern("A ->> B ->> D").define(B="B.v <> A.v", D="D.v > A.v + 999").order_by("t"),
)

Call = Callable[[pa.Table, Any], Any]
# how many rows would take very long, and the call
CASES: dict[str, tuple[int, Call]] = {
    "row threads": (400_000, lambda t, o: THREADS.matches(t, timeout=o)),
    "rows in plain Python": (20_000, lambda t, o: PYTHON.count(t, timeout=o)),
    "classes of partial matches": (400_000, lambda t, o: LISTED.matches(t, timeout=o)),
    "a count": (400_000, lambda t, o: ANY.count(t, timeout=o)),
    "a sum": (400_000, lambda t, o: ROUNDS.aggregate(t, n="sum(A.v)", big="text", timeout=o)),
    "a workload": (400_000, lambda t, o: TWO.matches(t, timeout=o)),
    "an automaton": (400_000, lambda t, o: MACHINE.matches(t, timeout=o)),
    "why": (400_000, lambda t, o: THREADS.why(t, timeout=o)),
    "why of an automaton": (20_000, lambda t, o: MACHINE.why(t, timeout=o)),
    "a trace": (20_000, lambda t, o: THREADS.trace(t, limit=10**8, timeout=o)),
    "SQL": (50_000, lambda t, o: ensue.sql(PRODUCT, x=t, timeout=o)),
}


def plain(answer: Any) -> Any:
    return answer.to_pylist() if isinstance(answer, pa.Table) else answer


@pytest.mark.parametrize("name", CASES)
def test_a_timeout_ends_it_and_the_same_object_answers(name: str) -> None:
    count, call = CASES[name]
    few = rows(30)
    wanted = plain(call(few, None))
    with pytest.raises(errors.TimeLimitError, match=r"0\.1 seconds"):
        call(rows(count), 0.1)
    assert plain(call(few, "1 hour")) == wanted


def test_paths_end_too() -> None:
    for run in (
        lambda: GRAPH.paths("r*", semantics="trail", max_partials=1 << 40, timeout="100 ms"),
        lambda: GRAPH.counts("r*", max_hops=10**8, timeout=timedelta(seconds=0.1)),
    ):
        with pytest.raises(errors.TimeLimitError):
            run()
    assert GRAPH.count("r", start="0", timeout="1 hour") == 13


@pytest.mark.parametrize("timeout", [0, -1, True, "soon", "", math.nan, timedelta(0), [], "0 s"])
def test_what_is_no_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(errors.QueryError, match="is not a positive duration"):
        THREADS.count(rows(3), timeout=timeout)


def test_a_call_of_a_matcher_that_is_stopped_is_taken_back() -> None:
    """The matcher stands as before the call, and takes the next one."""
    matcher = LISTED.within(10**9).matcher(schema=rows(0).schema)
    matcher.insert(rows(400_000))
    held = matcher.metrics.held
    for _ in range(2):
        with pytest.raises(errors.TimeLimitError):
            matcher.end(timeout=0.1)
        assert matcher.metrics.held == held == 400_000
    assert len(matcher.take_late()) == 0 and matcher.advance(0, timeout=60).num_rows == 0


def test_signals_reach_python_while_a_kernel_runs() -> None:
    """A handler that raises ends the run with its exception; one that does not lets it go on."""
    seen: list[int] = []

    def handler(*_: object) -> None:
        seen.append(1)
        if len(seen) == 3:
            raise ZeroDivisionError("from the handler")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(ZeroDivisionError, match="from the handler"):
            THREADS.count(rows(400_000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 3


def test_a_matcher_stopped_half_way_says_so() -> None:
    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    matcher = LISTED.within(10**9).matcher()
    matcher.insert(rows(400_000))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            matcher.end()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(errors.StateError, match=r"end\(\) was stopped half-way"):
        matcher.snapshot()


SCRIPT = """
import os, signal, threading
from tests.unit.test_stopping import CASES, plain, rows

for name in ("row threads", "classes of partial matches", "a workload"):
    count, call = CASES[name]
    few, many = rows(30), rows(count)
    wanted = plain(call(few, None))
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        call(many, None)
    except KeyboardInterrupt:
        assert plain(call(few, None)) == wanted
        print("stopped")
"""


def test_ctrl_c_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "ENSUE_PROGRESS": "off"},
        capture_output=True,
        check=False,
        text=True,
        timeout=900,
    )
    assert (done.stdout.split(), done.returncode) == (["stopped"] * 3, 0), done.stderr


# What neither reads rows nor computes an answer, and so takes no timeout.
WITHOUT = {
    # queries, pictures and texts of queries
    *("after_match", "allow_missing", "define", "measures", "order_by", "partition_by", "select"),
    *("rows_per_match", "sql", "subset", "within", "without", "arc", "start", "final", "plot"),
    *("of", "allowing", "prepare", "begin", "pattern", "sase", "workload", "tune"),
    # objects that take events, and their state; `show` and `studio` hand their options on
    *("matcher", "live", "operator", "snapshot", "restore", "save", "show", "studio"),
    *("take_late", "take_rejected", "expand", "with_row_ids"),
}


INSIDE = {  # what evaluators are asked by runners, and what is refused or answered from the plan
    *(
        "AutomatonMatcher.take_over",
        "LateSummary.go_on",
        "LateSummary.explain",
        "LateSummary.revise",
    ),
    *(
        "Summary.answered",
        "Summary.drop",
        "Summary.insert_read",
        "Summary.places",
        "Summary.retract",
    ),
    *("Summary.revise", "Summary.snapshot_keys", "Matcher.explain", "Workload.revise"),
    *("Live.retract", "Quantity.stream", "Matcher.why", "LateSummary.why", "EnsueError.at"),
}


def test_every_verb_takes_a_timeout() -> None:
    """Found, not listed: a verb that users gain has to take one, or stand above."""
    from ensue.api.automaton_matcher import AutomatonMatcher
    from ensue.api.live import Live
    from ensue.api.quantity import Quantity
    from ensue.run.late_summary import LateSummary
    from ensue.run.matcher import Matcher
    from ensue.summary.evaluator import Summary

    holders = [v for name in ensue.__all__ if isclass(v := getattr(ensue, name))]
    holders += [AutomatonMatcher, Live, Quantity, LateSummary, Matcher, Summary]
    every = {(ensue, name) for name in ensue.__all__}
    every |= {(holder, name) for holder in holders for name in dir(holder) if name[0] != "_"}
    without = set()
    for holder, name in every - {(holder, name) for holder, name in every if name in WITHOUT}:
        verb = getattr(getattr_static(holder, name), "__func__", getattr(holder, name))
        if isfunction(verb) and "timeout" not in signature(verb).parameters:
            without.add(f"{holder.__name__}.{name}")
    assert without == INSIDE

"""Order does not matter: the net of all output is the oracle's answer on the ordered events.

Random automata, streams, disorder, equal times, retractions, watermarks, edits of arcs; intervals
of ignorable arcs on and off, sequence numbers, and both tiers. The invariants of the paper are
checked after every call.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest

from ensue.api.automaton_text import make_arc
from ensue.errors import EnsueError
from ensue.revision.operator import Operator
from tests import oracle_revision as oracle
from tests.revision_cases import (
    FIELDS,
    INF,
    Case,
    Net,
    Stream,
    expected,
    new_operator,
    random_arc,
    random_case,
    shuffled,
    table,
    times,
)

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
BLOCKS = range(8)
PER_BLOCK = int(os.environ.get("ENSUE_RANDOM_CASES") or (4 if INTERPRETED else 60))  # per block


def usable(pick: random.Random, **given: Any) -> Case:
    while True:
        case = random_case(pick, **given)
        try:
            case.machine.check()
        except EnsueError:
            continue
        return case


def run(pick: random.Random, mode: str, slow: bool = False) -> None:
    """Events in pieces and any order, with retractions and watermarks in between."""
    sequenced = mode == "sequenced"
    case = usable(pick, slow=slow, closing=not sequenced and pick.random() < 0.25)
    ties = pick.random() < 0.3 and not sequenced
    stream = Stream.random(pick, pick.randint(1, 14), ties, pick.random() < 0.3)
    operator = new_operator(case, ignoring=mode != "no intervals", sequenced=sequenced)
    net = Net(operator)
    arriving = shuffled(pick, stream.events, pick.choice([0, 3, 20]))
    open_ones: list[dict[str, Any]] = []
    final: list[dict[str, Any]] = []
    while arriving:
        if open_ones and pick.random() < 0.2:
            gone = [open_ones.pop(pick.randrange(len(open_ones)))]
            delta = operator.retract(table(gone), times(gone))
            assert not delta.status.any()
            net.add(delta)
            if pick.random() < 0.4:
                arriving.insert(pick.randrange(len(arriving) + 1), gone[0])
        size = pick.randint(1, 5)
        batch, arriving = arriving[:size], arriving[size:]
        delta = operator.insert(table(batch), times(batch))
        assert not delta.status.any()
        net.add(delta)
        open_ones += batch
        if pick.random() < 0.3:
            mark = min([e["le"] for e in arriving], default=10**6)
            net.add(operator.advance(mark))
            final += [e for e in open_ones if e["le"] < mark]
            open_ones = [e for e in open_ones if e["le"] >= mark]
    net.add(operator.end())
    assert net.matches == expected(case, final + open_ones, sequenced=sequenced)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("mode", ["intervals", "no intervals", "sequenced"])
def test_net_output_is_that_of_the_ordered_stream(mode: str, block: int) -> None:
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        run(random.Random(f"{mode} {seed}"), mode)


@pytest.mark.compiled
def test_long_streams_that_are_mostly_ignored_and_mostly_in_order() -> None:
    """Intervals over more events than a block of the index holds, in batches of any size, some of
    them late: what runs in the loop for events in order, and what `process` goes on with."""
    for seed in range(max(6, PER_BLOCK // 5)):
        pick = random.Random(f"ignored {seed}")
        case = usable(pick)
        for state in sorted({arc.source for arc in case.arcs} - {"q0"}):
            name = f"ignores {state}"
            case.arcs.append(make_arc(FIELDS, state, state, "kind = 'c'", None, name=name))
            ignores = oracle.OracleArc(
                state, state, lambda e, r: e["kind"] == "c", lambda e, r: r, False, False
            )
            case.oracle.append(ignores)
        share = pick.choice([0.5, 0.8, 0.95])
        stream = Stream.random(pick, 600, uneven=pick.random() < 0.3)
        window = pick.choice([6, 25])
        for event in stream.events:
            event["re"] = min(event["re"], event["le"] + window)
            if pick.random() < share:
                event["kind"], event["x"] = "c", 0
        late = pick.choice([0.0, 0.02])
        places = [n + (pick.randint(1, 30) if pick.random() < late else 0) for n in range(600)]
        arriving = [e for _, e in sorted(zip(places, stream.events, strict=True), key=_first)]
        operator = new_operator(case)
        net = Net(operator)
        while arriving:
            size = pick.choice([1, 7, 60, 300])
            batch, arriving = arriving[:size], arriving[size:]
            net.add(operator.insert(table(batch), times(batch)))
            if arriving and pick.random() < 0.4:
                net.add(operator.advance(min(e["le"] for e in arriving) - pick.choice([0, 20])))
        net.add(operator.end())
        assert net.matches == expected(case, stream.events), seed


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def test_plain_python_gives_the_same_answer() -> None:
    for seed in range(10 if INTERPRETED else 40):
        run(random.Random(f"slow {seed}"), "intervals", slow=True)


def edited(
    pick: random.Random, operator: Operator, told: list[oracle.OracleArc], arcs: list[Any], net: Net
) -> None:
    """One random edit, in both worlds."""
    past = pick.random() < 0.5
    since = None
    if past:
        low = max(0, operator.settled)
        since = pick.randint(low, low + 12)
    states = operator.code.states
    removable = [i for i, arc in enumerate(told) if arc.till == INF]
    removed = pick.choice(removable) if pick.random() < 0.5 else None
    source = pick.choice(states)
    target = pick.choice([s for s in states if s != "q0"])
    added, said = random_arc(pick, source, target, f"e{pick.randrange(10**9)}")
    names = [] if removed is None else [arcs[removed].name]
    try:
        begin, _, delta = operator.revise([added], names, since)
    except EnsueError:
        return
    net.add(delta)
    begin = -INF if begin < -(2**62) else begin
    if removed is not None:
        told[removed] = replace(told[removed], till=begin)
    told.append(replace(said, since=begin))
    arcs.append(added)


@pytest.mark.parametrize("block", BLOCKS)
def test_edits_of_arcs(block: int) -> None:
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        pick = random.Random(f"edits {seed}")
        case = usable(pick)
        stream = Stream.random(pick, pick.randint(4, 14), pick.random() < 0.2)
        operator = new_operator(case, ignoring=pick.random() < 0.6)
        net = Net(operator)
        told, arcs = list(case.oracle), list(case.arcs)
        arriving = shuffled(pick, stream.events, pick.choice([0, 3, 20]))
        while arriving:
            size = pick.randint(1, 4)
            batch, arriving = arriving[:size], arriving[size:]
            net.add(operator.insert(table(batch), times(batch)))
            if pick.random() < 0.4:
                edited(pick, operator, told, arcs, net)
            if pick.random() < 0.25:
                net.add(operator.advance(min([e["le"] for e in arriving], default=10**6)))
        net.add(operator.end())
        assert net.matches == expected(case, stream.events, told), seed


def test_sequence_numbers_never_withdraw() -> None:
    """AFA+O: as much output as with events in order, whatever the disorder."""
    for seed in range(PER_BLOCK):
        pick = random.Random(f"afa+o {seed}")
        case = usable(pick)
        stream = Stream.random(pick, 12)
        net = Net(new_operator(case, sequenced=True))
        for event in shuffled(pick, stream.events, 12):
            net.add(net._operator.insert(table([event]), times([event])))
        ordered = Net(new_operator(case, sequenced=True))
        for event in stream.events:
            ordered.add(ordered._operator.insert(table([event]), times([event])))
        assert net.withdrawn == 0
        assert net.size == ordered.size
        assert net.matches == ordered.matches

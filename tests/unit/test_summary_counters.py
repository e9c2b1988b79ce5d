"""The StateSummary, exact answers and ranking sweeps against brute force, after every operation."""

from __future__ import annotations

import random

import pytest

from ensue.automaton.counting import counting_automaton
from ensue.front.grammar import parse_pattern
from ensue.query import nodes
from ensue.summary.exact import measure
from ensue.summary.machine import ClassedAutomaton
from tests import oracle_summary as oracle
from tests.state_summary import StateSummary

PATTERNS = [
    "a (b* c)* d",
    "a b* c",
    "a* a*",
    "(a | a)",
    "(a | a b) (b | c)?",
    "(a a)*",
    "(a b)+ | a",
    "a (b | c)* a",
    "(a | b)* a (a | b)",
    "a{2,3} b?",
    "a (b* c)* d (e | f) g*",
]


def machine_of(
    text: str, fork: bool = True, valued: frozenset[int] = frozenset()
) -> ClassedAutomaton:
    pattern = parse_pattern(text)
    return ClassedAutomaton(counting_automaton(pattern, nodes.labels(pattern)), fork, valued)


def mask_of(machine: ClassedAutomaton, labels: str) -> int:
    known = machine.automaton.labels
    return sum(1 << known.index(letter) for letter in set(labels) if letter in known)


def random_events(
    machine: ClassedAutomaton, chance: random.Random, length: int
) -> list[oracle.Event]:
    known = "".join(machine.automaton.labels)
    time, events = 0, []
    for _ in range(length):
        time += chance.choice([0, 1, 1, 2])
        both = chance.random() < 0.15
        labels = (
            "".join(chance.sample(known, 2)) if both and len(known) > 1 else chance.choice(known)
        )
        events.append((time, labels, chance.randint(-3, 9)))
    return events


@pytest.mark.parametrize("text", PATTERNS)
def test_counters_after_every_operation(text: str) -> None:
    for seed in range(6):
        chance = random.Random(f"{text}{seed}")
        machine = machine_of(text)
        window = chance.choice([2, 4, 100])
        summary = StateSummary(machine, window)
        held: list[oracle.Event] = []
        for event in random_events(machine, chance, 12):
            summary.insert(event[0], machine.class_of(mask_of(machine, event[1])))
            held.append(event)
            while len(held) > 7 or (len(held) > 2 and chance.random() < 0.25):
                gone = chance.randrange(len(held))
                summary.remove(gone)
                del held[gone]
                _check(machine, summary, held, window, event[0])
            _check(machine, summary, held, window, event[0])


def _check(
    machine: ClassedAutomaton,
    summary: StateSummary,
    held: list[oracle.Event],
    window: float,
    now: int,
) -> None:
    total, active, local, active_local = oracle.counters(machine.automaton, held, window, now)
    assert summary.counters == total
    assert summary.active == active
    assert [e.local for e in summary.elements] == local
    assert [e.active for e in summary.elements] == active_local


@pytest.mark.parametrize("text", PATTERNS)
def test_moving_matches_after_every_operation(text: str) -> None:
    for seed in range(6):
        chance = random.Random(f"next {text}{seed}")
        machine = machine_of(text, fork=False)
        window = chance.choice([2, 4, 100])
        summary = StateSummary(machine, window)
        held: list[oracle.Event] = []
        for event in random_events(machine, chance, 14):
            summary.insert(event[0], machine.class_of(mask_of(machine, event[1])))
            held.append(event)
            if len(held) > 3 and chance.random() < 0.4:
                gone = chance.randrange(len(held))
                summary.remove(gone)
                del held[gone]
            found = oracle.moving_matches(machine.automaton, held, window)
            total = [0] * machine.states
            local = [[0] * machine.states for _ in held]
            for state, match in found:
                total[state] += 1
                for index, _ in match:
                    local[index][state] += 1
            assert summary.counters == total
            assert [e.local for e in summary.elements] == local


@pytest.mark.parametrize("fork", [True, False])
@pytest.mark.parametrize("text", PATTERNS)
def test_exact_answers(text: str, fork: bool) -> None:
    for seed in range(8):
        chance = random.Random(f"exact {text}{seed}")
        labels = machine_of(text).automaton.labels
        valued = frozenset(c for c in range(len(labels)) if chance.random() < 0.7)
        machine = machine_of(text, fork, valued)
        window = chance.choice([1, 3, 5, 100])
        events = random_events(machine, chance, 9)
        if fork:
            found = oracle.matches(text, events, window)
        else:
            final = machine.automaton.final
            moving = oracle.moving_matches(machine.automaton, events, window)
            found = [match for state, match in moving if final[state]]
        classes = [machine.class_of(mask_of(machine, e[1])) for e in events]
        exact = measure(
            machine, [e[0] for e in events], classes, [e[2] for e in events], window, shares=True
        )
        assert exact.count == len(found)
        assert exact.total == sum(
            events[i][2] for match in found for i, label in match if labels.index(label) in valued
        )
        shares = [sum(i == j for match in found for j, _ in match) for i in range(len(events))]
        assert exact.contribution == shares
        used = [{labels.index(c) for match in found for j, c in match if j == i} for i in range(9)]
        assert [set(u) for u in exact.used] == used

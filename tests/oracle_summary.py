"""Brute force for summaries: every set of events, every labelling, Python's own `re`.

Labels are single characters, so that a pattern's text is a regular expression of `re` once blanks
are gone. Nothing here is shared with the library but the automaton's states, which name the
counters: a partial match is put into the state that its word leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from ensue.automaton.counting import CountingAutomaton

Match = tuple[tuple[int, str], ...]  # (event, label) pairs in order
Event = tuple[int, str, int]  # time, the labels it satisfies, value


def labelled_sets(events: Sequence[Event], window: float) -> Iterator[Match]:
    """All non-empty sets of events within the window, under every labelling."""
    for size in range(1, len(events) + 1):
        for chosen in combinations(range(len(events)), size):
            if events[chosen[-1]][0] - events[chosen[0]][0] <= window:
                for labels in product(*(events[i][1] for i in chosen)):
                    yield tuple(zip(chosen, labels, strict=True))


def matches(text: str, events: Sequence[Event], window: float) -> list[Match]:
    """All complete matches, each once."""
    accept = re.compile(text.replace(" ", ""))
    return [
        match
        for match in labelled_sets(events, window)
        if accept.fullmatch("".join(label for _, label in match))
    ]


def state_of(automaton: CountingAutomaton, word: str) -> int | None:
    """The state a word leads to; None where it is no prefix of a match."""
    states = {0}
    for letter in word:
        label = automaton.labels.index(letter) if letter in automaton.labels else -1
        states = {q for c, p, q in automaton.arcs if c == label and p in states}
    assert len(states) <= 1, "the automaton is deterministic where the oracle is used"
    return next(iter(states), None)


def counters(
    automaton: CountingAutomaton, events: Sequence[Event], window: float, now: float
) -> tuple[list[int], list[int], list[list[int]], list[list[int]]]:
    """Global, active, local and active local counters by definition (skip-till-any)."""
    zero = [0] * automaton.states
    total, active = list(zero), list(zero)
    local, active_local = [list(zero) for _ in events], [list(zero) for _ in events]
    for partial in labelled_sets(events, window):
        state = state_of(automaton, "".join(label for _, label in partial))
        if state is None:
            continue
        live = now - events[partial[0][0]][0] <= window
        total[state] += 1
        active[state] += live
        for event, _ in partial:
            local[event][state] += 1
            active_local[event][state] += live
    return total, active, local, active_local


def moving_matches(
    automaton: CountingAutomaton, events: Sequence[Event], window: float
) -> list[tuple[int, Match]]:
    """Skip-till-next by the paper's rule: each partial match is followed, and moves when it can."""
    found: list[tuple[int, Match]] = []
    for start, (begin, _, _) in enumerate(events):
        partials: list[tuple[int, Match]] = []
        for index in range(start, len(events)):
            time, labels, _ = events[index]
            if time - begin > window:
                break
            following = []
            for state, match in partials:
                moved = [
                    (q, (*match, (index, automaton.labels[c])))
                    for c, p, q in automaton.arcs
                    if p == state and automaton.labels[c] in labels
                ]
                following += moved or [(state, match)]
            if index == start:
                following += [
                    (q, ((index, automaton.labels[c]),))
                    for c, p, q in automaton.arcs
                    if p == 0 and automaton.labels[c] in labels
                ]
            partials = following
        found += partials
    return found

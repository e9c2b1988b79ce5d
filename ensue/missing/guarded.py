"""ACEPMATCH (Algorithm 1) node by node in plain Python: conditions that kernels cannot hold.

A match node is an event at an L-state, the link it came by and the node before it; its trajectory
is read backwards through the links. A condition is asked when its last event is matched, on the
trajectory. Nodes of one start leave together when the window has passed it.

Every partial match is a node of its own: what it recorded may decide a condition ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ensue import errors
from ensue.automaton.letters import START, LetterStates, Link
from ensue.missing.conditions import MISSING, Conditions, Entry
from ensue.missing.kernels.nodes import Nodes
from ensue.missing.words import Answer, Pairs, extended, least
from ensue.stopping import look

MAX_NODES = 5_000_000
MAX_PLAIN = 1_000_000  # of those, objects of Python
MAX_BYTES = 1 << 29  # that the matches of one row take while they are told apart
Serialisations = dict[int, tuple[Entry, ...]]  # by node, as long as nodes keep their numbers


@dataclass(slots=True)
class MatchNode:
    """(state, loc, err, start_win, prev_*) of the paper, with the whole serialisation so far."""

    state: int
    start: int
    entries: tuple[Entry, ...]  # label, and row or MISSING
    answer: Answer
    length: int  # events


class GuardedNodes:
    """The nodes of one partition; rows are those of the batch."""

    def __init__(self, states: LetterStates, conditions: Conditions) -> None:
        self._states = states
        self._conditions = conditions
        self._into: dict[int, list[Link]] = {}  # by label of the target
        for links in states.links:
            for link in links:
                self._into.setdefault(states.letter[link.target], []).append(link)
        self._at: list[list[MatchNode]] = [[] for _ in range(states.states)]
        self._count = 0

    def event(self, row: int, bits: int, low: int) -> Iterator[tuple[Pairs, Answer]]:
        """Matches that the event completes, each set of events once with its least error."""
        fresh: list[MatchNode] = []
        for label, links in self._into.items():
            if bits >> label & 1:
                for link in links:
                    for node in self._through(link, label, row, low):
                        fresh.append(node)
                        check_nodes(self._count + len(fresh), "MAX_PLAIN")
        found: dict[tuple[tuple[int, int], ...], Answer] = {}
        for node in fresh:
            self._at[node.state].append(node)
            answer = least(self._states, [(node.state, node.answer)], node.length)
            if answer is not None:
                pairs = tuple(entry for entry in node.entries if entry[1] != MISSING)
                found[pairs] = min(answer, found.get(pairs, answer))
        self._count += len(fresh)
        for pairs in sorted(found, key=lambda pairs: [(r, label) for label, r in pairs]):
            yield list(pairs), found[pairs]

    def oldest(self, low: int) -> int | None:
        """The earliest start, from `low` on, of a node that may still match an event."""
        bound = self._states.bound
        starts = [
            node.start
            for state, held in enumerate(self._at)
            for node in held
            if node.start >= low
            and any(node.answer[0] + link.cost <= bound for link in self._states.links[state])
        ]
        return min(starts, default=None)

    def _through(self, link: Link, label: int, row: int, low: int) -> Iterator[MatchNode]:
        skipped = tuple((letter, MISSING) for letter in link.skipped)
        if link.source == START:
            entries = (*skipped, (label, row))
            if link.cost <= self._states.bound and self._conditions.hold(entries):
                yield MatchNode(link.target, row, entries, extended((0, 0, ()), link, 0), 1)
            return
        held = self._at[link.source]
        if held and held[0].start < low:
            alive = [node for node in held if node.start >= low]
            self._count -= len(held) - len(alive)
            self._at[link.source] = held = alive
        for node in held:
            look()
            if node.start < low or node.answer[0] + link.cost > self._states.bound:
                continue
            entries = (*node.entries, *skipped, (label, row))
            if self._conditions.hold(entries):
                answer = extended(node.answer, link, node.length)
                yield MatchNode(link.target, node.start, entries, answer, node.length + 1)


def check_nodes(count: int, limit: str = "MAX_NODES") -> None:
    """Refuses more match nodes than there may be."""
    most = globals()[limit]
    if count > most:
        raise errors.LimitError(
            f"{count:,} partial matches are open at one row; the limit is {most:,}",
            remedy="bound the pattern with within(...), partition it, or raise "
            f"ensue.missing.guarded.{limit}",
        )


def check_size(bytes_of: int, found: int, row: int) -> None:
    """Refuses matches of one row that would fill the memory."""
    if bytes_of > MAX_BYTES:
        raise errors.LimitError(
            f"more than {found:,} matches end at row {row:,}; all of them take more than the limit "
            f"of {MAX_BYTES:,} bytes",
            remedy="bound the pattern with within(...), partition it, take some with limit=..., or "
            "raise ensue.missing.guarded.MAX_BYTES",
        )


def entries_of(
    nodes: Nodes,
    links: Sequence[Link],
    letters: Sequence[int],
    node: int,
    shift: int,
    known: Serialisations,
) -> tuple[Entry, ...]:
    """The serialisation up to a node, rows being those of the batch."""
    if node not in known:
        link = int(nodes.head[node])
        before = entries_of(nodes, links, letters, int(nodes.before[link]), shift, known)
        skipped = tuple((letter, MISSING) for letter in links[nodes.via[link]].skipped)
        event = (letters[nodes.state[node]], int(nodes.row[node]) + shift)
        known[node] = (*before, *skipped, event)
    return known[node]


class Aligned:
    """The least error of a set of events whose conditions read what is missing."""

    def __init__(self, batch: object, states: LetterStates, conditions: Conditions) -> None:
        self.batch, self._states, self.conditions = batch, states, conditions

    def answer(self, pairs: Pairs) -> Answer:
        """Over every way to skip; the engine may have come by a dearer one."""
        ways: list[tuple[int, tuple[Entry, ...], Answer]] = [(START, (), (0, 0, ()))]
        bound, letter = self._states.bound, self._states.letter
        for place, (label, row) in enumerate(pairs):
            longer: list[tuple[int, tuple[Entry, ...], Answer]] = []
            for state, entries, answer in ways:
                for link in self._states.links[state]:
                    if letter[link.target] != label or answer[0] + link.cost > bound:
                        continue
                    skipped = tuple((gone, MISSING) for gone in link.skipped)
                    after = (*entries, *skipped, (label, row))
                    if self.conditions.hold(after):
                        longer.append((link.target, after, extended(answer, link, place)))
            ways = longer
        best = least(self._states, ((state, answer) for state, _, answer in ways), len(pairs))
        assert best is not None
        return best

"""Patterns to positions: the one construction under every automaton that has no waiting places.

A *position* is an occurrence of a label in the pattern, its repetitions written out. The pattern
becomes Thompson's graph: a state per position (an *L-state*, entered by its letter) and ε-states
between them, edges in order of preference; `follow` walks the ε-states away and leaves the
positions that can come next, which is Glushkov's automaton with its arcs ordered. Row programs and
paths read the ordered arcs, counting reads them as sets, and patterns with missing events read the
graph itself, in which skipping a letter is a priced ε-move.

`x{2,}` is `x x+`: two copies, with the back edge on the second. PERMUTE is a lattice over the sets
of parts still to come instead of n! sequences: what remains depends only on which parts are done.
Anchors, exclusion and the ends of iterations are annotations. An iteration beyond the minimum must
consume a row: where its body can be empty, a walk that reaches the end of the iteration without
having consumed since it entered is dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ensue import errors
from ensue.automaton.view import Arc, Shown, State, View
from ensue.query import nodes

MAX_STATES = 20_000
MAX_ARCS = 1_000_000
EPSILON = -1  # in place of a label
ACCEPT = 0  # as the target of an arc between positions: no arc leads back to the start
AT_START = 1
AT_END = 2


@dataclass
class Graph(Shown):
    """`letter[s]` is the label of an L-state, EPSILON of the others; edges by preference."""

    labels: tuple[str, ...]
    letter: list[int] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    start: int = 0
    final: int = 0
    excluded: set[int] = field(default_factory=set)  # L-states inside {- -}
    anchors: dict[int, int] = field(default_factory=dict)  # ε-state -> AT_START or AT_END
    enters: dict[int, int] = field(default_factory=dict)  # begin of an iteration -> its end
    _leaves: set[int] = field(default_factory=set)

    @property
    def positions(self) -> list[int]:
        """L-states in the order of the pattern's text."""
        return [state for state, letter in enumerate(self.letter) if letter != EPSILON]

    def by_preference(self) -> list[int]:
        """L-states in the order in which a walk by preference meets them."""
        met: dict[int, None] = {}
        seen: set[int] = set()
        stack = [self.start]
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            if self.letter[state] != EPSILON:
                met[state] = None
            stack.extend(reversed(self.edges[state]))
        return list(met)

    def arcs(self, order: list[int]) -> list[list[tuple[int, int]]]:
        """Arcs (target, flags) of the start and of each position in `order`, numbered from 1."""
        number = {state: index for index, state in enumerate(order, 1)}
        found, total = [], 0
        for state in (self.start, *order):
            found.append(self._follow(state, number))
            total += len(found[-1])
            if total > MAX_ARCS:
                raise _too_large(f"more than {MAX_ARCS:,} arcs", "MAX_ARCS")
        return found

    def _follow(self, source: int, number: dict[int, int]) -> list[tuple[int, int]]:
        """What is reached without consuming a row, in order of preference, each way once."""
        arcs: dict[tuple[int, int], None] = {}
        seen: set[tuple[int, frozenset[int], int]] = set()
        stack = [(state, frozenset[int](), 0) for state in reversed(self.edges[source])]
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            state, entered, flags = key
            if self.letter[state] != EPSILON:
                if not flags & AT_END:
                    arcs.setdefault((number[state], flags))
                continue
            if state == self.final:
                arcs.setdefault((ACCEPT, flags))
            elif state in self.anchors:
                # A match starts at a row, so `$` cannot hold before it, nor `^` after it.
                if (self.anchors[state] == AT_START) != (source == self.start):
                    continue
                flags |= self.anchors[state]
            elif state in self.enters:
                entered |= {self.enters[state]}
            elif state in self._leaves and state in entered:
                continue
            stack.extend((target, entered, flags) for target in reversed(self.edges[state]))
        return list(arcs)

    def view(self) -> View:
        states = []
        for state, letter in enumerate(self.letter):
            name = "ε" if letter == EPSILON else self.labels[letter]
            ends = {self.start: ("start",), self.final: ("final",)}
            states.append(State(str(state + 1), name, ends.get(state, ())))
        arcs = [Arc(s, target) for s, targets in enumerate(self.edges) for target in targets]
        return View(tuple(states), tuple(arcs))


def graph_of(pattern: nodes.Node, labels: tuple[str, ...]) -> Graph:
    """The graph of a pattern without negation; gaps between its steps are not its concern."""
    return Builder(labels).build(pattern)


def nullable(node: nodes.Node) -> bool:
    """Whether the part can match without an event."""
    match node:
        case nodes.Empty() | nodes.AnchorStart() | nodes.AnchorEnd():
            return True
        case nodes.Repetition(part=part, least=least):
            return least == 0 or nullable(part)
        case nodes.Alternation(options=options):
            return any(nullable(option) for option in options)
        case nodes.Concatenation(parts=parts) | nodes.Permutation(parts=parts):
            return all(nullable(part) or isinstance(part, nodes.Negation) for part in parts)
        case nodes.Exclusion(part=part):
            return nullable(part)
        case _:
            return False


def _too_large(what: str, setting: str) -> errors.LimitError:
    return errors.LimitError(
        f"the pattern expands to {what}",
        remedy="shorten the repetitions or PERMUTE lists, or raise "
        f"ensue.automaton.positions.{setting}",
    )


class Builder:
    """Every method is given the state before a part and returns the state behind it."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._labels = {name: index for index, name in enumerate(labels)}
        self._graph = Graph(labels)
        self._letters = 0
        self._excluded = False

    def build(self, pattern: nodes.Node) -> Graph:
        graph = self._graph
        graph.start = self._state()
        last = self._part(pattern, graph.start)
        graph.final = self._after(last)
        return graph

    def _state(self, letter: int = EPSILON) -> int:
        graph = self._graph
        self._letters += letter != EPSILON
        # A position brings a few ε-states at most, unless loops over nothing are nested.
        if self._letters > MAX_STATES or len(graph.letter) > 8 * MAX_STATES:
            raise _too_large(f"more than {MAX_STATES:,} states", "MAX_STATES")
        graph.letter.append(letter)
        graph.edges.append([])
        return len(graph.letter) - 1

    def _after(self, before: int, letter: int = EPSILON) -> int:
        state = self._state(letter)
        self._graph.edges[before].append(state)
        return state

    def _part(self, node: nodes.Node, before: int) -> int:
        match node:
            case nodes.Empty():
                return before
            case nodes.Label(name=name):
                state = self._after(before, self._labels[name])
                if self._excluded:
                    self._graph.excluded.add(state)
                return state
            case nodes.AnchorStart() | nodes.AnchorEnd():
                state = self._after(before)
                here = AT_START if isinstance(node, nodes.AnchorStart) else AT_END
                self._graph.anchors[state] = here
                return state
            case nodes.Concatenation(parts=parts):
                for part in parts:
                    before = self._part(part, before)
                return before
            case nodes.Alternation(options=options):
                begin, end = self._after(before), self._state()
                for option in options:
                    self._graph.edges[self._part(option, begin)].append(end)
                return end
            case nodes.Repetition():
                return self._repetition(node, before)
            case nodes.Permutation(parts=parts):
                return self._permutation(parts, before)
            case nodes.Exclusion(part=part):
                outside, self._excluded = self._excluded, True
                before = self._part(part, before)
                self._excluded = outside
                return before
            case nodes.Negation():
                raise AssertionError("a negated step has no position: refused before")

    def _repetition(self, node: nodes.Repetition, before: int) -> int:
        for done in range(node.least - 1):
            before = self._round(node, done, before)
        if node.most is None:
            return self._loop(node, before)
        if node.least:
            before = self._round(node, node.least - 1, before)
        edges = self._graph.edges
        choices = []
        for _ in range(node.most - node.least):
            choices.append((before, len(edges[before])))
            before = self._iteration(node.part, before)
        if not choices:
            return before
        end = self._after(before)
        for state, place in choices:
            edges[state].insert(len(edges[state]) if node.greedy else place, end)
        return end

    def _round(self, node: nodes.Repetition, done: int, before: int) -> int:
        """An iteration that the minimum asks for; `done` lie behind it."""
        return self._part(node.part, before)

    def _loop(self, node: nodes.Repetition, before: int) -> int:
        """One or more iterations, or any number where none is required."""
        edges = self._graph.edges
        begin = self._after(before)
        if node.least == 0:
            edges[self._iteration(node.part, begin)].append(begin)
            end = self._state()
            edges[begin].insert(len(edges[begin]) if node.greedy else 0, end)
            return end
        last = self._round(node, node.least - 1, begin)
        again = begin
        if nullable(node.part):
            last, again = self._after(last), self._state()
            edges[again].append(begin)
            self._mark(again, last)
        end = self._state()
        edges[last] += [again, end] if node.greedy else [end, again]
        return end

    def _iteration(self, part: nodes.Node, before: int) -> int:
        """One iteration that may be left out, and so must consume."""
        if not nullable(part):
            return self._part(part, before)
        enter = self._after(before)
        leave = self._after(self._part(part, enter))
        self._mark(enter, leave)
        return leave

    def _mark(self, enter: int, leave: int) -> None:
        self._graph.enters[enter] = leave
        self._graph._leaves.add(leave)

    def _permutation(self, parts: tuple[nodes.Node, ...], before: int) -> int:
        """One ε-state per set of parts still to come."""
        if len(parts) << (len(parts) - 1) > MAX_STATES:
            raise _too_large(f"PERMUTE of {len(parts)} parts", "MAX_STATES")
        everything = tuple(range(len(parts)))
        known = {everything: self._after(before)}
        frontier = [everything]
        while frontier:
            left = frontier.pop()
            for index in left:
                rest = tuple(other for other in left if other != index)
                if rest not in known:
                    known[rest] = self._state()
                    frontier.append(rest)
                last = self._part(parts[index], known[left])
                self._graph.edges[last].append(known[rest])
        return known[()]

"""The automaton of an event pattern: waiting places, and edges that are asked for every event.

A *place* is where a partial match waits for its next event. Its edges:

- TAKE: the event joins the match under the place's label; the match waits at the target.
- SKIP: the event is left out; the match waits at the target.
- GO_ON: the same event is asked at the target as well, now (an ε-move).

Each edge has a test: a formula over *atoms*, one per label (is the event such an event, for this
partial match?) and one per bounded gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

# -- tests: formulas over atoms -------------------------------------------------------------------


@dataclass(frozen=True)
class Atom:
    index: int


@dataclass(frozen=True)
class Not:
    part: Test


@dataclass(frozen=True)
class And:
    left: Test
    right: Test


Test = Atom | Not | And | bool


def negated(test: Test) -> Test:
    if isinstance(test, bool):
        return not test
    return test.part if isinstance(test, Not) else Not(test)


def both(left: Test, right: Test) -> Test:
    if left is True or right is False:
        return right
    if right is True or left is False:
        return left
    return And(left, right)


def either(left: Test, right: Test) -> Test:
    return negated(both(negated(left), negated(right)))


def holds(test: Test, bits: int) -> bool:
    """The test where bit i says whether atom i holds."""
    match test:
        case bool():
            return test
        case Atom(index=index):
            return bool(bits >> index & 1)
        case Not(part=part):
            return not holds(part, bits)
        case And(left=left, right=right):
            return holds(left, bits) and holds(right, bits)


def atoms(test: Test) -> frozenset[int]:
    match test:
        case Atom(index=index):
            return frozenset((index,))
        case Not(part=part):
            return atoms(part)
        case And(left=left, right=right):
            return atoms(left) | atoms(right)
        case _:
            return frozenset()


# -- places ---------------------------------------------------------------------------------------


class Action(Enum):
    TAKE = "take"
    SKIP = "skip"
    GO_ON = "go on"


class Kind(Enum):
    WAIT = "wait"
    ACCEPT = "accept"
    STOP = "stop"
    PENDING = "pending"  # a match once time proves that no forbidden event came


@dataclass
class Edge:
    action: Action
    target: Place
    test: Test
    label: int = -1  # of TAKE


@dataclass(eq=False)
class Place:
    number: int
    kind: Kind = Kind.WAIT
    edges: list[Edge] = field(default_factory=list)
    forbids: str | None = None  # of STOP: the negated label
    firm: bool = False  # of STOP: such an event is not taken either
    carries: tuple[Place, ...] = ()  # while compiling: STOPs for all that waits from here on

    def take(self, target: Place, label: int, test: Test) -> None:
        self.edges.append(Edge(Action.TAKE, target, test, label))

    def skip(self, target: Place, test: Test) -> None:
        self.edges.append(Edge(Action.SKIP, target, test))

    def go_on(self, target: Place, test: Test = True) -> None:
        self.edges.append(Edge(Action.GO_ON, target, test))


@dataclass(frozen=True)
class Bound:
    """An atom that holds while the gap since the last taken event is at most `within`."""

    within: int


@dataclass(frozen=True, eq=False)
class EventAutomaton:
    """The automaton: places, and what the atoms mean (a label's index, or a bound)."""

    labels: tuple[str, ...]
    places: tuple[Place, ...]
    start: Place
    bounds: tuple[Bound, ...]  # atoms after the labels'
    without: int  # bits of the atoms that end every partial match

    def dump(self) -> str:
        """The automaton as text, stable across runs."""
        lines = [f"places {len(self.places)}, start {self.start.number}"]
        for place in self.places:
            name = "" if place.kind is Kind.WAIT else f" {place.kind.value}"
            shown = [
                f"{edge.action.value}"
                + (f" {self.labels[edge.label]}" if edge.label >= 0 else "")
                + f" -> {edge.target.number}"
                + ("" if edge.test is True else f" if {self._text(edge.test)}")
                for edge in place.edges
            ]
            lines.append(f"{place.number:>3}{name}: " + "; ".join(shown))
        return "\n".join(lines) + "\n"

    def _text(self, test: Test) -> str:
        match test:
            case Atom(index=index) if index < len(self.labels):
                return self.labels[index]
            case Atom(index=index):
                return f"gap <= {self.bounds[index - len(self.labels)].within}"
            case Not(part=part):
                return f"not {self._text(part)}"
            case And(left=left, right=right):
                return f"({self._text(left)} and {self._text(right)})"
            case _:
                return str(test).lower()


# -- compiling ------------------------------------------------------------------------------------

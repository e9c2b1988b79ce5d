"""What the automaton of an event pattern is made of: places, edges, and tests of an event.

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


def conjuncts(test: Test) -> list[Test]:
    """The parts that must all hold, each once."""
    match test:
        case And(left=left, right=right):
            return list(dict.fromkeys((*conjuncts(left), *conjuncts(right))))
        case True:
            return []
        case _:
            return [test]


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
    round: tuple[int, int] | None = None  # takes a loop's round: rounds before it, the least
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

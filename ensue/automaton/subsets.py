"""The subset construction: places that are followed together become one deterministic state.

`States` numbers states as they are found, up to a limit; `determinise` finds all that are reached.
Counting, paths and shared plans are built so, whole. Event patterns are determinised on demand, by
`Subsets`, over what a partial match did with each event: took it, and as what.

A match is the set of its (label, event) pairs, and two ways through the automaton can give the same
set. So a *state* is the set of places that partial matches with one history can be at (with missing
events: the positions, with the least error of each). Out of a state, an event leads to at most one
state per label (it was taken so) and at most one more (it was skipped). Every match is then exactly
one path, which makes counting and listing without repetition possible (CORE's I/O-deterministic
automata do the same). In theory there are exponentially many states, in practice about as many as
places. A step depends only on the atoms that the state's places test, so it is kept per state and
these bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ensue import errors

MAX_STATES = 50_000
NOWHERE = -1
START = 0

Key = TypeVar("Key", bound=Hashable)
Letter = TypeVar("Letter", bound=Hashable)


class States(Generic[Key]):
    """States known by what they are, numbered as they are found."""

    def __init__(self, most: int, remedy: str, what: str = "the pattern needs") -> None:
        self._most, self._remedy, self._what = most, remedy, what
        self._numbers: dict[Key, int] = {}
        self.keys: list[Key] = []

    def __len__(self) -> int:
        return len(self.keys)

    def number(self, key: Key) -> int:
        known = self._numbers.get(key)
        if known is None:
            known = len(self.keys)
            if known >= self._most:
                raise errors.LimitError(
                    f"{self._what} more than {self._most:,} deterministic states",
                    remedy=self._remedy,
                )
            self._numbers[key] = known
            self.keys.append(key)
        return known


def determinise(
    states: States[Key], starts: Iterable[Key], arcs: Callable[[Key], Mapping[Letter, Key]]
) -> list[dict[Letter, int]]:
    """Every state reached, breadth first: per state, what each letter leads to."""
    for start in starts:
        states.number(start)
    rows: list[dict[Letter, int]] = []
    while len(rows) < len(states):
        leaving = arcs(states.keys[len(rows)])
        rows.append({letter: states.number(target) for letter, target in leaving.items()})
    return rows


# -- over what a partial match did ----------------------------------------------------------------


@dataclass(frozen=True)
class Take:
    """The event joins under `label`; `accept`: the match is complete with it."""

    label: int
    target: int  # NOWHERE: nothing can follow
    accept: bool


@dataclass(frozen=True)
class Step:
    takes: tuple[Take, ...]
    skip: int  # state after leaving the event out, or NOWHERE
    skip_accept: bool  # the match is complete without the event (a trailing strict "not")

    @property
    def targets(self) -> Iterator[int]:
        """States in which partial matches continue."""
        for target in (*(take.target for take in self.takes), self.skip):
            if target != NOWHERE:
                yield target


DEAD = Step((), NOWHERE, False)


@dataclass(frozen=True)
class Move:
    """What an event does to members that are followed together; None where nothing is left."""

    takes: tuple[tuple[int, Hashable | None, bool], ...]  # label, members, complete
    skip: Hashable | None
    skip_accept: bool = False


class Movable(Protocol):
    """An automaton that can be determinised: what its sets of members test and do."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def without(self) -> int:
        """Bits of the atoms that end every partial match."""

    @property
    def bounds(self) -> Sequence[Any]:
        """Bounded gaps: atoms after the labels'."""

    @property
    def absences(self) -> bool:
        """Whether some match is complete only once time proves an absence."""

    def first(self) -> Hashable: ...

    def tested(self, members: Any) -> tuple[int, int]:
        """Atoms that a step depends on, and of these the ones of the members' own edges."""

    def waits(self, members: Any) -> bool:
        """Whether time alone can complete a match here."""

    def move(self, members: Any, bits: int) -> Move: ...

    def ahead(self, members: Any) -> frozenset[int]:
        """Atoms that some step from here on may test."""

    def numbers(self, members: Any) -> tuple[int, ...]:
        """What the members are, whenever they were found."""

    def members(self, numbers: Sequence[int]) -> Hashable:
        """The inverse of `numbers`."""


@dataclass(frozen=True)
class Combinations(Collection[int]):
    """Every set of the atoms in `mask`, as bits, ascending."""

    mask: int

    def __len__(self) -> int:
        return 1 << min(self.mask.bit_count(), 62)  # far above every limit

    def __iter__(self) -> Iterator[int]:
        bits = 0
        yield bits
        while bits != self.mask:
            bits = (bits - self.mask) & self.mask
            yield bits

    def __contains__(self, bits: object) -> bool:
        return isinstance(bits, int) and not bits & ~self.mask


class Subsets:
    """States and steps, found on demand. State 0 is before the first event: it never skips."""

    def __init__(self, automaton: Movable) -> None:
        self.automaton = automaton
        self._states: States[Any] = States(
            MAX_STATES, "bound repetitions, split the pattern, or allow fewer missing events"
        )
        self.masks: list[int] = []  # atoms that the state's steps depend on
        self.bounds: list[int] = []  # of these, the joints' bounds that its places wait under
        self.pending: list[bool] = []  # complete once time proves an absence
        self._steps: dict[tuple[int, int], Step] = {}
        self._state(automaton.first())

    @property
    def sets(self) -> list[Any]:
        return self._states.keys

    def step(self, state: int, bits: int) -> Step:
        """What an event does whose atoms are `bits`."""
        key = (state, bits & self.masks[state])
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._compute(state, key[1])
        return found

    def canonical(self, state: int) -> tuple[int, ...]:
        """What a state is, whenever it was found; the start is first."""
        return () if state == START else self.automaton.numbers(self.sets[state])

    def find(self, numbers: Sequence[int]) -> int:
        """The state of these places; the inverse of `canonical`."""
        return self.state_of(numbers) if numbers else START

    def state_of(self, numbers: Iterable[int]) -> int:
        """The state of a set of places by their numbers, which do not depend on what was asked."""
        return self._state(self.automaton.members(tuple(numbers)))

    def labels_ahead(self, state: int) -> frozenset[int]:
        """Atoms that some step from here on may test."""
        return self.automaton.ahead(self.sets[state])

    def reached(
        self,
        bits_of: Callable[[int], Collection[int]],
        starts: Iterable[int] = (START,),
        most: int = MAX_STATES,
        most_steps: int | None = None,
    ) -> list[int] | None:
        """The states that events lead to; `bits_of` says which events a state is asked.

        None where there are more than `most` states or `most_steps` steps of them.
        """
        seen = dict.fromkeys(starts)
        frontier, steps = list(seen), 0
        while frontier:
            state = frontier.pop()
            asked = bits_of(state)
            steps += len(asked)
            if len(seen) > most or (most_steps is not None and steps > most_steps):
                return None
            for bits in asked:
                for target in self.step(state, bits).targets:
                    if target not in seen:
                        seen[target] = None
                        frontier.append(target)
        return list(seen) if len(seen) <= most else None

    def combinations(self, state: int) -> Combinations:
        """Every event that the state distinguishes, as bits."""
        return Combinations(self.masks[state])

    def atoms_of(self, state: int) -> list[int]:
        """The atoms that the state's steps depend on, ascending."""
        mask = self.masks[state]
        return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]

    def _state(self, members: Hashable) -> int:
        state = self._states.number(members)
        if state == len(self.masks):
            mask, own = self.automaton.tested(members)
            self.masks.append(mask)
            self.bounds.append(own >> len(self.automaton.labels))
            self.pending.append(self.automaton.waits(members))
        return state

    def _compute(self, state: int, bits: int) -> Step:
        if bits & self.automaton.without:
            return DEAD
        move = self.automaton.move(self.sets[state], bits)
        takes = tuple(
            Take(label, NOWHERE if members is None else self._state(members), accept)
            for label, members, accept in move.takes
        )
        if state == START:
            return Step(takes, NOWHERE, False)
        skip = NOWHERE if move.skip is None else self._state(move.skip)
        return Step(takes, skip, move.skip_accept)

"""Event patterns to an automaton of waiting places (take, skip, go on), after FlinkCEP's.

What places and edges are is in `places.py`. `A -> B` skips what is not a B, `A ->> B` skips
anything, a strict joint has no SKIP edge. A loop's place takes and skips by the policy inside the
loop and goes on to what follows, which skips by its own; a place that has skipped must not go on
again, so a skip inside a loop or an optional part leads to a twin without GO_ON.

A GO_ON to `STOP` says that the place does not skip such an event: `A -> !X -> B` has no X between A
and B, and an X that is taken as the B is not between. In a loop that `!X` follows, FlinkCEP's
answers stand: a loop without an upper bound does not take an X as a further event either (its STOP
is firm), and one with a bound forbids X in a round that it could do without only until it skips.

The pattern is compiled from its end: every function here is given the place that follows. The
construction follows FlinkCEP's documented behaviour (contiguity, loops, greedy, until, not);
alternation and permutation, which it lacks, share the rule that `->` skips only what no head fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ensue import errors
from ensue.automaton.carried import carry, complete, stripped
from ensue.automaton.events import EventAutomaton
from ensue.automaton.places import (
    Atom,
    Bound,
    Edge,
    Kind,
    Place,
    Test,
    both,
    either,
    negated,
)
from ensue.automaton.positions import nullable
from ensue.query import nodes
from ensue.query.nodes import Gap, Policy
from ensue.query.query import Query

MAX_PLACES = 20_000


@dataclass(frozen=True)
class _Around:
    """What surrounds a part: forbidden events before and after it, and its enclosing loops."""

    nots: tuple[Place, ...] = ()  # STOPs of what is forbidden while waiting for the part
    after: nodes.Negation | None = None  # right after the part (also between its iterations)
    until: Test = False  # ends an enclosing loop
    twin: bool = False  # the part heads an optional group: a skip must not go on any more
    rivals: Test = False  # heads of the other alternatives: `->` may not skip them either


def compile_sequence(query: Query) -> EventAutomaton:
    """The automaton of a query in event semantics."""
    return _Compiler(query).compile()


class _Compiler:
    def __init__(self, query: Query) -> None:
        self._query = query
        self._labels = query.labels
        self._places: list[Place] = []
        self._bounds: dict[int, int] = {}
        self._stops: dict[tuple[int, bool, bool], Place] = {}

    def compile(self) -> EventAutomaton:
        accept = self._place(Kind.ACCEPT)
        start = self._part(self._query.pattern, nodes.STRICT_GAP, accept, _Around())
        without = 0
        for name in self._query.without:
            without |= 1 << self._labels.index(name)
        carry(self._places, self._labels, self._place)
        for stop in self._stops.values():
            if stop.number < 0:
                stop.number = len(self._places)
                self._places.append(stop)
        bounds = tuple(Bound(within) for within in self._bounds)
        return EventAutomaton(self._labels, tuple(self._places), start, bounds, without)

    def _place(self, kind: Kind = Kind.WAIT) -> Place:
        if len(self._places) >= MAX_PLACES:
            raise errors.LimitError(
                f"the pattern needs more than {MAX_PLACES:,} places",
                remedy="use a loop without an upper bound, or smaller repetitions",
            )
        self._places.append(Place(len(self._places), kind))
        return self._places[-1]

    # -- parts -----------------------------------------------------------------------------------

    def _part(self, node: nodes.Node, gap: Gap, sink: Place, around: _Around) -> Place:
        match node:
            case nodes.Concatenation(parts=parts, gaps=gaps):
                return self._concatenation(parts, (gap, *gaps), sink, around)
            case nodes.Negation():
                return self._concatenation((node,), (gap,), sink, around)
            case nodes.Empty():
                return sink
            case nodes.Exclusion(part=part):
                return self._part(part, gap, sink, around)
            case nodes.AnchorStart() | nodes.AnchorEnd():
                raise errors.UnsupportedError(
                    "^ and $ stand in row patterns only",
                    remedy="leave the anchor out, or write a pattern without arrows and select()",
                )
            case nodes.Alternation(options=options):
                return self._alternation(options, gap, sink, around)
            case nodes.Permutation(parts=parts):
                return self._permutation(node, gap, sink, around)
            case nodes.Label():
                first = self._single(node, sink, sink, gap, around, optional=False)
            case nodes.Repetition():
                first = self._repetition(node, gap, sink, around)
        self._forbid(first, around.nots)
        return first

    def _concatenation(
        self,
        parts: Sequence[nodes.Node],
        gaps: Sequence[Gap],
        sink: Place,
        around: _Around,
    ) -> Place:
        end = len(parts)
        if sink.kind is not Kind.ACCEPT:
            sink = self._leaving(parts, gaps, sink)
        elif (last := _forbidden(parts[-1], gaps[-1])) is not None:
            end -= 1
            sink = self._leaving(parts[:end], gaps, self._absence(last, gaps[-1], sink))
        for index in range(end - 1, -1, -1):
            part, gap = parts[index], gaps[index]
            if isinstance(part, nodes.Negation):
                sink = self._negation(part, gap, sink)
                continue
            following = parts[index + 1] if index + 1 < len(parts) else None
            after = around.after
            if following is not None:
                after = _forbidden(following, gaps[index + 1])
            inside = _Around(
                self._nots_before(parts, gaps, index, around),
                after,
                around.until,
                around.twin and index == 0,
                around.rivals if index == 0 else False,
            )
            sink = self._part(part, gap, sink, inside)
        return sink

    def _nots_before(
        self, parts: Sequence[nodes.Node], gaps: Sequence[Gap], index: int, around: _Around
    ) -> tuple[Place, ...]:
        found: list[Place] = []
        back = index - 1
        while back >= 0:
            forbidden = _forbidden(parts[back], gaps[back])
            if forbidden is not None:
                found.append(self._stop(forbidden))
            elif not nullable(parts[back]):
                return tuple(found)
            back -= 1
        return (*found, *around.nots)

    def _absence(self, node: nodes.Negation, gap: Gap, sink: Place) -> Place:
        """A negated step at the end of the pattern."""
        test = self._atom(node.part.name)
        pending = self._place(Kind.PENDING)
        bound = self._bound(gap)
        pending.go_on(self._stop(node), both(test, bound))
        pending.skip(pending, both(negated(test), bound))
        if bound is not True:  # the first event beyond the joint's bound proves the absence
            pending.skip(sink, negated(bound))
        return pending

    def _negation(self, node: nodes.Negation, gap: Gap, sink: Place) -> Place:
        if gap.policy is not Policy.STRICT:
            return sink  # forbidden while what follows waits
        test = self._atom(node.part.name)
        place = self._place()
        if sink.kind is Kind.ACCEPT:
            place.skip(sink, negated(test))
        else:
            place.go_on(sink, negated(test))
        place.go_on(self._stop(node), test)
        return place

    def _leaving(self, parts: Sequence[nodes.Node], gaps: Sequence[Gap], sink: Place) -> Place:
        """What follows a group, where the end of the group forbids events."""
        stops = self._nots_before(parts, gaps, len(parts), _Around())
        if not stops:
            return sink
        last = parts[-len(stops) :]
        if not (complete(sink) or all(isinstance(part, nodes.Negation) for part in last)):
            raise errors.UnsupportedError(
                f"in a loop over a group, !{stops[-1].forbids} stands before steps at the end of "
                "the group that may be left out",
                remedy="write the rounds with and without these steps as alternatives",
            )
        joined = zip(parts, gaps, strict=False)
        if any(gap.within is not None and _forbidden(p, gap) for p, gap in joined):
            raise errors.UnsupportedError(
                "a negated step with a bound of its own (-> within 5 minutes !X) ends a group",
                remedy="leave its bound out, or write the negated step after the group",
            )
        entry = self._before(sink)
        entry.carries = stops
        return entry

    def _alternation(
        self, options: Sequence[nodes.Node], gap: Gap, sink: Place, around: _Around
    ) -> Place:
        heads = [self._heads(option) for option in options]
        entry = self._place()
        for index, option in enumerate(options):
            others = heads[:index] + heads[index + 1 :]
            inside = replace(around, twin=True, rivals=_any((around.rivals, *others)))
            entry.go_on(self._part(option, gap, sink, inside))
        return entry

    def _permutation(
        self, node: nodes.Permutation, gap: Gap, sink: Place, around: _Around
    ) -> Place:
        """One place per set of parts still to come."""
        if around.nots and any(map(nullable, node.parts)):
            told = f"!{around.nots[0].forbids} is before PERMUTE with a part that may be left out"
            raise errors.UnsupportedError(told, remedy="write the orders as alternatives")
        known: dict[tuple[int, ...], Place] = {(): sink}

        def entry(left: tuple[int, ...], gap: Gap, around: _Around) -> Place:
            if left not in known:
                place = self._place()
                for index in left:
                    rest = tuple(other for other in left if other != index)
                    others = (self._heads(node.parts[other]) for other in rest)
                    inside = replace(around, twin=True, rivals=_any((around.rivals, *others)))
                    outside = _Around((), around.after, around.until)
                    following = entry(rest, node.gap, outside)
                    place.go_on(self._part(node.parts[index], gap, following, inside))
                known[left] = place
            return known[left]

        return entry(tuple(range(len(node.parts))), gap, around)

    def _heads(self, node: nodes.Node) -> Test:
        """Whether an event could be the first of the part."""
        match node:
            case nodes.Label(name=name):
                return self._atom(name)
            case nodes.Repetition(part=part) | nodes.Exclusion(part=part):
                return self._heads(part)
            case nodes.Alternation(options=parts) | nodes.Permutation(parts=parts):
                return _any(self._heads(part) for part in parts)
            case nodes.Concatenation(parts=parts):
                heads: list[Test] = []
                for part in parts:
                    heads.append(self._heads(part))
                    if not (nullable(part) or isinstance(part, nodes.Negation)):
                        break
                return _any(heads)
            case _:
                return False

    # -- one step and its repetitions ------------------------------------------------------------

    def _repetition(self, node: nodes.Repetition, gap: Gap, sink: Place, around: _Around) -> Place:
        least, most, optional = node.least, node.most, node.least == 0
        inner, part = node, node.part
        if optional:
            least = 1
            if most == 1 and isinstance(part, nodes.Repetition) and part.least > 0:
                # `(B{2,3})?`: the steps of the inner loop, all of them or none
                inner, part = part, part.part
                least, most = inner.least, inner.most
        until = self._atom(inner.until.name) if inner.until is not None else False
        between: tuple[Place, ...] = ()
        if around.after is not None:
            between = (self._stop(around.after, inside=True, firm=most is None),)
        first = replace(around, until=either(around.until, until))
        inside = replace(first, nots=between, twin=False, rivals=False)
        loop = _Loop(inner, part, around.nots if optional else (), until, around.until)
        if most is None:
            end = self._stripped(sink, loop.nots)
            last = self._loop(loop, end, inside)
            goal = last
        else:
            if inner.exhaust and least != most:
                self._exhaust(loop, sink)
            goal = sink
            for _ in range(least, most):
                goal = self._iteration(loop, goal, sink, inner.gap, inside, optional=True)
        for done in range(least - 1, 0, -1):
            goal = self._iteration(loop, goal, None, inner.gap, inside, optional=False)
            goal.round = (done, least) if isinstance(part, nodes.Label) else None
        return self._iteration(loop, goal, sink, gap, first, optional, entering=True)

    def _iteration(
        self,
        loop: _Loop,
        sink: Place,
        onward: Place | None,
        gap: Gap,
        around: _Around,
        optional: bool,
        entering: bool = False,
    ) -> Place:
        if not isinstance(loop.part, nodes.Label):
            inside = replace(around, twin=around.twin or optional)
            place = self._part(loop.part, gap, sink, inside)
            if optional:
                assert onward is not None
                place = self._before(place)
                place.go_on(onward)
            return place
        place = self._single(loop.part, sink, onward, gap, around, optional, loop, entering)
        if not entering:
            self._forbid(place, around.nots)
        return place

    def _before(self, place: Place) -> Place:
        """A place of its own in front, so that edges can be added without touching others."""
        entry = self._place()
        entry.go_on(place)
        return entry

    def _single(
        self,
        label: nodes.Label,
        sink: Place,
        onward: Place | None,
        gap: Gap,
        around: _Around,
        optional: bool,
        loop: _Loop | None = None,
        entering: bool = True,
    ) -> Place:
        nots = loop.nots if loop is not None else ()
        bound = self._bound(gap)
        plain = self._atom(label.name)
        take = both(plain, negated(around.until))
        ending = around.until
        if loop is not None and entering:
            ending = loop.outer  # a loop that has not begun is not ended by its own `until`
        skip = self._skip_test(gap, either(plain, around.rivals), ending)
        target = self._stripped(sink, nots)
        place = self._place()
        index = self._labels.index(label.name)
        place.take(target, index, both(take, bound))
        if optional:
            assert onward is not None
            if loop is not None and loop.node.exhaust and loop.until is not False:
                if loop.original is not None:
                    place.go_on(loop.original, loop.until)
                place.go_on(onward, negated(loop.until))
            else:
                place.go_on(onward)
        if skip is not False:
            skip = both(skip, bound)
            if optional or around.twin:
                twin = self._place()
                twin.take(target, index, both(take, bound))
                twin.skip(twin, skip)
                if entering:
                    self._forbid(twin, around.nots)
                place.skip(twin, skip)
            else:
                place.skip(place, skip)
        return place

    def _loop(self, loop: _Loop, sink: Place, around: _Around) -> Place:
        """Any number of further iterations, then the sink."""
        gap = loop.node.gap
        if not isinstance(loop.part, nodes.Label):
            back = self._place()
            # Where a round may be empty, what would be copied without its nots is not there yet.
            nots = () if nullable(loop.part) else around.nots
            inside = replace(around, nots=nots, twin=True, rivals=False)
            head = self._part(loop.part, gap, back, inside)
            back.go_on(head)
            back.go_on(sink)
            return back
        bound = self._bound(gap)
        plain = self._atom(loop.part.name)
        index = self._labels.index(loop.part.name)
        take = both(both(plain, negated(around.until)), bound)
        place = self._place()
        if loop.node.exhaust:
            if loop.until is not False:
                loop.original = self._copy(sink)
                place.go_on(loop.original, loop.until)
                place.go_on(sink, negated(loop.until))
            else:
                place.go_on(sink)
            self._guard(sink, plain)
        else:
            place.go_on(sink)
        place.take(place, index, take)
        self._forbid(place, around.nots)
        skip = both(self._skip_test(gap, plain, around.until), bound)
        if skip is not False:
            twin = self._place()
            twin.take(place, index, take)
            twin.skip(twin, skip)
            place.skip(twin, skip)
            self._forbid(twin, around.nots)
        return place

    def _exhaust(self, loop: _Loop, sink: Place) -> None:
        if not isinstance(loop.part, nodes.Label):
            raise errors.UnsupportedError(
                "greedy() is not defined for a group of steps",
                remedy="make the loop inside the group greedy",
            )
        if loop.until is not False:
            loop.original = self._copy(sink)
        self._guard(sink, both(self._atom(loop.part.name), negated(loop.until)))

    @staticmethod
    def _guard(sink: Place, taken: Test) -> None:
        """What follows may not use an event that the loop could take."""
        for edge in sink.edges:
            edge.test = both(edge.test, negated(taken))

    def _copy(self, place: Place) -> Place:
        twin = self._place(place.kind)
        twin.carries, twin.round = place.carries, place.round
        for edge in place.edges:
            target = twin if edge.target is place else edge.target
            twin.edges.append(Edge(edge.action, target, edge.test, edge.label))
        return twin

    def _stripped(self, place: Place, nots: Sequence[Place]) -> Place:
        return stripped(place, nots, self._place) if nots else place

    # -- tests -----------------------------------------------------------------------------------

    def _atom(self, name: str) -> Test:
        return Atom(self._labels.index(name))

    def _bound(self, gap: Gap) -> Test:
        if gap.within is None:
            return True
        index = self._bounds.setdefault(gap.within, len(self._bounds))
        return Atom(len(self._labels) + index)

    @staticmethod
    def _skip_test(gap: Gap, fits: Test, until: Test) -> Test:
        match gap.policy:
            case Policy.STRICT:
                return False
            case Policy.NEXT:
                return both(negated(fits), negated(until))
            case Policy.ANY:
                return negated(until)

    def _stop(self, node: nodes.Negation, inside: bool = False, firm: bool = False) -> Place:
        """One per negated step, and one for the loop before it: a copy may do without one of them.

        The first of a label has its number among the places, where stored states expect it; all
        others come last.
        """
        key = (id(node), inside, firm)
        if key not in self._stops:
            name = node.part.name
            known = any(stop.forbids == name for stop in self._stops.values())
            stop = Place(-1, Kind.STOP) if known else self._place(Kind.STOP)
            stop.forbids, stop.firm = name, firm
            self._stops[key] = stop
        return self._stops[key]

    def _forbid(self, place: Place, stops: Sequence[Place]) -> None:
        for stop in stops:
            assert stop.forbids is not None
            place.go_on(stop, self._atom(stop.forbids))


@dataclass
class _Loop:
    """A repeated step while it is compiled."""

    node: nodes.Repetition
    part: nodes.Node
    nots: tuple[Place, ...]  # forbidden before an optional loop, allowed once it has taken an event
    until: Test
    outer: Test  # ends an enclosing loop
    original: Place | None = None  # what follows, as it was before greed changed it


def _any(tests: Iterable[Test]) -> Test:
    """Whether one of the tests holds."""
    nothing: Test = False
    return reduce(either, tests, nothing)


def _forbidden(part: nodes.Node, gap: Gap) -> nodes.Negation | None:
    if isinstance(part, nodes.Negation) and gap.policy is not Policy.STRICT:
        return part
    return None

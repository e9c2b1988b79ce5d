"""Event patterns by brute force: every match found on its own, straight from the definitions.

Slow and obvious, shares no code with the engine but the query's own tree. A match is looked for by
walking the pattern: `_take` tries the events that may come next under a joint's policy, and what is
left of the pattern is a function to be called with each. Where two walks give one set of (label,
row) pairs, that is one match.

The rules:

- strict: the next row. next: rows that do not fit may be skipped. any: any row may be skipped.
- A loop may end after each of its iterations; the joint inside it is its own.
- `until`: the loop takes no such event, and once begun skips none.
- `!X`: no X is left out between the event before it and the event after it; an X that is taken as
  the event after it is not between. A strict joint before it forbids only the next row, as which
  event ever. At the end it lasts as long as the window; before a step that is left out at the end,
  as in `A -> !X -> B?`, nothing is waited for: the A alone is a match at once (FlinkCEP's rule, and
  a case of its tests). The end of a group with `!X` waits all the same.
- Inside a loop before it, X is forbidden while the loop waits for a further round. FlinkCEP decides
  the rest: a loop without an upper bound does not take an X there either; a loop of one label with
  a bound, in a round that it could do without, forbids X only right after its last event.
- Of alternatives (and of PERMUTE's parts) under "next", a row is skipped if it fits no head.
- After-match strategies take the matches of a start as they complete: with the last event, or when
  an absence at the end is known. Completed at once: earliest events first, then labels in order.
- `greedy`: while what follows a loop waits for its first event, no row may fit the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.nodes import Gap, Policy
from ensue.query.query import Query, SkipMode, WindowKind

Row = dict[str, Any]
Pairs = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class State:
    """A partial match and what it must not meet before its next event."""

    pairs: Pairs = ()
    nots: frozenset[str] = frozenset()  # not left out
    barred: frozenset[str] = frozenset()  # neither left out nor taken
    not_first: frozenset[str] = frozenset()  # not left out as the very next row
    not_next: str | None = None
    spared: frozenset[str] = frozenset()  # of these, what a step that was left out stands behind
    greed: str | None = None

    @property
    def last(self) -> int:
        return self.pairs[-1][1]

    def at_end(self) -> State:
        """Without what is spared."""
        following = None if self.not_next in self.spared else self.not_next
        return replace(self, nots=self.nots - self.spared, not_next=following)


Rest = Callable[[State], None]


def in_window(query: Query, rows: list[Row], first: int, row: int) -> bool:
    window = query.within
    if window is None:
        return True
    if window.kind is WindowKind.ROWS:
        return row - first < window.size
    column = query.order_by[0].column
    return bool(rows[row][column] - rows[first][column] <= window.size)


class Oracle:
    def __init__(self, query: Query, rows: list[Row]) -> None:
        self.query, self.rows = query, rows
        self.found: dict[Pairs, int] = {}  # the row that completes a match

    def matches(self) -> list[Pairs]:
        """All matches, those that an after-match strategy leaves out removed."""
        self._walk(self.query.pattern, nodes.STRICT_GAP, State(), self._complete, None, ())
        every = sorted(self.found, key=lambda pairs: [(row, label) for label, row in pairs])
        return every if self.query.skip.mode is SkipMode.NONE else list(self._skipping(every))

    # -- the walk --------------------------------------------------------------------------------

    def _walk(
        self,
        node: nodes.Node,
        gap: Gap,
        state: State,
        rest: Rest,
        after: str | None,
        rivals: tuple[nodes.Node, ...],
    ) -> None:
        match node:
            case nodes.Label(name=name):
                self._take(name, gap, state, rest, rivals, None)
            case nodes.Empty():
                rest(state)
            case nodes.Concatenation(parts=parts, gaps=gaps):
                self._parts(parts, (gap, *gaps), state, rest, after, rivals)
            case nodes.Alternation(options=options):
                for option in options:
                    others = tuple(o for o in options if o is not option)
                    self._walk(option, gap, state, rest, after, rivals + others)
            case nodes.Permutation(parts=parts):
                self._permute(node, parts, gap, state, rest, after, rivals)
            case nodes.Repetition():
                self._repeat(node, gap, state, rest, after, rivals)
            case _:
                raise AssertionError(node)

    def _parts(self, parts, gaps, state, rest, after, rivals, own=frozenset()) -> None:  # type: ignore[no-untyped-def]
        """`own`: what was negated in this sequence since its last event."""
        if not parts:
            rest(state)
            return
        first, gap = parts[0], gaps[0]
        following = None
        if len(parts) == 1:
            following = after
        elif isinstance(parts[1], nodes.Negation) and gaps[1].policy is not Policy.STRICT:
            following = parts[1].part.name

        if isinstance(first, nodes.Negation):
            name = first.part.name
            negated = replace(state, spared=state.spared - {name})
            if gap.policy is Policy.STRICT:
                negated = replace(negated, not_next=name)
            else:
                negated = replace(negated, nots=state.nots | {name})
            self._parts(parts[1:], gaps[1:], negated, rest, after, (), own | {name})
            return

        def onward(reached: State) -> None:
            still = own if reached.pairs == state.pairs else frozenset()
            reached = replace(reached, spared=reached.spared | still)
            self._parts(parts[1:], gaps[1:], reached, rest, after, (), still)

        self._walk(first, gap, state, onward, following, rivals)

    def _permute(self, node, parts, gap, state, rest, after, rivals) -> None:  # type: ignore[no-untyped-def]
        if not parts:
            rest(state)
            return
        for index, part in enumerate(parts):
            left = parts[:index] + parts[index + 1 :]

            def onward(state: State, left: tuple[nodes.Node, ...] = left) -> None:
                self._permute(node, left, node.gap, state, rest, after, ())

            self._walk(part, gap, state, onward, after, rivals + left)

    def _repeat(
        self,
        node: nodes.Repetition,
        gap: Gap,
        state: State,
        rest: Rest,
        after: str | None,
        rivals: tuple[nodes.Node, ...],
    ) -> None:
        until = node.until.name if node.until is not None else None

        def leave(state: State) -> None:
            greed = node.part.name if node.exhaust and isinstance(node.part, nodes.Label) else None
            rest(replace(state, greed=greed) if greed else state)

        def iterate(done: int, state: State) -> None:
            if done >= node.least:
                leave(state) if done else rest(state)
            if node.most is not None and done >= node.most:
                return

            def onward(next_state: State) -> None:
                if next_state.pairs != state.pairs:
                    iterate(done + 1, next_state)

            if done:
                names = frozenset({after} if after else ())
                if node.most is None:
                    inside = replace(state, barred=state.barred | names)
                elif done < node.least or not isinstance(node.part, nodes.Label):
                    inside = replace(state, nots=state.nots | names)
                else:
                    inside = replace(state, not_first=names)
                others: tuple[nodes.Node, ...] = ()
            else:
                inside, others = state, rivals
            joint = node.gap if done else gap
            if isinstance(node.part, nodes.Label):
                self._take(
                    node.part.name,
                    joint,
                    inside,
                    onward,
                    others,
                    (until, done > 0, done, node.least),
                )
            else:
                assert until is None
                self._walk(node.part, joint, inside, onward, after, others)

        iterate(0, state)

    def _take(
        self,
        label: str,
        gap: Gap,
        state: State,
        rest: Rest,
        rivals: tuple[nodes.Node, ...],
        ending: tuple[str | None, bool, int, int] | None,
    ) -> None:
        """Every event that may be the next one, under the joint's policy."""
        if not state.pairs:
            for row in range(len(self.rows)):
                ended = ending and ending[0] and self._fits(ending[0], row, state)
                if not self._gone(row, state) and self._fits(label, row, state) and not ended:
                    rest(State(((label, row),)))
            return
        for row in range(state.last + 1, len(self.rows)):
            if not self._in_window(state.pairs[0][1], row) or self._gone(row, state):
                return
            if gap.within is not None and self._time(row) - self._time(state.last) > gap.within:
                return
            after = state.not_next if row == state.last + 1 else None
            if after is not None and self._fits(after, row, state):
                return
            if state.greed is not None and self._fits(state.greed, row, state):
                return
            ended = ending is not None and ending[0] and self._fits(ending[0], row, state)
            fits = self._fits(label, row, state)
            if fits and not ended:
                rest(State((*state.pairs, (label, row))))
            if self._forbidden(row, state):
                return
            if ended and ending is not None and ending[1]:
                return
            if gap.policy is Policy.STRICT:
                return
            rival = any(self._fits(head, row, state) for part in rivals for head in _heads(part))
            if gap.policy is Policy.NEXT and (fits or rival):
                return

    def _complete(self, state: State) -> None:
        if not state.pairs:
            return
        first = state.pairs[0][1]
        state = state.at_end()
        if state.not_next is not None:
            row = state.last + 1
            inside = row < len(self.rows) and self._in_window(first, row)
            if not inside or self._forbidden(row, state) or self._fits(state.not_next, row, state):
                return
        if state.nots:
            for row in range(state.last + 1, len(self.rows)):
                if self._in_window(first, row) and self._forbidden(row, state):
                    return
        done = state.last + (state.not_next is not None)
        done = (
            len(self.rows) if state.nots else done
        )  # the window of its start ends, later than all
        self.found[state.pairs] = min(done, self.found.get(state.pairs, done))

    def _gone(self, row: int, state: State) -> bool:
        """Whether the row ends the partial match, even as an event of it."""
        return any(self._fits(name, row, state) for name in (*state.barred, *self.query.without))

    def _forbidden(self, row: int, state: State) -> bool:
        """Whether the row ends the partial match unless it is taken."""
        names = state.nots | state.not_first if row == state.last + 1 else state.nots
        return self._gone(row, state) or any(self._fits(name, row, state) for name in names)

    # -- time ------------------------------------------------------------------------------------

    def _time(self, row: int) -> Any:
        return self.rows[row][self.query.order_by[0].column]

    def _in_window(self, first: int, row: int) -> bool:
        return in_window(self.query, self.rows, first, row)

    # -- conditions ------------------------------------------------------------------------------

    def _fits(self, label: str, row: int, state: State) -> bool:
        pairs = (*state.pairs, (label, row))
        return self._value(self.query.definition(label), row, pairs) is True

    def _value(self, node: c.Argument, row: int, pairs: Pairs) -> Any:
        match node:
            case c.Literal(value=value):
                return (
                    float(value)
                    if isinstance(value, (int, float)) and not isinstance(value, bool)
                    else value
                )
            case c.Column(name=name):
                value = self.rows[row][name]
                return float(value) if isinstance(value, int) else value
            case c.Navigate(variable=variable, anchor=anchor, offset=offset, shift=shift):
                taken = self._of(variable, pairs)
                if len(taken) <= offset:
                    return None
                place = taken[offset] if anchor is c.Anchor.FIRST else taken[-1 - offset]
                place += shift
                if not 0 <= place < len(self.rows):
                    return None
                return self._value(node.argument, place, pairs)
            case c.Aggregate(function=function, arguments=arguments, variable=variable):
                taken = self._of(variable, pairs)
                if not arguments:
                    return float(len(taken))
                values = [self._value(arguments[0], place, pairs) for place in taken]
                if not values:
                    return 0.0 if function == "count" else None
                folds = {"sum": sum, "min": min, "max": max, "count": len}
                folds["avg"] = lambda v: sum(v) / len(v)
                return float(folds[function](values))
            case c.Call():
                return self._call(node, row, pairs)
        raise AssertionError(node)

    def _call(self, node: c.Call, row: int, pairs: Pairs) -> Any:
        if node.function == "in":
            left = self._value(node["this"], row, pairs)
            options = node["expressions"]
            assert isinstance(options, tuple)
            return any(left == self._value(option, row, pairs) for option in options)
        left = self._value(node["this"], row, pairs)
        if node.function == "not":
            return None if left is None else not left
        right = self._value(node["expression"], row, pairs)
        if node.function == "and":
            return left is True and right is True
        if node.function == "or":
            return left is True or right is True
        if left is None or right is None:
            return None
        return {
            "eq": lambda: left == right,
            "neq": lambda: left != right,
            "lt": lambda: left < right,
            "lte": lambda: left <= right,
            "gt": lambda: left > right,
            "gte": lambda: left >= right,
            "add": lambda: left + right,
            "sub": lambda: left - right,
            "mul": lambda: left * right,
        }[node.function]()

    def _of(self, variable: str | None, pairs: Pairs) -> list[int]:
        names = self.query.members(variable)
        return [row for label, row in pairs if variable is None or label in names]

    # -- after a match ---------------------------------------------------------------------------

    def _skipping(self, every: list[Pairs]) -> Iterator[Pairs]:
        order = self.query.labels.index

        def rank(pairs: Pairs) -> tuple[int, list[tuple[int, int]]]:
            return self.found[pairs], [(row, order(label)) for label, row in pairs]

        floor = -1
        for start, group in itertools.groupby(every, key=lambda pairs: pairs[0][1]):
            for pairs in sorted(group, key=rank):
                if start < floor:
                    break
                yield pairs
                floor = max(floor, self._resume(pairs))

    def _resume(self, pairs: Pairs) -> int:
        skip = self.query.skip
        if skip.mode is SkipMode.PAST_LAST_ROW:
            return pairs[-1][1] + 1
        if skip.mode is SkipMode.TO_NEXT_ROW:
            return pairs[0][1] + 1
        rows = self._of(skip.variable, pairs)
        if not rows:
            return -1
        target = rows[0] if skip.mode is SkipMode.TO_FIRST else rows[-1]
        return -1 if target == pairs[0][1] else target


def _heads(node: nodes.Node) -> list[str]:
    """Labels that can be the first of a part."""
    match node:
        case nodes.Label(name=name):
            return [name]
        case nodes.Repetition(part=part):
            return _heads(part)
        case nodes.Alternation(options=parts) | nodes.Permutation(parts=parts):
            return [head for part in parts for head in _heads(part)]
        case nodes.Concatenation(parts=parts):
            found: list[str] = []
            for part in parts:
                found += _heads(part)
                if not (isinstance(part, nodes.Repetition) and part.least == 0):
                    break
            return found
    return []


def matches(query: Query, rows: list[Row]) -> list[Pairs]:
    """All matches in rows that are in order, each as (label, row) pairs in order of the rows."""
    return Oracle(query, rows).matches()

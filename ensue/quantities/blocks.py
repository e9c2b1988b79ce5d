"""Nested aggregates in measures: quantitative queries over the structure of a match.

For `PATTERN ((A B*)+)`, `MAX(AVG(B.price))` is the largest of the blocks' averages: the inner
aggregate runs over one round of the innermost repeated group that holds all its variables, the
outer one over the rounds; a further level takes the next group outwards, the last the whole match.
The match's labels are read by a streaming automaton made from the pattern: a repeated group that
is a level becomes an invocation in a loop, everything else states of the automaton around it. All
matches of a batch are one call of the compiled loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.quantities.bound import Batch
from ensue.quantities.checks import check
from ensue.quantities.folds import FOLDS, REPLACE
from ensue.quantities.memory import Memory
from ensue.quantities.model import (
    ARGUMENTS,
    RESULT,
    Action,
    Automaton,
    Constant,
    Expression,
    Invocation,
    Operation,
    Silent,
    Step,
    Transition,
    Weight,
)
from ensue.quantities.run import BoundAutomaton, column_kinds
from ensue.query import condition as c
from ensue.query import nodes as n
from ensue.query.query import Query

LABEL = "__ensue_label"
MAX_COPIES = 256
_FOLDS = {"sum": "sum", "min": "min", "max": "max", "bool_or": "any", "bool_and": "all"}


def is_nested(atom: c.Condition) -> bool:
    """Whether an aggregate has another aggregate inside."""
    return isinstance(atom, c.Aggregate) and any(c.has(a, c.Aggregate) for a in atom.arguments)


def measure(
    atom: c.Aggregate, query: Query, columns: Mapping[str, pa.Array], labels: pa.Array,
    offsets: NDArray[np.int64],
) -> pa.Array:  # fmt: skip
    """The value of a nested aggregate for each match; `columns` and `labels` are of its rows."""
    table = pa.table({**columns, LABEL: labels.cast(pa.string())})
    batch = Batch.whole(table, offsets)
    return bound(atom, query, table.schema).run(batch, Memory(), False).ends


@lru_cache(maxsize=256)
def bound(atom: c.Aggregate, query: Query, schema: pa.Schema) -> BoundAutomaton:
    """The automaton of a nested aggregate over the labels of a match: one for all batches."""
    automaton = _Level(query, c.dump(atom)).automaton(query.pattern, [_Part(atom, "a")], "a")
    try:
        report = check(automaton, column_kinds(schema))
    except (errors.AmbiguousError, errors.EmptyCycleError) as problem:
        raise errors.UnsupportedError(
            f"the rounds of the groups in {automaton.name} are not determined by the labels: "
            f"{problem.problem.replace(LABEL, 'label')}",
            remedy="write the pattern so that each row belongs to one round, e.g. begin each "
            "round with a label of its own",
        ) from None
    return BoundAutomaton(automaton, schema, report)


@dataclass(frozen=True)
class _Part:
    """An aggregate or navigation whose value has a name in the expression around it."""

    node: c.Condition
    name: str


@dataclass
class _Slots:
    """Slots of one automaton: initial values, folds by label, the folds of rounds."""

    initial: list[Any] = field(default_factory=list)
    by_label: dict[str, list[Action]] = field(default_factory=dict)
    rounds: list[Action] = field(default_factory=list)
    values: dict[str, c.Condition] = field(default_factory=dict)


class _Level:
    def __init__(self, query: Query, text: str) -> None:
        self._query = query
        self._text = text

    def automaton(self, node: n.Node, parts: list[_Part], value: str | c.Condition) -> Automaton:
        """Reads what `node` matches; the value is an expression over the parts' names."""
        slots = _Slots()
        inner: c.Condition | None = None
        for part in parts:
            nested = self._part(part, slots)
            if nested is not None:
                if inner is not None and inner != nested:
                    raise errors.UnsupportedError(
                        f"{self._text} takes two different values of each round",
                        remedy="write them as two measures",
                    )
                inner = nested
        group = None if inner is None else self._group(node, inner)
        body = None
        if group is not None and inner is not None:
            below: list[_Part] = []
            replaced = _named(inner, below)
            body = self.automaton(group.part, below, replaced)
        drawing = _Drawing(slots, group, body, self._query)
        end = drawing.read(node, drawing.new())
        tree = c.Column(value) if isinstance(value, str) else value
        finish = _finished(tree, slots)
        return Automaton(
            tuple(drawing.states),
            tuple(drawing.transitions),
            {drawing.states[0]: tuple(slots.initial)},
            {end: ()},
            finish=finish,
            name=f"{self._text} over {n.pattern_text(node)}",
        )

    def _group(self, node: n.Node, inner: c.Condition) -> n.Repetition:
        """The group whose rounds give `inner`, seen from the level `node`."""
        chain, index = self._chain(node, inner)
        if index < 0:
            raise errors.QueryError(
                f"{self._text} needs a repeated group for each aggregate but the innermost, and "
                f"the pattern repeats only {len(chain)} around its variables",
                remedy="nest one aggregate less, or repeat a group: ((A B*)+)",
            )
        return chain[index]

    def _chain(self, node: n.Node, inner: c.Condition) -> tuple[list[n.Repetition], int]:
        """The groups around all variables of `inner`, and which of them gives its rounds.

        The innermost, unless an aggregate inside takes that: then the next one outwards.
        """
        variables = {v for part in c.walk(inner) if (v := _variable(part)) is not None}
        labels = {name for v in variables for name in self._query.members(v)}
        chain = _enclosing(node, labels)
        index = len(chain) - 1
        for part in _outermost(inner):
            if isinstance(part, c.Aggregate) and is_nested(part):
                index = min(index, self._chain(node, part.arguments[0])[1] - 1)
        return chain, index

    def _part(self, part: _Part, slots: _Slots) -> c.Condition | None:
        """Slots and folds of a part; what it takes of each round, where it is nested."""
        node = part.node
        if isinstance(node, c.Aggregate) and is_nested(node):
            if node.where is not None or node.distinct or len(node.arguments) != 1:
                raise self._unsupported(node, "FILTER, DISTINCT or two arguments over rounds")
            self._fold(node.function, (RESULT,), part.name, slots, slots.rounds)
            return node.arguments[0]
        folds: list[Action] = []
        if isinstance(node, c.Aggregate):
            if node.distinct:
                raise self._unsupported(node, "DISTINCT")
            weights = tuple(self._weight(a, node.where) for a in node.arguments)
            if not node.arguments:
                one = c.Literal("int", 1)
                weights = (Constant(1) if node.where is None else self._weight(one, node.where),)
            self._fold(node.function, weights, part.name, slots, folds)
        elif isinstance(node, c.Navigate) and not (node.offset or node.shift):
            first = node.anchor is c.Anchor.FIRST
            weight = self._weight(node.argument, None)
            at = len(slots.initial)
            if first:  # the first row has the least of equal keys, even if its value is null
                slots.initial += [None, None]
                folds.append(Action(FOLDS["argmin"], (Constant(0), weight), at))
            else:
                slots.initial.append(None)
                folds.append(Action(REPLACE, (weight,), at))
            slots.values[part.name] = _slot(at + first)
        else:
            raise self._unsupported(node, "this navigation")
        labels = self._query.members(_variable(node))
        for label in labels:
            slots.by_label.setdefault(label, []).extend(folds)
        return None

    def _fold(
        self,
        function: str,
        weights: tuple[Weight, ...],
        name: str,
        slots: _Slots,
        folds: list[Action],
    ) -> None:
        at = len(slots.initial)
        match function:
            case "avg":
                slots.initial += [None, 0]
                folds.append(Action(FOLDS["sum"], weights, at))
                folds.append(Action(FOLDS["count"], weights, at + 1))
                some = c.binary("gt", _slot(at + 1), c.Literal("int", 0))
                mean = c.binary("div", _slot(at), _slot(at + 1))
                ifs = (c.call("if", this=some, true=mean),)
                slots.values[name] = c.call("case", ifs=ifs)
                return
            case "count":
                slots.initial.append(0)
                folds.append(Action(FOLDS["count"], weights, at))
            case "max_by" | "min_by":
                value, key = weights
                slots.initial += [None, None]
                fold = FOLDS["argmax" if function == "max_by" else "argmin"]
                folds.append(Action(fold, (key, value), at))
                slots.values[name] = _slot(at + 1)
                return
            case _ if function in _FOLDS:
                slots.initial.append(None)
                folds.append(Action(FOLDS[_FOLDS[function]], weights, at))
            case _:
                raise errors.UnsupportedFunctionError(
                    f"{self._text}: {function} cannot be used among nested aggregates",
                    remedy="use count, sum, avg, min, max, max_by, min_by, bool_and or bool_or",
                )
        slots.values[name] = _slot(at)

    def _weight(self, argument: c.Condition, where: c.Condition | None) -> Weight:
        tree = _labelled(argument)
        if where is not None:
            ifs = (c.call("if", this=_labelled(where), true=tree),)
            tree = c.call("case", ifs=ifs)
        return Expression(tree)

    def _unsupported(self, node: c.Condition, what: str) -> errors.UnsupportedError:
        return errors.UnsupportedError(
            f"{self._text}: {what} cannot be used among nested aggregates",
            remedy="compute that part as a measure of its own",
        )


def _labelled(condition: c.Condition) -> c.Condition:
    def change(node: c.Condition) -> c.Condition | None:
        return c.Column(LABEL) if isinstance(node, c.Classifier) else None

    return c.transform(condition, change)


def _slot(index: int) -> c.Column:
    return c.Column(f"slot{index}")


def _finished(tree: c.Condition, slots: _Slots) -> Operation:
    def change(node: c.Condition) -> c.Condition | None:
        return slots.values.get(node.name) if isinstance(node, c.Column) else None

    names = tuple(f"slot{i}" for i in range(len(slots.initial)))
    return Operation(names, tree=c.transform(tree, change), text=c.dump(tree))


def _variable(node: c.Condition) -> str | None:
    return node.variable if isinstance(node, (c.Aggregate, c.Navigate)) else None


def _outermost(condition: c.Condition) -> list[c.Condition]:
    parts: list[_Part] = []
    _named(condition, parts)
    return [part.node for part in parts]


def _named(condition: c.Condition, parts: list[_Part]) -> c.Condition:
    """The expression with its aggregates and navigations replaced by names."""

    def change(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, (c.Aggregate, c.Navigate)):
            return None
        known = next((p.name for p in parts if p.node == node), None)
        if known is None:
            known = ARGUMENTS[len(parts)]
            parts.append(_Part(node, known))
        return c.Column(known)

    return c.transform(condition, change)


def _enclosing(node: n.Node, labels: set[str]) -> list[n.Repetition]:
    """Repeated groups around all of `labels`, outermost first; a repeated label is not a group."""
    found: list[n.Repetition] = []
    if isinstance(node, n.Repetition) and not isinstance(node.part, n.Label):
        found.append(node)
    for child in n.children(node):
        inside = set(n.labels(child))
        if labels <= inside and (labels or inside):
            return found + _enclosing(child, labels)
    return found


class _Drawing:
    """States of a pattern by Thompson's construction, with the level's group as an invocation."""

    def __init__(
        self, slots: _Slots, group: n.Repetition | None, body: Automaton | None, query: Query
    ) -> None:
        self.states: list[str] = []
        self.transitions: list[Transition] = []
        self._slots, self._group, self._body, self._query = slots, group, body, query

    def new(self) -> str:
        if len(self.states) > 4 * MAX_COPIES:
            raise errors.LimitError(
                "the pattern is too long for nested aggregates once its quantifiers are written "
                "out",
                remedy="use + or * in place of large counts",
            )
        self.states.append(f"{len(self.states)}")
        return self.states[-1]

    def read(self, node: n.Node, source: str) -> str:
        match node:
            case n.Label(name=name):
                target = self.new()
                predicate = Expression(c.binary("eq", c.Column(LABEL), c.Literal("string", name)))
                actions = tuple(self._slots.by_label.get(name, ()))
                self.transitions.append(Step(source, target, predicate, actions))
                return target
            case n.Concatenation(parts=parts):
                for part in parts:
                    source = self.read(part, source)
                return source
            case n.Alternation(options=options):
                return self._either([lambda s, o=o: self.read(o, s) for o in options], source)
            case n.Permutation(parts=parts):
                orders = list(itertools.permutations(parts))
                gaps = (n.STRICT_GAP,) * (len(parts) - 1)
                return self._either(
                    [lambda s, o=o: self.read(n.Concatenation(o, gaps), s) for o in orders], source
                )
            case n.Exclusion(part=part):
                return self.read(part, source)
            case n.Repetition():
                return self._repeated(node, source)
            case n.Empty() | n.AnchorStart() | n.AnchorEnd():
                return source
            case _:
                raise errors.UnsupportedError(
                    "nested aggregates are for row patterns", remedy="use SQL row patterns"
                )

    def _either(self, options: list[Any], source: str) -> str:
        ends = [option(source) for option in options]
        target = self.new()
        self.transitions += [Silent(end, target) for end in ends]
        return target

    def _round(self, node: n.Repetition, source: str) -> str:
        if node is not self._group:
            return self.read(node.part, source)
        assert self._body is not None
        target = self.new()
        actions = tuple(self._slots.rounds)
        self.transitions.append(
            Invocation(source, target, Operation.identity(), (self._body,), actions)
        )
        return target

    def _repeated(self, node: n.Repetition, source: str) -> str:
        for _ in range(node.least):
            source = self._round(node, source)
        if node.most is None:
            hub = self.new()
            self.transitions.append(Silent(source, hub))
            self.transitions.append(Silent(self._round(node, hub), hub))
            return hub
        ends = [source]
        for _ in range(node.most - node.least):
            source = self._round(node, source)
            ends.append(source)
        if len(ends) == 1:
            return source
        target = self.new()
        self.transitions += [Silent(end, target) for end in ends]
        return target

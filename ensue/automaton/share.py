"""What patterns of a workload have in common: labels with the same definition (SHARP §3.1, §4.1).

Sharing needs to know that two steps are the same. A label is known by its definition in a normal
form (`x > 1 AND y < 2` is `2 > y AND 1 < x`) in which the labels it reads are known in the same
way, and by its place among the labels of its pattern with that form: where a, b and c have one
definition, `x > a.x` and `x > c.x` are two conditions. Labels that agree are one *common label*.
All definitions together are one union query, planned once, so that a row-local condition is
answered once per event however many patterns ask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ensue.automaton.plan import Plan, plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, Ties

_FLIPPED = {"gt": "lt", "gte": "lte"}
_UNORDERED = frozenset({"eq", "neq", "nullsafeeq", "add", "mul"})
ALL = "__all"  # the variable that stands for every common label
Form = tuple[object, ...]
Identity = tuple[Form, int]  # a form, and which of the pattern's labels of that form


# -- normal form of conditions -------------------------------------------------------------------


def normal_form(condition: c.Argument, names: Mapping[str | None, object]) -> object:
    """A hashable form that equal conditions share; `names` replaces the variables they read."""
    match condition:
        case c.Call(function="and" | "or" as function):
            parts = {normal_form(part, names) for part in _operands(condition, function)}
            return (function, tuple(sorted(parts, key=repr)))
        case c.Call(function=function) if function in (*_FLIPPED, "lt", "lte", *_UNORDERED):
            sides = [normal_form(condition[r], names) for r in ("this", "expression")]
            if function in _UNORDERED:
                sides.sort(key=repr)
            elif function in _FLIPPED:
                sides.reverse()
            return (_FLIPPED.get(function, function), *sides)
        case c.Call(function="paren"):
            return normal_form(condition["this"], names)
        case c.Call(function=function, arguments=arguments):
            given = (
                (r, normal_form(v, names)) for r, v in arguments if v is not None and v is not False
            )
            return (function, *given)
        case c.Navigate():
            told = (condition.anchor.value, condition.offset, condition.shift)
            argument = normal_form(condition.argument, names)
            return ("navigate", names.get(condition.variable), told, argument)
        case c.Aggregate():
            inside = tuple(normal_form(a, names) for a in condition.arguments)
            where = normal_form(condition.where, names)
            kind = (condition.function, condition.distinct)
            return ("aggregate", names.get(condition.variable), kind, inside, where)
        case c.Literal(kind=kind, value=value):
            return ("literal", kind, repr(value))
        case c.Column(name=name, path=path):
            return ("column", name, path)
        case tuple():
            return tuple(normal_form(item, names) for item in condition)
        case _:
            return ("other", repr(condition))


def _operands(condition: c.Argument, function: str) -> list[c.Argument]:
    if isinstance(condition, c.Call) and condition.function == function:
        return [p for r in ("this", "expression") for p in _operands(condition[r], function)]
    if isinstance(condition, c.Call) and condition.function == "paren":
        return _operands(condition["this"], function)
    return [condition]


class _Labels:
    """What every label of one query is known by, the labels it reads resolved."""

    def __init__(self, query: Query, unique: object) -> None:
        self._query, self._labels = query, query.labels
        self._unique = unique  # keeps apart what cannot be compared
        self._known: dict[str, Form] = {}
        self._open: set[str] = set()

    def of(self, label: str) -> Identity:
        form = self._form(label)
        earlier = self._labels[: self._labels.index(label)]
        return form, sum(self._form(other) == form for other in earlier)

    def _form(self, label: str) -> Form:
        if label not in self._known:
            if label in self._open:
                raise _CircularError
            self._open.add(label)
            try:
                form = self._read(label)
            except _CircularError:
                form = ("circular", self._unique, label)
            self._open.discard(label)
            self._known[label] = form
        return self._known[label]

    def _read(self, label: str) -> Form:
        definition = c.transform(self._query.definition(label), lambda n: _under_test(n, label))
        names: dict[str | None, object] = {None: "any"}
        for node in c.walk(definition):
            variable = getattr(node, "variable", None)
            if variable is None or variable in names:
                continue
            members = self._query.members(variable)
            told = {"self" if member == label else self.of(member) for member in members}
            names[variable] = tuple(sorted(told, key=repr))
        if c.has(definition, c.Classifier, c.MatchNumber):
            return ("labels", self._unique, label)
        return ("define", normal_form(definition, names))


class _CircularError(Exception):
    """A label is known by a label that is known by it."""


def identities(query: Query, unique: object) -> list[Identity]:
    """What each label is known by; labels of two patterns that agree are the same step."""
    labels = _Labels(query, unique)
    return [labels.of(label) for label in query.labels]


def _under_test(node: c.Condition, label: str) -> c.Condition | None:
    """In the definition of B, `B.x` is the row under test, as `x` is."""
    if (
        isinstance(node, c.Navigate)
        and node.variable == label
        and node.anchor is c.Anchor.LAST
        and node.offset == 0
    ):
        return replace(node, variable=None)
    return None


# -- members -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Member:
    """One pattern of the workload with its own plan and automaton."""

    name: str
    plan: Plan
    subsets: Subsets
    common: tuple[int, ...]  # own label -> common label
    atoms: tuple[int, ...]  # own atom (labels, then bounded gaps) -> common atom

    @property
    def own(self) -> dict[int, int]:
        """Common label -> own label."""
        return {common: own for own, common in enumerate(self.common)}


@dataclass(frozen=True, eq=False)
class Union:
    """All patterns over common labels."""

    members: tuple[Member, ...]
    plan: Plan  # of the union query: inputs, flags and tests of all patterns, once
    bounds: tuple[int, ...]  # bounded gaps: atoms after the labels

    @property
    def labels(self) -> int:
        return len(self.plan.tests)


def unite(queries: Mapping[str, Query]) -> Union:
    """The union of bound event patterns that agree on partition and order."""
    keys: dict[Identity, int] = {}
    owners: list[tuple[Query, str]] = []
    found: list[tuple[str, Query, tuple[int, ...]]] = []
    for position, (name, query) in enumerate(queries.items()):
        common = []
        for label, key in zip(query.labels, identities(query, position), strict=True):
            if key not in keys:
                keys[key] = len(keys)
                owners.append((query, label))
            common.append(keys[key])
        found.append((name, query, tuple(common)))
    mapping = {
        id(query): dict(zip(query.labels, common, strict=True)) for _, query, common in found
    }
    defined, subsets = [], {ALL: tuple(common_name(i) for i in range(len(owners)))}
    for index, (query, label) in enumerate(owners):
        condition = _over_common(query, query.definition(label), mapping[id(query)], subsets)
        defined.append((common_name(index), condition))
    first = next(iter(queries.values()))
    labels = tuple(nodes.Label(common_name(i)) for i in range(len(owners)))
    united = Query(
        pattern=labels[0] if len(labels) == 1 else nodes.Alternation(labels),
        define=tuple(defined),
        subsets=tuple(subsets.items()),
        partition_by=first.partition_by,
        order_by=first.order_by,
        within=first.within,
        all_matches=True,
        ties=min((query.ties for query in queries.values()), key=list(Ties).index),
    )
    planned = plan(united)
    bounds: dict[int, int] = {}
    members = []
    inputs, flags = dict.fromkeys(planned.inputs), dict.fromkeys(planned.flags)
    for name, query, numbers in found:
        own = plan(query)
        inputs.update(dict.fromkeys(own.inputs))
        flags.update(dict.fromkeys(own.flags))
        subsets_of = Subsets(compile_sequence(query))
        gaps = [
            len(owners) + bounds.setdefault(bound.within, len(bounds))
            for bound in subsets_of.automaton.bounds
        ]
        members.append(Member(name, own, subsets_of, numbers, (*numbers, *gaps)))
    planned = replace(planned, inputs=tuple(inputs), flags=tuple(flags))
    return Union(tuple(members), planned, tuple(bounds))


def common_name(index: int) -> str:
    return f"L{index}"


def _over_common(
    query: Query,
    condition: c.Condition,
    mapping: Mapping[str, int],
    subsets: dict[str, tuple[str, ...]],
) -> c.Condition:
    """The condition with common labels in place of the query's own."""

    def renamed(variable: str | None, everything: bool) -> str | None:
        if variable is None:
            return ALL if everything else None
        members = tuple(sorted(common_name(mapping[m]) for m in query.members(variable)))
        if len(members) == 1:
            return members[0]
        name = "__" + "_".join(members)
        subsets[name] = members
        return name

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Navigate):
            # a match has holes: rows further back are kept in registers, by the label ALL
            distant = node.offset > 0 or node.anchor is c.Anchor.FIRST
            return replace(node, variable=renamed(node.variable, distant))
        if isinstance(node, c.Aggregate):
            return replace(node, variable=renamed(node.variable, True))
        return None

    return c.transform(condition, change)


Edges = dict[object, list[tuple[int, object, bool]]]


def own_edges(member: Member) -> Edges:
    """State -> (common label, state after, complete): each label alone, gaps in time."""
    subsets, labels = member.subsets, len(member.common)
    bounds = ((1 << len(member.atoms)) - 1) & ~((1 << labels) - 1)
    hidden = {
        i for i, name in enumerate(member.plan.query.labels) if name in member.plan.query.unseen
    }
    edges: Edges = {}
    stack = [START]
    while stack:
        state = stack.pop()
        if state in edges:
            continue
        found: list[tuple[int, object, bool]] = []
        for label in range(labels):
            if label in hidden or not subsets.masks[state] >> label & 1:
                continue
            for take in subsets.step(state, 1 << label | bounds).takes:
                if take.label != label:
                    continue
                target: object = take.target if take.target != NOWHERE else ("end", label, state)
                found.append((member.common[label], target, take.accept))
                if take.target != NOWHERE:
                    stack.append(take.target)
        edges[state] = found
    return edges

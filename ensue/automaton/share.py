"""Many event patterns as one automaton: what they share is matched once (SHARP §3.1, §4.1).

Sharing needs to know that two steps are the same. A label is known by its definition in a normal
form (`x > 1 AND y < 2` is `2 > y AND 1 < x`) in which the labels it reads are known in the same
way; labels that agree are one *common label*. All definitions together are one union query, planned
once, so that a row-local condition is answered once per event however many patterns ask it.

Each pattern keeps its own deterministic automaton (`subsets.py`). A *node* of the shared plan is a
set of (pattern, state) pairs: the states in which patterns wait with the same history. Prefixes and
loops are shared by construction; a history is followed once until the last pattern has left it.

The pattern-sharing degree (Algorithm 2) of a node is a bitmap with one bit per pattern, as a Python
integer of any length here and as words of 64 bits in the kernels; nodes of one bitmap are one
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ensue import errors
from ensue.automaton.plan import Plan, plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.pattern import condition as c
from ensue.pattern import nodes
from ensue.pattern.query import Query

_FLIPPED = {"gt": "lt", "gte": "lte"}
_UNORDERED = frozenset({"eq", "neq", "nullsafeeq", "add", "mul"})
ALL = "__all"  # the variable that stands for every common label
Form = tuple[object, ...]


# -- normal form of conditions -------------------------------------------------------------------


def normal_form(condition: c.Argument, names: Mapping[str | None, object]) -> object:
    """A hashable form that equal conditions share; `names` replaces the variables they read."""
    match condition:
        case c.Call(function="and" | "or" as function):
            parts = {normal_form(part, names) for part in _operands(condition, function)}
            return (function, tuple(sorted(parts, key=repr)))
        case c.Call(function=function) if function in _FLIPPED:
            right, left = (normal_form(condition[r], names) for r in ("this", "expression"))
            return (_FLIPPED[function], left, right)
        case c.Call(function="lt" | "lte" as function):
            left, right = (normal_form(condition[r], names) for r in ("this", "expression"))
            return (function, left, right)
        case c.Call(function=function) if function in _UNORDERED:
            sides = [normal_form(condition[r], names) for r in ("this", "expression")]
            return (function, *sorted(sides, key=repr))
        case c.Call(function="paren"):
            return normal_form(condition["this"], names)
        case c.Call(function=function, arguments=arguments):
            given = ((r, normal_form(v, names)) for r, v in arguments if v not in (None, False))
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
    """The normal form of every label of one query, the labels it reads resolved."""

    def __init__(self, query: Query, unique: object) -> None:
        self._query = query
        self._unique = unique  # keeps apart what cannot be compared
        self._known: dict[str, Form] = {}
        self._open: set[str] = set()

    def of(self, label: str) -> Form:
        if label not in self._known:
            self._open.add(label)
            self._known[label] = self._form(label)
            self._open.discard(label)
        return self._known[label]

    def _form(self, label: str) -> Form:
        definition = c.transform(self._query.definition(label), lambda n: _under_test(n, label))
        names: dict[str | None, object] = {None: "any"}
        for node in c.walk(definition):
            variable = getattr(node, "variable", None)
            if variable is None or variable in names:
                continue
            members = self._query.members(variable)
            if any(member in self._open and member != label for member in members):
                return ("circular", self._unique, label)
            told = {"self" if member == label else self.of(member) for member in members}
            names[variable] = tuple(sorted(told, key=repr))
        if any(isinstance(node, (c.Classifier, c.MatchNumber)) for node in c.walk(definition)):
            return ("labels", self._unique, label)
        return ("define", normal_form(definition, names))


def label_forms(query: Query, unique: object) -> list[Form]:
    """The normal form of each label's definition; equal forms mean the same step."""
    forms = _Labels(query, unique)
    return [forms.of(label) for label in query.labels]


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
    keys: dict[tuple[Form, int], int] = {}
    owners: list[tuple[Query, str]] = []
    found: list[tuple[str, Query, tuple[int, ...]]] = []
    for position, (name, query) in enumerate(queries.items()):
        forms = _Labels(query, position)
        seen: dict[Form, int] = {}
        common = []
        for label in query.labels:
            form = forms.of(label)
            # labels of one pattern with one definition stay apart: a match tells them apart
            number = seen[form] = seen.get(form, -1) + 1
            key = (form, number)
            if key not in keys:
                keys[key] = len(keys)
                owners.append((query, label))
            common.append(keys[key])
        found.append((name, query, tuple(common)))
    mapping = {
        id(query): dict(zip(query.labels, common, strict=True)) for _, query, common in found
    }
    defined, subsets = [], {ALL: tuple(_name(i) for i in range(len(owners)))}
    for index, (query, label) in enumerate(owners):
        condition = _over_common(query, query.definition(label), mapping[id(query)], subsets)
        defined.append((_name(index), condition))
    first = next(iter(queries.values()))
    labels = tuple(nodes.Label(_name(i)) for i in range(len(owners)))
    united = Query(
        pattern=labels[0] if len(labels) == 1 else nodes.Alternation(labels),
        define=tuple(defined),
        subsets=tuple(subsets.items()),
        partition_by=first.partition_by,
        order_by=first.order_by,
        within=first.within,
        all_matches=True,
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


def _name(index: int) -> str:
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
        members = tuple(sorted(_name(mapping[m]) for m in query.members(variable)))
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


# -- the shared automaton ------------------------------------------------------------------------

Pairs = tuple[tuple[int, int], ...]  # (pattern, state), ascending


@dataclass(frozen=True)
class Taken:
    """An event joins under a common label; bitmaps of the patterns that go on and that match."""

    label: int
    target: int  # node, or NOWHERE
    going: int
    accepted: int


@dataclass(frozen=True)
class Outcome:
    """What an event does to the partial matches of a component."""

    taken: tuple[Taken, ...]
    stay: int  # patterns for which the partial match waits on, where it is
    moved: tuple[tuple[int, int], ...]  # (node, patterns): it waits on, elsewhere
    accepted: int  # patterns for which it is complete without the event


@dataclass(frozen=True)
class Component:
    """Patterns of a node that ask the same conditions of an event."""

    patterns: int
    guards: tuple[int, ...]  # common atoms that depend on the partial match
    outcomes: tuple[Outcome, ...]  # by the bits of the guards' answers


@dataclass
class SharedAutomaton:
    """Nodes and what events do to them, found on demand; `share` False keeps patterns apart."""

    union: Union
    share: bool = True
    nodes: list[Pairs] = field(default_factory=list)
    max_guards: int = 8

    def __post_init__(self) -> None:
        self._ids: dict[Pairs, int] = {}
        self._masks: dict[tuple[int, int], int] = {}
        self._memo: dict[tuple[int, int], tuple[Component, ...]] = {}
        self._relevant: dict[int, int] = {}
        self._steps: dict[int, dict[int, int]] = {}
        self._taken: dict[int, frozenset[str]] = {}
        self._ahead: dict[tuple[int, int], frozenset[int]] = {}
        tests = self.union.plan.tests
        self.correlated = sum(1 << i for i, test in enumerate(tests) if test.correlated)
        for offset in range(len(self.union.bounds)):
            self.correlated |= 1 << (len(tests) + offset)
        everyone = tuple((p, START) for p in range(len(self.union.members)))
        self.starts = tuple(
            self.node(pairs) for pairs in ([everyone] if self.share else [(e,) for e in everyone])
        )

    def node(self, pairs: Pairs) -> int:
        if pairs not in self._ids:
            self._ids[pairs] = len(self.nodes)
            self.nodes.append(pairs)
        return self._ids[pairs]

    def bitmap(self, node: int) -> int:
        """The pattern-sharing degree b(node)."""
        return sum(1 << pattern for pattern, _ in self.nodes[node])

    def pending(self, node: int) -> int:
        """Patterns for which a partial match here is complete once time proves an absence."""
        return sum(
            1 << p for p, state in self.nodes[node] if self.union.members[p].subsets.pending[state]
        )

    def relevant(self, node: int) -> int:
        """Common atoms on which the node's steps depend."""
        if node not in self._relevant:
            found = 0
            for pair in self.nodes[node]:
                found |= self._mask(*pair)
            self._relevant[node] = found
        return self._relevant[node]

    def _mask(self, pattern: int, state: int) -> int:
        key = (pattern, state)
        if key not in self._masks:
            member = self.union.members[pattern]
            own, found = member.subsets.masks[state], 0
            for index, atom in enumerate(member.atoms):
                if own >> index & 1:
                    found |= 1 << atom
            self._masks[key] = found
        return self._masks[key]

    def taken_at(self, node: int) -> frozenset[str]:
        """Names of the common labels that a partial match here has taken on the way first found."""
        return self._taken.get(node, frozenset())

    def ahead(self, node: int) -> frozenset[int]:
        """Common atoms that some step from here on may ask."""
        found: frozenset[int] = frozenset()
        for pattern, state in self.nodes[node]:
            if (pattern, state) not in self._ahead:
                member = self.union.members[pattern]
                own = member.subsets.labels_ahead(state)
                self._ahead[pattern, state] = frozenset(member.atoms[atom] for atom in own)
            found |= self._ahead[pattern, state]
        return found

    def steps(self, node: int) -> int:
        """Events that the nearest match from here still needs."""
        return min(self._steps_of(pattern)[state] for pattern, state in self.nodes[node])

    def _steps_of(self, pattern: int) -> dict[int, int]:
        if pattern not in self._steps:
            member = self.union.members[pattern]
            edges = own_edges(member)
            known = {state: 1 for state in range(len(member.subsets.sets))}
            for _ in range(len(edges)):
                for state, found in edges.items():
                    assert isinstance(state, int)
                    if found:
                        known[state] = 1 + min(
                            0 if accept or not isinstance(target, int) else known[target]
                            for _, target, accept in found
                        )
            self._steps[pattern] = known
        known = self._steps[pattern]
        for state in range(len(known), len(self.union.members[pattern].subsets.sets)):
            known[state] = 1
        return known

    def components(self, node: int, bits: int) -> tuple[Component, ...]:
        """What an event does whose row parts are `bits`; nothing for patterns it leaves alone."""
        key = (node, bits & self.relevant(node))
        if key not in self._memo:
            self._memo[key] = self._components(node, bits)
        return self._memo[key]

    def _components(self, node: int, bits: int) -> tuple[Component, ...]:
        bounds = self.correlated & ~((1 << self.union.labels) - 1)
        groups: dict[object, tuple[int, list[tuple[int, int]]]] = {}
        for pattern, state in self.nodes[node]:
            asked = self._mask(pattern, state) & self.correlated & (bits | bounds)
            key = (asked, -1 if self.share else pattern)
            groups.setdefault(key, (asked, []))[1].append((pattern, state))
        start = node in self.starts
        found = []
        for asked, pairs in groups.values():
            guards = tuple(i for i in range(asked.bit_length()) if asked >> i & 1)
            if len(guards) > self.max_guards:
                raise errors.LimitError(
                    f"one event has to be asked {len(guards)} conditions over other events at once",
                    remedy="write fewer conditions that read other events",
                )
            plain = bits & ~self.correlated
            outcomes = []
            for answers in range(1 << len(guards)):
                known = plain | sum(1 << g for i, g in enumerate(guards) if answers >> i & 1)
                outcomes.append(self._outcome(pairs, known))
            patterns = sum(1 << p for p, _ in pairs)
            idle = Outcome((), 0 if start else patterns, (), 0)
            if any(outcome != idle for outcome in outcomes):
                found.append(Component(patterns, guards, tuple(outcomes)))
        self._note_taken(node, found)
        return tuple(found)

    def _note_taken(self, node: int, found: list[Component]) -> None:
        before = self.taken_at(node)
        for component in found:
            for outcome in component.outcomes:
                for taken in outcome.taken:
                    self._taken.setdefault(taken.target, before | {_name(taken.label)})
                for target, _ in outcome.moved:
                    self._taken.setdefault(target, before)

    def _outcome(self, pairs: Sequence[tuple[int, int]], bits: int) -> Outcome:
        taken: dict[tuple[int, int], tuple[list[tuple[int, int]], int]] = {}
        moved: dict[int, list[tuple[int, int]]] = {}
        stay = accepted = 0
        for pattern, state in pairs:
            member = self.union.members[pattern]
            own = sum(1 << i for i, atom in enumerate(member.atoms) if bits >> atom & 1)
            step = member.subsets.step(state, own)
            apart = -1 if self.share else pattern
            for take in step.takes:
                key = (member.common[take.label], apart)
                going, matched = taken.get(key, ([], 0))
                if take.target != NOWHERE:
                    going.append((pattern, take.target))
                taken[key] = (going, matched | (take.accept << pattern))
            accepted |= step.skip_accept << pattern
            if step.skip == state and state != START:
                stay |= 1 << pattern
            elif step.skip != NOWHERE:
                moved.setdefault(apart, []).append((pattern, step.skip))
        return Outcome(
            tuple(
                Taken(
                    label,
                    self.node(tuple(going)) if going else NOWHERE,
                    sum(1 << p for p, _ in going),
                    matched,
                )
                for (label, _), (going, matched) in taken.items()
            ),
            stay,
            tuple((self.node(tuple(p)), sum(1 << i for i, _ in p)) for p in moved.values()),
            accepted,
        )


# -- the plan as it is shown, and the pattern-sharing degree ---------------------------------------


@dataclass(frozen=True)
class PlanNode:
    """A sub-pattern: how it is reached, who shares it (Algorithm 2) and who is complete in it."""

    path: str
    bitmap: int
    complete: int
    successors: tuple[tuple[str, int], ...]  # (label, node)


@dataclass(frozen=True)
class SharingPlan:
    """The execution plan DAG G (Figure 2): node 0 is the root; loops lead back to their node."""

    names: tuple[str, ...]
    nodes: tuple[PlanNode, ...]
    separate: int  # states of the patterns' own plans together

    @property
    def clusters(self) -> dict[int, tuple[int, ...]]:
        """Bitmap -> nodes whose partial matches are still open (PSD-based index)."""
        found: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes[1:], 1):
            if node.successors:
                found.setdefault(node.bitmap, []).append(index)
        return {bitmap: tuple(members) for bitmap, members in found.items()}

    def text(self, bitmap: int) -> str:
        """A label as the paper writes it: the last pattern first."""
        return format(bitmap, f"0{len(self.names)}b")


def sharing_plan(union: Union, share: bool = True, most: int = 20_000) -> SharingPlan:
    """The plan of a workload, walked from its root over what each label alone can do."""
    edges = [own_edges(member) for member in union.members]
    separate = sum(len({t for found in edge.values() for _, t, _ in found}) for edge in edges)
    everyone = tuple((p, START) for p in range(len(edges)))
    roots = [everyone] if share else [(pair,) for pair in everyone]
    ids: dict[tuple[tuple[int, object], ...], int] = {}
    paths, completes, successors = [""], [0], [list[tuple[str, int]]()]
    stack: list[tuple[int, tuple[tuple[int, object], ...]]] = [(0, root) for root in roots]
    while stack:
        index, pairs = stack.pop(0)
        by_label: dict[int, list[tuple[int, object, bool]]] = {}
        for pattern, state in pairs:
            for label, target, accept in edges[pattern].get(state, ()):
                by_label.setdefault(label, []).append((pattern, target, accept))
        for label, reached in by_label.items():
            node = tuple((pattern, target) for pattern, target, _ in reached)
            shown = _shown(union, reached[0][0], label)
            if node not in ids:
                if len(paths) >= most:
                    raise errors.LimitError(
                        f"the shared plan has more than {most:,} nodes",
                        remedy="ask for the plan of fewer patterns",
                    )
                ids[node] = len(paths)
                paths.append((paths[index] + " " + shown).strip())
                completes.append(sum(1 << p for p, _, accept in reached if accept))
                successors.append([])
                stack.append((ids[node], node))
            successors[index].append((shown, ids[node]))
    return SharingPlan(
        tuple(member.name for member in union.members),
        tuple(
            PlanNode(path, bitmap, complete, tuple(dict.fromkeys(after)))
            for path, bitmap, complete, after in zip(
                paths, _degrees(completes, successors), completes, successors, strict=True
            )
        ),
        separate,
    )


def _degrees(completes: list[int], successors: list[list[tuple[str, int]]]) -> list[int]:
    """Algorithm 2: b(P) is what is complete in P, or in what follows it."""
    found = list(completes)
    changed = True
    while changed:
        changed = False
        for index in range(len(found) - 1, -1, -1):
            bitmap = found[index]
            for _, after in successors[index]:
                bitmap |= found[after]
            if bitmap != found[index]:
                found[index], changed = bitmap, True
    return found


def _shown(union: Union, pattern: int, label: int) -> str:
    member = union.members[pattern]
    return member.plan.query.labels[member.own[label]]


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

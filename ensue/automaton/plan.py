"""`Plan`: what a runner must compute for each row, and what the evaluator makes of it.

Runner and evaluator meet at *inputs*: row expressions that the runner computes before matching
(on Spark by Spark, in process on Arrow), named `__ensue_0`, `__ensue_1`, ... Everything the
evaluator does is written over inputs, so it never sees the user's columns or functions:

- `flags[i]`: the row part of a label's definition; the runner packs them into bits.
- `tests`: what is left of each definition (neighbour and correlated parts).
- `atoms`: navigations and aggregates that the measures need; the evaluator's output columns.
- `outer`: each measure as an expression over atoms; the runner computes it after matching.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ensue import errors
from ensue.automaton import conditions, timeouts
from ensue.automaton.compile import compile_query, merge_states
from ensue.automaton.events import EventAutomaton
from ensue.automaton.letters import LetterStates, letter_states
from ensue.automaton.program import Marks, Program, label_marks
from ensue.automaton.sequence import compile_sequence
from ensue.query import condition as c
from ensue.query.depth import roomy
from ensue.query.query import Query, Rows
from ensue.query.sql import row_sql
from ensue.query.stored import Fingerprint, fingerprint
from ensue.scalar import functions

PREFIX = "__ensue_"
FLAGS_PER_COLUMN = 63
# Calls that can raise in ANSI mode; their inputs are computed only where the row may be needed.
_TOTAL = frozenset(
    {
        "eq", "neq", "lt", "lte", "gt", "gte", "nullsafeeq", "and", "or", "not", "is", "between",
        "in", "case", "if", "coalesce", "upper", "lower", "length", "concat", "trim", "like", "var",
        "identifier",
    }
)  # fmt: skip


def known_function(node: c.Call) -> bool:
    """Whether Ensue evaluates the function itself (words like HOUR are no functions)."""
    try:
        name = functions.positional(node).name
    except errors.UnsupportedFunctionError:
        return False
    return name in functions.CATALOGUE or name in functions.FORMS or name == "var"


def input_name(index: int) -> str:
    return f"{PREFIX}{index}"


def bits_name(index: int) -> str:
    """Column of packed flags: bit i of column k is flag 63 k + i."""
    return f"{PREFIX}bits_{index}"


def atom_name(index: int) -> str:
    return f"{PREFIX}atom_{index}"


@dataclass(frozen=True)
class Test:
    """What remains of a label's definition when the row part is a bit; over inputs."""

    label: str
    flag: int | None  # index into `flags`; None: no row part
    neighbour: tuple[c.Condition, ...]
    correlated: tuple[c.Condition, ...]


@dataclass(frozen=True)
class Outer:
    """A measure as an expression over atom columns."""

    name: str
    value: c.Condition


@dataclass(frozen=True)
class Plan:
    marks: Marks  # what the rows of a match are marked with
    tiers: tuple[conditions.Tiers, ...]
    inputs: tuple[c.Condition, ...]
    flags: tuple[c.Condition, ...]
    tests: tuple[Test, ...]
    atoms: tuple[c.Condition, ...]
    outer: tuple[Outer, ...]
    lookback: int  # rows before a match that a condition or measure may read
    lookahead: int
    # Per label, where asked for: each part of its AND, as written and over inputs.
    parts: tuple[tuple[tuple[c.Condition, c.Condition], ...], ...] = ()

    @property
    def query(self) -> Query:
        return self.marks.query

    @property
    def program(self) -> Program:
        """The automaton of a row pattern; its states are the marks."""
        assert isinstance(self.marks, Program), "an event pattern has no row program"
        return self.marks

    @property
    def automaton(self) -> Program | EventAutomaton | LetterStates:
        """What recognises the pattern; compiled on demand."""
        if isinstance(self.marks, Program):
            return self.marks
        if self.query.missing is not None:
            return letter_states(self.query, every_way=self.correlated)
        return compile_sequence(self.query)

    def carried(self, names: Sequence[str]) -> list[str]:
        """Columns of the input that travel with the rows under their own name."""
        if self.query.rows.all_rows:
            return list(names)
        wanted = (*self.query.partition_by, *(key.column for key in self.query.order_by))
        return list(dict.fromkeys(wanted))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Names the query in stored state: what it asks, and of which columns."""
        earlier = repr((self.query, self.inputs, self.flags))
        if self.query.missing is not None:
            earlier += repr(self.query.missing)
        return fingerprint(self.query, self.inputs, self.flags, earlier=earlier)

    def readable(self, problem: errors.EnsueError) -> errors.EnsueError:
        """An error in the user's terms: inputs by the expression they stand for."""

        def expression(found: re.Match[str]) -> str:
            return row_sql(self.inputs[int(found[1])]).replace("`", "")

        text = re.sub(rf"`?{PREFIX}(\d+)`?", expression, problem.problem)
        return type(problem)(text, remedy=problem.remedy, place=problem.place)

    @property
    def correlated(self) -> bool:
        return any(test.correlated for test in self.tests)


@dataclass
class _Planner:
    marks: Marks
    tiers: tuple[conditions.Tiers, ...]
    inputs: dict[c.Condition, int] = field(default_factory=dict)
    atoms: dict[c.Condition, int] = field(default_factory=dict)

    def input(self, expression: c.Condition) -> c.Column:
        if isinstance(expression, c.Column) and not expression.path and self._carried(expression):
            return expression  # it travels with the rows anyway; each column costs in the shuffle
        return c.Column(input_name(self.inputs.setdefault(expression, len(self.inputs))))

    def _carried(self, column: c.Column) -> bool:
        query = self.marks.query
        keys = (*query.partition_by, *(key.column for key in query.order_by))
        return query.rows.all_rows or column.name in keys

    def lift(self, condition: c.Condition) -> c.Condition:
        """Row expressions inside replaced by inputs: columns, and what only Spark can compute."""

        def change(node: c.Condition) -> c.Condition | None:
            match node:
                case c.Column():
                    return self.input(node)
                case c.Navigate(argument=argument, variable=variable, shift=shift):
                    return replace(node, argument=self.argument(argument, variable, shift))
                case c.Aggregate(arguments=arguments, where=where, variable=variable):
                    return replace(
                        node,
                        arguments=tuple(
                            self.lift(a) if c.has(a, c.Aggregate) else self.argument(a, variable, 0)
                            for a in arguments
                        ),
                        where=None if where is None else self.argument(where, variable, 0),
                    )
                case c.Call() if self._only_spark(node):
                    return self.input(node)
                case _:
                    return None

        return c.transform(condition, change)

    def _only_spark(self, node: c.Call) -> bool:
        if known_function(node) or not conditions.is_row_local(node):
            return False
        # Of constants, only these differ from words of the grammar, such as a unit's name.
        return bool(c.columns(node)) or node.function in ("array", "anonymous")

    def argument(self, expression: c.Condition, variable: str | None, shift: int) -> c.Condition:
        """A navigation's or aggregate's argument as an input; labels stay with the evaluator."""
        if conditions.reads_label(expression):
            return self.lift(expression)
        if not c.columns(expression):
            return expression
        partial = any(
            isinstance(n, c.Call) and n.function not in _TOTAL for n in c.walk(expression)
        )
        if partial and shift == 0:
            expression = self._where_labelled(expression, variable)
        return self.input(expression)

    def _where_labelled(self, expression: c.Condition, variable: str | None) -> c.Condition:
        """The expression only where the row part of a label of the variable holds.

        `SUM(A.x / A.y)` must not fail on a row with y = 0 that A's own definition rules out.
        """
        members = self.marks.query.members(variable)
        possible = [tier.row for tier in self.tiers if tier.label in members]
        if c.TRUE in possible or not possible:
            return expression
        anyone = possible[0]
        for other in possible[1:]:
            anyone = c.binary("or", anyone, other)
        return c.call("case", ifs=(c.call("if", this=anyone, true=expression),))

    def atom(self, node: c.Condition) -> c.Column:
        lifted = self.lift(node)
        return c.Column(atom_name(self.atoms.setdefault(lifted, len(self.atoms))))

    def measure(self, value: c.Condition) -> c.Condition:
        def change(node: c.Condition) -> c.Condition | None:
            if isinstance(node, (c.Navigate, c.Aggregate, c.MatchNumber)):
                return self.atom(node)
            return None

        outer = c.transform(value, change)
        if self.marks.query.rows is Rows.ALL_WITH_UNMATCHED and not isinstance(outer, c.Column):
            # Atoms of an unmatched row are null; a constant or COALESCE over them need not be.
            number = c.binary("is", self.atom(c.MatchNumber()), c.Literal("null", None))
            found = c.call("if", this=c.call("not", this=number), true=outer)
            return c.call("case", ifs=(found,))
        return outer


@roomy
def plan(query: Query, parts: bool = False) -> Plan:
    """The plan of a checked query; with `parts`, what each part of an AND reads is an input."""
    marks: Marks
    if query.row_semantics:
        program = merge_states(compile_query(query))
        if timeouts.is_timeout_query(query):
            program = timeouts.partial_program(program)
        marks = program
    else:
        marks = label_marks(query)
    tiers = conditions.split(marks)
    planner = _Planner(marks, tiers)
    flags: dict[c.Condition, int] = {}
    tests = []
    for tier in tiers:
        flag = None if tier.row == c.TRUE else flags.setdefault(tier.row, len(flags))
        neighbour = tuple(planner.lift(part) for part in tier.neighbour)
        correlated = tuple(planner.lift(part) for part in tier.correlated)
        tests.append(Test(tier.label, flag, neighbour, correlated))
    single = tuple(
        tuple((p, planner.lift(conditions.localise(p, marks, i))) for p in c.conjuncts(definition))
        for i, definition in enumerate(marks.definitions if parts else ())
    )
    outer = [Outer(m.name, planner.measure(m.value)) for m in query.measures or ()]
    shifts = [
        node.shift
        for condition in (
            *(t for tier in tiers for t in tier.neighbour + tier.correlated),
            *planner.atoms,
        )
        for node in c.walk(condition)
        if isinstance(node, c.Navigate)
    ]
    return Plan(
        marks=marks,
        tiers=tiers,
        inputs=tuple(planner.inputs),
        flags=tuple(flags),
        tests=tuple(tests),
        atoms=tuple(planner.atoms),
        outer=tuple(outer),
        lookback=max([0, *(-shift for shift in shifts)]),
        lookahead=max([0, *shifts]),
        parts=single,
    )

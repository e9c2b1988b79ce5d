"""Partial matches that ran out of their window, as matches of a program of their own.

A partial match times out at a start row when no match begins there, yet some way through the
pattern was still alive at the last row of the window, and a later row proves that the window is
over. That later row is matched by one more label: from every place of the pattern an arc leads to
it, after all others, so that the way found is the preferred one. Rows inside the window can only
take the pattern's labels, and the row beyond it only this one. A way that is alive at the end of
the partition is found too: the time at the end of the table says whether it timed out or is open.
"""

from __future__ import annotations

from dataclasses import replace

from ensue import errors
from ensue.automaton.compile import with_arcs
from ensue.automaton.program import ACCEPT, AT_END, START, Program
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Measure, Query, Rows, Skip, SkipMode, Window, WindowKind
from ensue.query.sql import listing_measures

BEYOND = "_ensue_beyond"  # label of the row after the window
BEGAN = "_ensue_began"  # measure: the window's time at the first row
INSIDE = "_ensue_inside"  # subset of the pattern's own labels


def asked(query: Query) -> tuple[Query, Window]:
    """The query with the measures that are shown, and its window; refuses what has no time-outs."""
    if query.within is None:
        raise errors.QueryError(
            "time-outs (SHOW TIMEOUT MATCHES) need WITHIN: without a window nothing times out",
            remedy="add WITHIN INTERVAL '1' HOUR after PATTERN, or within('1 hour')",
        )
    if query.rows.all_rows:
        raise errors.UnsupportedError(
            "time-outs (SHOW TIMEOUT MATCHES) are one row for each match or partial match",
            remedy="ask for one row per match",
        )
    shown = listing_measures(query) if query.measures is None else query.measures
    return replace(query, measures=shown), query.within


def longest(window: Window) -> int | float:
    """From the first row to the last, at most."""
    return window.size - (1 if window.kind is WindowKind.ROWS else 0)


def timeout_query(query: Query, clock: str, size: int | float) -> Query:
    """Asks for the partial matches of `query`; `clock` is a column that holds the window's time."""
    since = c.binary(
        "sub", c.Navigate(c.Column(clock)), c.Navigate(c.Column(clock), None, c.Anchor.FIRST)
    )
    limit = c.Literal("int", size) if isinstance(size, int) else c.Literal("double", size)
    within, beyond = c.binary("lte", since, limit), c.binary("gt", since, limit)
    define = [(label, c.conjunction([within, query.definition(label)])) for label in query.labels]
    tail = nodes.Repetition(nodes.Label(BEYOND), 0, 1)
    return replace(
        query,
        pattern=nodes.concatenate([query.pattern, tail]),
        define=(*define, (BEYOND, beyond)),
        subsets=(*query.subsets, (INSIDE, query.labels)),
        measures=(
            *(Measure(m.name, _inside(m.value)) for m in query.measures or ()),
            Measure(BEGAN, c.Navigate(c.Column(clock), None, c.Anchor.FIRST)),
            Measure(BEYOND, c.Navigate(c.Column(clock), BEYOND)),
        ),
        rows=Rows.ONE,
        skip=Skip(SkipMode.TO_NEXT_ROW),
        within=None,
    )


def _inside(condition: c.Condition) -> c.Condition:
    """The measure without the row beyond, and without a number: a partial match has none."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, (c.Navigate, c.Aggregate)) and node.variable is None:
            return replace(node, variable=INSIDE)
        if isinstance(node, c.MatchNumber):
            return c.call("cast", this=c.Literal("null", None), to=c.TypeName("BIGINT"))
        return None

    return c.transform(condition, change)


def is_timeout_query(query: Query) -> bool:
    return BEYOND in query.labels


def partial_program(program: Program) -> Program:
    """The program in which every place of the pattern may end at the row beyond the window."""
    own = program.labels.index(BEYOND)
    beyond = [s for s in range(1, program.states) if program.label[s] == own]
    arcs: list[list[tuple[int, int]]] = []
    for state in range(program.states):
        if state in beyond:
            arcs.append([(ACCEPT, 0)])
            continue
        ways = [(t, f) for t, f in program.arcs_of(state) if t != ACCEPT and t not in beyond]
        arcs.append(ways if state == START else [*ways, (beyond[0], 0), (ACCEPT, AT_END)])
    return with_arcs(program, arcs)


def may_be_empty(program: Program) -> bool:
    """Whether the pattern matches no row: then no search fails, and nothing times out."""
    return any(target == ACCEPT and flags == 0 for target, flags in program.arcs_of(START))

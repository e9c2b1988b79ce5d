"""Comparisons that show an attempt early that no row ahead will do.

`A B* C` with `C: price > A.price * 1.5` keeps an attempt alive from every row, each until its
partition ends: quadratic. A comparison of numbers qualifies where one side reads the row under test
(and its neighbours), the other one row that the match keeps: FIRST, or LAST of a variable that has
at most one row in a match. Both sides are then columns, and `kernels/reach.py` does the rest. It
only ever drops attempts that would have failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton import conditions
from ensue.automaton.plan import Plan
from ensue.automaton.walks import reached
from ensue.operator.batch import Batch
from ensue.query import condition as c
from ensue.rows.kernels.reach import Reach, widest_ways
from ensue.scalar.columns import evaluate
from ensue.stopping import look

_GREATER = {"gt": True, "gte": False}  # strict?
_MIRRORED = {"lt": "gt", "lte": "gte"}
_EXACT = float(1 << 53)
_MOST = 2  # comparisons; each costs a number per row and state


@dataclass(frozen=True)
class Comparison:
    """Offered > held (or >=), for the labels that ask it; `negated`: less instead of greater."""

    register: int
    held: c.Condition
    negated: bool
    offered: Mapping[int, tuple[c.Condition, ...]]  # per label
    strict: bool
    parts: tuple[c.Condition, ...]  # of the definitions, as planned


@dataclass(frozen=True)
class _Asked:
    label: int
    offered: c.Condition
    strict: bool
    part: c.Condition


def comparisons(plan: Plan, registers: Mapping[tuple[c.Anchor, str], int]) -> list[Comparison]:
    """Those of a plan that qualify; `registers` hold the rows of FIRST and LAST."""
    found: dict[tuple[int, c.Condition, bool], list[_Asked]] = {}
    for label, test in enumerate(plan.tests):
        for part in test.correlated:
            for offered, held, negated, strict in _sides(part):
                register = _register(plan, held, registers)
                if register is None or not _reads_the_row(offered):
                    continue
                key = (register, _as_column(held), negated)
                found.setdefault(key, []).append(_Asked(label, offered, strict, part))
    return [
        Comparison(
            register,
            held,
            negated,
            _by_label(asked),
            all(one.strict for one in asked),
            tuple(one.part for one in asked),
        )
        for (register, held, negated), asked in list(found.items())[:_MOST]
    ]


def _by_label(asked: list[_Asked]) -> dict[int, tuple[c.Condition, ...]]:
    labels = dict.fromkeys(one.label for one in asked)
    return {n: tuple(one.offered for one in asked if one.label == n) for n in labels}


def _sides(part: c.Condition) -> Iterator[tuple[c.Condition, c.Condition, bool, bool]]:
    """Both readings of a comparison: (offered, held, negated, strict)."""
    if not isinstance(part, c.Call) or part.function not in (*_GREATER, *_MIRRORED):
        return
    sides = dict(part.arguments)
    left, right = sides.get("this"), sides.get("expression")
    if not isinstance(left, c.CONDITIONS) or not isinstance(right, c.CONDITIONS):
        return
    less = part.function in _MIRRORED
    strict = _GREATER[_MIRRORED.get(part.function, part.function)]
    yield left, right, less, strict
    yield right, left, not less, strict


def _reads_the_row(side: c.Condition) -> bool:
    if not c.columns(side) or conditions.reads_label(side):
        return False
    return all(conditions.is_neighbour(atom) for atom in c.atoms(side))


def _register(
    plan: Plan, side: c.Condition, registers: Mapping[tuple[c.Anchor, str], int]
) -> int | None:
    """The register of the one row that a side reads; -1: the first row of the match."""
    places = set()
    for atom in c.atoms(side):
        if not isinstance(atom, c.Navigate) or not isinstance(atom.argument, c.Column):
            return None
        if atom.offset or atom.shift:
            return None
        places.add((atom.anchor, atom.variable))
    if len(places) != 1 or _bare(side) or conditions.reads_label(side):
        return None
    anchor, variable = places.pop()
    if variable is None:
        return -1 if anchor is c.Anchor.FIRST else None
    if anchor is c.Anchor.LAST and _may_repeat(plan, variable):
        return None
    return registers.get((anchor, variable))


def _bare(side: c.Condition) -> bool:
    """Whether a column of the row under test is read as well."""
    inside = sum(isinstance(node, c.Column) for node in c.walk(side))
    return inside > sum(isinstance(node, c.Navigate) for node in c.walk(side))


def _may_repeat(plan: Plan, variable: str) -> bool:
    """Whether a match may have two rows of the variable."""
    members, onward = plan.program.members(variable), plan.program.followers
    firsts = np.flatnonzero(members).tolist()
    return any(members[s] for first in firsts for s in reached(onward(first), onward))


def _as_column(side: c.Condition) -> c.Condition:
    """The side as a condition of the row that it reads."""
    return c.transform(side, lambda n: n.argument if isinstance(n, c.Navigate) else None)


# -- on a batch -----------------------------------------------------------------------------------


def reach_of(found: list[Comparison], plan: Plan, batch: Batch, least: NDArray[np.int32]) -> Reach:
    """What the comparisons say of a batch's rows; those that cannot be computed say nothing."""
    program, rows = plan.program, batch.length
    usable = [numbers for one in found if (numbers := _numbers(one, plan, batch)) is not None]
    widest = np.empty((len(usable), rows if usable else 0, program.states), np.float64)
    held = np.empty((len(usable), rows if usable else 0), np.float64)
    for index, (_, offered, given, _) in enumerate(usable):
        held[index] = given
        widest_ways(
            offered, least, batch.starts, batch.ends, batch.is_open, program.label,
            program.arc_offset, program.arc_target, widest[index],
        )  # fmt: skip
        look()
    register = np.array([one.register for one, *_ in usable], np.int64)
    return Reach(widest, held, register, np.array([strict for *_, strict in usable], np.bool_))


def _numbers(
    one: Comparison, plan: Plan, batch: Batch
) -> tuple[Comparison, NDArray[np.float64], NDArray[np.float64], bool] | None:
    offered = np.full((len(plan.tests), batch.length), np.inf)
    exact = one.strict
    try:
        for label, parts in one.offered.items():
            for part in parts:
                column = _floats(evaluate(part, batch.rows()), one.negated, np.inf, -np.inf)
                if column is None:
                    return None
                exact = exact and column[1]
                offered[label] = np.minimum(offered[label], column[0])
        given = _floats(evaluate(one.held, batch.rows()), one.negated, -np.inf, np.inf)
    except errors.EnsueError:
        return None  # a row that no attempt may ask fails: the guards say it where they do
    return None if given is None else (one, offered, given[0], exact and given[1])


def _floats(
    values: pa.Array, negated: bool, nan: float, null: float
) -> tuple[NDArray[np.float64], bool] | None:
    """As floats, and whether all are what they were; rounding keeps their order."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    floats = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0).to_numpy().copy()
    exact = pa.types.is_floating(kind) or bool((np.abs(floats) <= _EXACT).all())
    if negated:
        np.negative(floats, out=floats)
    floats[np.isnan(floats)] = nan
    floats[nulls] = null
    return floats, exact

"""Measures of matches, all at once: atoms (navigations, aggregates) to Arrow columns.

The rows each atom reads are found by the kernels of `kernels/measures.py`; values are then
gathered or aggregated column-wise, so the type of a value never matters here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import aggregate, errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.kernels import measures as kernels
from ensue.quantities import blocks
from ensue.query import condition as c
from ensue.query.query import Rows as RowsPerMatch
from ensue.scalar.columns import Rows, evaluate

_CLASSIFIER = PREFIX + "classifier"
_MATCH_NUMBER = PREFIX + "match_number"
LISTING_EVENTS = pa.list_(pa.struct([("label", pa.string()), ("row", pa.int64())]))


@dataclass(frozen=True)
class Matches:
    """Entries (see kernels/measures.py) and the states their rows were matched in."""

    match: NDArray[np.int64]
    positions: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.match)


@dataclass(frozen=True)
class Measured:
    """Matches over the rows of one batch, ready to be measured."""

    plan: Plan
    columns: Mapping[str, pa.Array]
    starts: NDArray[np.int64]
    base: NDArray[np.int64]  # per partition: number of its first row here
    matches: Matches

    @property
    def per_row(self) -> bool:
        return self.plan.query.rows.all_rows

    @cached_property
    def _points(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        rows_per_match = self.plan.query.rows
        return kernels.points(
            self.matches.match,
            self.per_row,
            self.matches.positions,
            self.plan.marks.excluded,
            rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY,
        )

    @property
    def entries(self) -> NDArray[np.int64]:
        return self._points[0]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Per point: the row it stands for."""
        return self._points[1]

    @property
    def shown(self) -> NDArray[np.bool_]:
        return self._points[2]

    @cached_property
    def _unmatched(self) -> NDArray[np.bool_]:
        return self.matches.match[self.entries, kernels.NUMBER] == 0

    # -- atoms -----------------------------------------------------------------------------------

    def atom(self, atom: c.Condition) -> pa.Array:
        match atom:
            case c.MatchNumber():
                return self.match_number()
            case c.Navigate():
                return self._navigate(atom)
            case c.Aggregate():
                return self._aggregate(atom)
            case _:
                raise AssertionError(f"not an atom: {atom}")

    def match_number(self) -> pa.Array:
        numbers = self.matches.match[self.entries, kernels.NUMBER]
        return pa.array(numbers, mask=numbers == 0)

    def _navigate(self, atom: c.Navigate) -> pa.Array:
        rows = kernels.locate(
            self.matches.match,
            self.matches.positions,
            self.plan.marks.members(atom.variable),
            self.per_row,
            len(self.entries),
            atom.anchor is c.Anchor.LAST,
            atom.offset,
            atom.final,
        )
        if atom.shift:
            rows = kernels.bounded_shift(
                rows, atom.shift, self.entries, self.matches.match, self.starts
            )
        return self._gather(atom.argument, rows, self.entries)

    def _aggregate(self, atom: c.Aggregate) -> pa.Array:
        if blocks.is_nested(atom):
            return self._nested(atom)
        selected, offsets = kernels.member_rows(
            self.matches.match, self.matches.positions, self.plan.marks.members(atom.variable)
        )
        owners = np.repeat(np.arange(len(self.matches)), np.diff(offsets))
        if atom.where is not None:
            kept = _as_mask(self._gather(atom.where, selected, owners))
            selected, owners = selected[kept], owners[kept]
            counts = np.bincount(owners, minlength=len(self.matches))
            offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        values = [self._gather(argument, selected, owners) for argument in atom.arguments]
        function = aggregate.get(atom.function, atom.distinct)
        if not self.per_row or atom.final:
            result = function.reduce(values, offsets)
            taken = pa.array(self.entries, mask=self._unmatched)
            return result.take(taken)
        running = kernels.running_index(self.entries, self.rows, selected, offsets)
        result = function.scan(values, offsets)
        nothing = function.reduce([value.slice(0, 0) for value in values], np.zeros(2, np.int64))
        # One more value at the end stands for "no row yet", as COUNT then gives 0 and not null.
        with_nothing = pa.concat_arrays([result, nothing.cast(result.type)])
        running[running < 0] = len(result)
        return with_nothing.take(pa.array(running, mask=self._unmatched))

    def _nested(self, atom: c.Aggregate) -> pa.Array:
        """An aggregate over the rounds of a repeated group, of the whole match."""
        if self.per_row and not atom.final:
            raise errors.UnsupportedError(
                "nested aggregates are values of the whole match, and ALL ROWS PER MATCH shows "
                "running ones",
                remedy="write FINAL before the aggregate, or ask for ONE ROW PER MATCH",
            )
        everything = np.ones(self.plan.marks.count + 1, np.bool_)
        rows, offsets = kernels.member_rows(
            self.matches.match, self.matches.positions, everything[: self.plan.marks.count]
        )
        owners = np.repeat(np.arange(len(self.matches)), np.diff(offsets))
        read = {name for name in c.columns(atom) if name in self.columns}
        columns = {name: self.columns[name].take(_indices(rows)) for name in sorted(read)}
        labels = self._classifier(rows, owners)
        found = blocks.measure(atom, self.plan.query, columns, labels, offsets)
        return found.take(pa.array(self.entries, mask=self._unmatched))

    def _gather(
        self, argument: c.Condition, rows: NDArray[np.int64], entries: NDArray[np.int64]
    ) -> pa.Array:
        """`argument` at each of `rows` (null where -1), in the match of each of `entries`."""
        if isinstance(argument, c.Column):
            return self.columns[argument.name].take(_indices(rows))
        if isinstance(argument, c.Classifier):
            return self._classifier(rows, entries)
        columns = {
            name: self.columns[name].take(_indices(rows))
            for name in c.columns(argument)
            if name in self.columns
        }
        columns[_CLASSIFIER] = self._classifier(rows, entries)
        columns[_MATCH_NUMBER] = pa.array(self.matches.match[entries, kernels.NUMBER])
        value = evaluate(_as_columns(argument), Rows(columns, len(rows), None))
        if (rows < 0).any():
            missing = pa.nulls(len(rows), value.type)
            value = pc.if_else(pa.array(rows >= 0), value, missing)
        return value

    def _classifier(self, rows: NDArray[np.int64], entries: NDArray[np.int64]) -> pa.Array:
        marks = self.plan.marks
        labels = kernels.label_at(
            self.matches.match, self.matches.positions, marks.label, entries, rows
        )
        names = pa.array(marks.labels, pa.string())
        return names.take(pa.array(labels, mask=labels < 0))

    # -- the plain listing -----------------------------------------------------------------------

    def listing(self, order: pa.Array) -> dict[str, pa.Array]:
        """match_number, first, last and events of each match."""
        match = self.matches.match
        first, length = match[:, kernels.FIRST_ROW], match[:, kernels.LENGTH]
        nothing = length == 0
        everything = np.arange(1, self.plan.marks.count + 1) > 1
        rows, offsets = kernels.member_rows(match, self.matches.positions, everything)
        owners = np.repeat(np.arange(len(match)), length)
        partition = match[owners, kernels.PARTITION]
        numbers = rows - self.starts[partition] + self.base[partition]
        events = pa.StructArray.from_arrays(
            [self._classifier(rows, owners), pa.array(numbers)], ["label", "row"]
        )
        return {
            "match_number": pa.array(match[:, kernels.NUMBER]),
            "first": order.take(pa.array(first, mask=nothing)),
            "last": order.take(pa.array(first + length - 1, mask=nothing)),
            "events": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), events).cast(
                LISTING_EVENTS
            ),
        }


def _indices(rows: NDArray[np.int64]) -> pa.Array:
    missing = rows < 0
    return pa.array(rows, mask=missing) if missing.any() else pa.array(rows)


def _as_mask(values: pa.Array) -> NDArray[np.bool_]:
    filled: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return filled


def _as_columns(condition: c.Condition) -> c.Condition:
    """The label and the match number as columns of the gathered rows."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Classifier):
            return c.Column(_CLASSIFIER)
        if isinstance(node, c.MatchNumber):
            return c.Column(_MATCH_NUMBER)
        return None

    return c.transform(condition, change)

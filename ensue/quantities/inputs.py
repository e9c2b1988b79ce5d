"""What a compiled query reads of its events: a letter of predicates, and a column per weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from llvmlite import ir
from numpy.typing import NDArray

from ensue.operator.guard_banks import whole_numbers
from ensue.quantities.flatten import Numeric
from ensue.quantities.generated.conditions import Conditions
from ensue.quantities.generated.emit import Letters
from ensue.quantities.generated.native import BYTES, WIDE, Compiled, Inputs, made
from ensue.quantities.model import ALWAYS, Expression, Predicate
from ensue.query.condition import Column
from ensue.scalar.columns import Rows, evaluate, predicate
from ensue.scalar.kinds import Kind

_RANKS = "__ensue_rank"


class Intake:
    """Tables to inputs."""

    def __init__(self, numeric: Numeric, kinds: dict[str, Kind]) -> None:
        self._numeric = numeric
        self._conditions = Conditions(numeric.predicates, kinds)
        count = len(numeric.predicates)
        self.letter = np.dtype(
            np.uint8 if count <= BYTES else np.uint16 if count <= WIDE else np.int64
        )
        self._functions: dict[frozenset[int], Compiled] = {}
        self._compiled = bool(self._conditions.codes) and count <= WIDE
        self._others = self._conditions.others if self._compiled else list(range(count))

    def ranked(self, table: pa.Table) -> tuple[pa.Table, pa.Array | None]:
        """The table with the ranks of its string weights, and the values that they stand for."""
        strings = self._numeric.strings
        if not strings:
            return table, None
        rows, encoded = Rows.of(table), {}
        for place in strings:
            weight, _ = self._numeric.weights[place]
            assert isinstance(weight, Expression)
            encoded[place] = pc.dictionary_encode(evaluate(weight.tree, rows))
        some = pa.concat_arrays([codes.dictionary.cast(pa.string()) for codes in encoded.values()])
        values = pc.unique(some)
        values = values.take(pc.sort_indices(values))  # by bytes, which is by characters
        for place, codes in encoded.items():
            ranks = pc.index_in(codes.dictionary.cast(pa.string()), values).cast(pa.int64())
            table = table.append_column(f"{_RANKS}{place}", ranks.take(codes.indices))
        return table, values

    def read(self, table: pa.Table) -> Inputs:
        rows = Rows.of(table)
        letters = np.zeros(table.num_rows, self.letter)
        for bit in self._others:
            condition = self._numeric.predicates[bit]
            one = self.letter.type(1 << bit)
            if condition == ALWAYS:
                letters |= one
            else:
                letters |= _mask(condition, rows).astype(self.letter) * one
        columns: dict[tuple[Expression, bool], Any] = {}

        def column(weight: Any, floating: bool) -> tuple[NDArray[np.int64], Any]:
            known = columns.get((weight, floating))
            if known is None:
                values = evaluate(weight.tree, rows)
                nulls = None
                if values.null_count:
                    nulls = (~values.is_valid().to_numpy(zero_copy_only=False)).view(np.uint8)
                known = columns[weight, floating] = _bits(values, floating), nulls
            return known

        weights = [
            column(_rank(place) if place in self._numeric.strings else weight, floating)
            for place, (weight, floating) in enumerate(self._numeric.weights)
        ]
        if self._compiled:
            read = [column(*one) for one in self._conditions.columns]
            nullable = frozenset(i for i, (_, nulls) in enumerate(read) if nulls is not None)
            bits = [bits.ctypes.data for bits, _ in read]
            nulls = [0 if nulls is None else nulls.ctypes.data for _, nulls in read]
            self._function(nullable)([table.num_rows, letters.ctypes.data, *bits, *nulls])
        return Inputs(letters, [bits for bits, _ in weights], [nulls for _, nulls in weights])

    def _function(self, nullable: frozenset[int]) -> Compiled:
        """The machine code of the predicates that have one, which equal queries share."""
        conditions, wide = self._conditions, self.letter == np.uint16

        def make() -> Compiled:
            module = ir.Module("letters")
            Letters(module, conditions, nullable, wide)
            return Compiled(module, "letters")

        function = self._functions.get(nullable)
        if function is None:
            key = "letters", conditions.fingerprint(), nullable, wide
            function = self._functions[nullable] = made(key, make)
        return function


def _rank(place: int) -> Expression:
    return Expression(Column(f"{_RANKS}{place}"))


def _mask(condition: Predicate, rows: Rows) -> NDArray[np.bool_]:
    assert isinstance(condition, Expression)
    truth: NDArray[np.bool_] = predicate(condition.tree, rows).to_numpy(zero_copy_only=False)
    return truth


def _bits(values: pa.Array, floating: bool) -> NDArray[np.int64]:
    if floating:
        # As SQL does, beyond 53 bits to the nearest double.
        doubles = pc.fill_null(pc.cast(values, pa.float64(), safe=False), 0.0)
        numbers = doubles.to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(numbers).view(np.int64)
    whole = whole_numbers(values, 0)
    assert whole is not None  # a decimal is not compiled
    return np.ascontiguousarray(whole)

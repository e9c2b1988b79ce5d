"""A query over an Arrow table: inputs in vectors, then the compiled loop or the tokens.

Predicates and values are evaluated on Arrow columns chunk by chunk; predicates become the bits of a
letter, values a row of 64-bit cells. Numbers go through `quantities/kernels/loop.py`, everything
else through `tokens.py` (or `general.py` where the query is ambiguous and that was allowed). Memory
beside the table is one chunk and, per partition, the state of the automaton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.guards.operators import TooHardError
from ensue.quantities.bound import Batch, Bound, Outcome
from ensue.quantities.checks import Report
from ensue.quantities.decimals import settled
from ensue.quantities.flatten import flatten
from ensue.quantities.general import GeneralConfiguration
from ensue.quantities.kernels import loop as vm
from ensue.quantities.memory import Kept, Memory
from ensue.quantities.model import ALWAYS, Automaton, Expression, Function, Predicate, Weight
from ensue.quantities.numbers import CHUNK, Numbers
from ensue.quantities.sketch import AddToSketch, QuantileOf, quantiles
from ensue.quantities.tokens import UNDEFINED, Configuration
from ensue.quantities.typing import Types
from ensue.scalar.arrow_kinds import from_arrow, to_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.kinds import Kind
from ensue.stopping import look


def column_kinds(schema: pa.Schema) -> dict[str, Kind]:
    return {field.name: from_arrow(field.type) for field in schema}


class BoundAutomaton(Bound):
    """A checked automaton bound to the columns of its input."""

    def __init__(
        self, automaton: Automaton, schema: pa.Schema, report: Report, compiled: bool = True
    ) -> None:
        super().__init__(schema)
        self.automaton = automaton
        self.report = report
        self.reason = ""
        self.numbers: Numbers | None = None
        types = Types(automaton, column_kinds(schema))
        self._output, self._slots = types.outputs[id(automaton)], types.slots[id(automaton)]
        if not compiled:
            self.reason = "asked for"
        elif not report.constant_space:
            self.reason = f"it needs {report.space}"
        else:
            try:
                numeric = flatten(automaton, types, joined=not report.tokens)
                self.numbers = Numbers(numeric, column_kinds(schema), automaton)
            except TooHardError as problem:
                self.reason = str(problem)
        if not self._is_numeric(once=False):
            self.automaton = settled(automaton, types)

    @property
    def output_type(self) -> pa.DataType | None:
        kind = self._output
        return None if kind is None or kind.name == "other" else to_arrow(kind)

    def slot_kinds(self) -> list[Kind]:
        """The kinds of the outermost automaton's slots, all of which are known if compiled."""
        return [kind for kind in self._slots if kind is not None]

    def explain(self) -> list[str]:
        way = f"tokens on plain values: {self.reason}"
        if self.numbers is not None:
            way = "compiled: machine code of its own"
            if self.numbers.refusal:
                way = f"compiled: one loop over 64-bit slots, because {self.numbers.refusal}"
        return [f"{self.automaton.name}: {way}"]

    def kept(self, places: int = 0) -> Kept:
        kept = Kept.of(0, 0, self.automaton)
        if self.numbers is not None and self._is_numeric(once=False):
            kept = self.numbers.kept()
        kept.grow(places)
        return kept

    def _is_numeric(self, once: bool) -> bool:
        return self.numbers is not None and (once or not self.numbers.at_once)

    def memory(self) -> Memory:
        return Memory(kept=self.kept())

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        """All partitions; each goes on from its place and is left there, unless asked `once`.

        Nobody looks at the end of a partition that is not complete: it may be past its type there.
        """
        kept = None
        if not batch.once:
            memory.grow(int(batch.places.max(initial=-1)) + 1)
            kept = memory.kept
        if self._is_numeric(batch.once):
            return self._compiled(batch, kept, streaming)
        if self._quantile is not None and kept is None and not streaming:
            return self._quantiles(batch)
        return self._plain(batch, kept, streaming)

    # -- numbers ---------------------------------------------------------------------------------

    def _compiled(self, batch: Batch, kept: Kept | None, streaming: bool) -> Outcome:
        assert self.numbers is not None
        found = self.numbers.run(batch, kept, streaming)
        kind, values = self.numbers.numeric.output, found.values
        ends = from_bits(found.end_bits, found.end_marks, kind, values)
        told = found.end_marks != vm.UNDEFINED
        if not streaming:
            return Outcome(ends, told)
        some = from_bits(found.bits, found.marks, kind, values)
        return Outcome(ends, told, some, found.marks != vm.UNDEFINED)

    # -- quantiles of whole partitions -----------------------------------------------------------

    @cached_property
    def _quantile(self) -> tuple[Expression, float, float] | None:
        """What `quantile(value, part)` of all events folds, its error and its part."""
        automaton = self.automaton
        finish = None if automaton.finish is None else automaton.finish.function
        actions = {t.actions for t in automaton.transitions}
        if not isinstance(finish, QuantileOf) or len(actions) != 1 or automaton.rank:
            return None
        if any(getattr(t, "predicate", None) != ALWAYS for t in automaton.transitions):
            return None
        ((action,),) = actions
        (weight,), add = action.weights, action.fold.function
        if not isinstance(weight, Expression) or not isinstance(add, AddToSketch):
            return None
        return weight, add.error, finish.part

    def _quantiles(self, batch: Batch) -> Outcome:
        """All sketches at once, by sorting: where nobody asks for the state in between."""
        assert self._quantile is not None
        (weight, error, part), starts = self._quantile, batch.starts
        values = evaluate(weight.tree, Rows.of(batch.table))
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        some_values = values.drop_null()
        if pa.types.is_decimal(values.type):  # Arrow's cast is an ulp off here and there
            numbers = np.array(some_values.to_pylist(), np.float64)
        else:
            numbers = pc.cast(some_values, pa.float64(), safe=False).to_numpy()
        cuts = np.append(0, np.cumsum(valid))[starts].astype(np.int64)
        some = np.diff(cuts) > 0
        found = np.zeros(len(some), np.float64)
        if some.any():
            found[some] = quantiles(numbers, np.append(cuts[:-1][some], cuts[-1]), error, part)
        return Outcome(pa.array(found, mask=~some), np.diff(starts) > 0)

    # -- plain values ----------------------------------------------------------------------------

    def _configuration(self) -> Configuration | GeneralConfiguration:
        configuration: Configuration | GeneralConfiguration
        if self.report.tokens:
            configuration = Configuration(self.automaton)
        else:
            unambiguous = self.report.ambiguity is None
            configuration = GeneralConfiguration(self.automaton, unambiguous)
        configuration.start()
        return configuration

    def _plain(self, batch: Batch, kept: Kept | None, streaming: bool) -> Outcome:
        ends: list[Any] = []
        values: list[Any] = []
        for partition, place in enumerate(batch.places.tolist()):
            configuration = None
            if kept is not None and not batch.fresh[partition]:
                configuration = kept.configurations[place]
            configuration = configuration or self._configuration()
            begin, end = int(batch.starts[partition]), int(batch.starts[partition + 1])
            for holds, weights in self._events(batch.table.slice(begin, end - begin), begin):
                configuration.next(holds, weights)
                if streaming:
                    values.append(configuration.output())
            ends.append(configuration.output() if batch.complete[partition] else UNDEFINED)
            if kept is not None:
                kept.configurations[place] = configuration
        told = self._array(ends)
        return Outcome(*told, *self._array(values)) if streaming else Outcome(*told)

    def _events(
        self, table: pa.Table, first: int
    ) -> Iterator[tuple[dict[Predicate, bool], dict[Weight, Any]]]:
        predicates, weights = self.automaton.predicates(), self.automaton.weights()
        for begin in range(0, table.num_rows, CHUNK):
            piece = table.slice(begin, CHUNK)
            rows = Rows.of(piece)
            events = piece.to_pylist() if self.automaton.reads_python else []
            truths = [_held(p, rows, events, first + begin) for p in predicates]
            values = [_listed(w, rows, events, first + begin) for w in weights]
            for row in range(piece.num_rows):
                look()
                yield (
                    {p: truth[row] for p, truth in zip(predicates, truths, strict=True)},
                    {w: value[row] for w, value in zip(weights, values, strict=True)},
                )

    def _array(self, values: list[Any]) -> tuple[pa.Array, NDArray[np.bool_]]:
        defined = np.array([value is not UNDEFINED for value in values], np.bool_)
        plain = [None if value is UNDEFINED else value for value in values]
        return as_array(plain, self.output_type), defined


def from_bits(
    bits: NDArray[np.int64], marks: NDArray[np.uint8], kind: Kind, ranked: pa.Array | None = None
) -> pa.Array:
    """Cells as values of their kind; `ranked` are the strings that ranks stand for."""
    if kind.name == "null":
        return pa.nulls(len(bits))
    missing = marks != vm.VALUE
    mask = missing if missing.any() else None
    wanted = to_arrow(kind)
    if ranked is not None and kind.name == "string":
        return ranked.take(pa.array(bits, mask=mask)).cast(wanted)
    if kind.name == "float":
        values = pa.array(bits.view(np.float64), mask=mask)
    elif kind.name == "boolean":
        values = pa.array(bits != 0, mask=mask)
    elif kind.name == "date":
        values = pa.array(bits.astype(np.int32), mask=mask).cast(wanted)
    else:
        values = pa.array(bits, mask=mask)
    return values if values.type == wanted else values.cast(wanted)


def plain_value(bits: int, mark: int, kind: Kind) -> Any:
    """One cell of the compiled loop as a Python value."""
    return from_bits(np.array([bits]), np.array([mark], np.uint8), kind)[0].as_py()


def as_array(values: list[Any], wanted: pa.DataType | None) -> pa.Array:
    """Plain values as Arrow: in the type known, or the one that holds them."""
    try:
        if wanted is not None:
            return pa.array(values, wanted)
        return pa.array([list(v) if isinstance(v, tuple) else v for v in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
        if any(isinstance(v, int) and abs(v) >= 2**63 for v in values if v is not None):
            raise errors.OverflowDataError(
                "a whole number left the range of 64 bits",
                remedy="cast the value to double, as in CAST(x AS DOUBLE)",
            ) from None
        raise errors.DataError(
            f"the values of the query do not fit into one column: {problem}",
            remedy="return values of one type",
        ) from None


def _listed(part: Any, rows: Rows, events: list[dict[str, Any]], first: int) -> list[Any]:
    if isinstance(part, Function):
        return [called(part.call, event, first + i) for i, event in enumerate(events)]
    return evaluate(part.tree, rows).to_pylist()


def _held(part: Any, rows: Rows, events: list[dict[str, Any]], first: int) -> list[bool]:
    if isinstance(part, Function):
        return [holds(part.call, event, first + i) for i, event in enumerate(events)]
    return [value is True for value in _listed(part, rows, events, first)]


def holds(call: Callable[[Any], Any], event: dict[str, Any], row: int) -> bool:
    """Whether a Python predicate holds; None, as null in SQL, is no."""
    value = called(call, event, row)
    if value is not None and not isinstance(value, bool):
        raise errors.DataError(
            f"{getattr(call, '__name__', 'a predicate')} gave {value!r} at row {row}, where True, "
            "False or None is expected",
            remedy="compare it with something, or wrap it in bool(...)",
        )
    return value is True


def called(call: Callable[[Any], Any], event: dict[str, Any], row: int) -> Any:
    """What a Python callable says of an event; its failure names the row."""
    try:
        value = call(event)
    except Exception as problem:
        name = getattr(call, "__name__", "a function")
        raise errors.DataError(
            f"{name} failed at row {row}: {type(problem).__name__}: {problem}",
            remedy="handle such events in the function",
        ) from problem
    return bool(value) if isinstance(value, np.bool_) else value

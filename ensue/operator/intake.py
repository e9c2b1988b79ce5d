"""Tables as they come into rows that can be used, and reasons why others cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.buffer import AT, EVENT, numbers
from ensue.operator.state import Parts
from ensue.operator.status import LATE, REJECTED, SHED

REASON = "reason"
TEXT = "text"
NO_TIME = "the event time is null"
Codes = NDArray[np.int64]


class Aside:
    """Rows put apart, late ones and those that cannot be used, until they are taken away."""

    def __init__(self, schema: pa.Schema | None = None, time: str | None = None) -> None:
        """Before the first event nobody knows the columns, and which is the event time."""
        self._schema = pa.schema([]) if schema is None else schema
        self._time = time
        self._late: list[pa.Table] = []
        self._rejected: list[pa.Table] = []

    def add(self, late: pa.Table | None = None, rejected: pa.Table | None = None) -> None:
        """`rejected` with a column `reason`."""
        if late is not None and late.num_rows:
            self._late.append(late)
        if rejected is not None and rejected.num_rows:
            self._rejected.append(rejected)

    @property
    def late(self) -> pa.Table:
        return pa.concat_tables([self._schema.empty_table(), *self._late])

    @property
    def rejected(self) -> pa.Table:
        schema = self._schema.append(pa.field(REASON, pa.string()))
        return pa.concat_tables([schema.empty_table(), *self._rejected])

    def take_late(self) -> pa.Table:
        found, self._late = self.late, []
        return found

    def take_rejected(self) -> pa.Table:
        found, self._rejected = self.rejected, []
        return found

    def why(self, shed: int) -> pa.Table:
        """Both in one table, with `reason` and `text`; a last row says what was `shed`."""
        schema = self._schema
        for name in (REASON, TEXT):
            if name in schema.names:
                raise errors.DuplicateNameError(
                    f"the events have a column {name!r}, which why() adds",
                    remedy="rename the column first",
                )
        late, rejected = self.late, self.rejected
        times = late[self._time].to_pylist() if self._time else []
        parts = [
            (late, LATE, passed(self._time or "", times)),
            (rejected.select(schema.names), REJECTED, rejected[REASON].to_pylist()),
        ]
        if shed:
            told = f"{shed:,} extensions of partial matches were not made"
            parts.append((one_row(schema), SHED, [told]))
        return pa.concat_tables(_with_texts(*part) for part in parts)

    def saved(self) -> dict[str, pa.Table]:
        """The parts of a state that `restored` reads."""
        return {"late": self.late, "rejected": self.rejected}

    def restored(self, parts: Parts) -> Aside:
        """With what a state had put apart."""
        made = Aside(self._schema, self._time)
        made.add(parts.table("late"), parts.table("rejected"))
        return made


class PutsAside:
    """What operators that users hold say of the rows that they put apart."""

    _aside: Aside

    @property
    def late(self) -> pa.Table:
        """Events that came after the watermark had passed them; see `take_late`."""
        return self._aside.late

    @property
    def rejected(self) -> pa.Table:
        """Rows that could not be used, each with a `reason`; see `take_rejected`."""
        return self._aside.rejected

    def take_late(self) -> pa.Table:
        """The late events gathered so far, and forget them."""
        return self._aside.take_late()

    def take_rejected(self) -> pa.Table:
        """The rejected rows gathered so far, and forget them."""
        return self._aside.take_rejected()


def _with_texts(rows: pa.Table, reason: str, texts: list[str]) -> pa.Table:
    return with_reasons(rows, reason).append_column(TEXT, pa.array(texts, pa.string()))


def passed(time: str, values: list[Any], why: str = "") -> list[str]:
    """Why rows of these event times are late."""
    return [f"{time} = {value}: {why or 'the watermark had passed it'}" for value in values]


def cast(array: pa.Array, column: pa.Field) -> pa.Array:
    if array.type == column.type:
        return array
    try:
        return array.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise errors.ColumnTypeError(
            f"the column {column.name!r} of type {array.type} does not fit the stream, where it is "
            f"{column.type}: {problem}",
            remedy="cast it before it is inserted; no row of this table was inserted",
        ) from None


def cast_times(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of the declared type; null where a value cannot be one."""
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.concat_arrays([pa.nulls(0, kind), *(one_time(value, kind) for value in array)])


def one_time(value: pa.Scalar, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([value.as_py()], value.type).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)


def time_reasons(given: pa.Array, fitted: pa.Array) -> pa.Array:
    """Why a row has no event time; null where it has one."""
    if not fitted.null_count:
        return pa.nulls(len(fitted), pa.string())
    texts = [
        None
        if is_there
        else NO_TIME
        if value is None
        else f"the event time {value!r} is not of type {fitted.type}"
        for is_there, value in zip(fitted.is_valid().to_pylist(), given.to_pylist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def split(table: pa.Table, reasons: pa.Array) -> tuple[pa.Table, pa.Table]:
    """Rows that can be used, and those that cannot with the reason."""
    if reasons.null_count == len(reasons):
        return table, with_reasons(table.slice(0, 0), "")
    bad = reasons.is_valid()
    refused = table.filter(bad).append_column(REASON, reasons.filter(bad))
    return table.filter(pc.invert(bad)), refused


def in_time(table: pa.Table, watermark: int) -> tuple[pa.Table, pa.Table]:
    """Rows that the watermark has not passed, and late ones."""
    return parted(table, numbers(table, AT) < watermark)


def parted(table: pa.Table, apart: NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
    """The other rows, and those to be put apart: late, wrong or retracted."""
    if not apart.any():
        return table, table.slice(0, 0)
    return table.filter(pa.array(~apart)), table.filter(pa.array(apart))


def with_reasons(table: pa.Table, reason: str) -> pa.Table:
    return table.append_column(REASON, pa.array([reason] * table.num_rows, pa.string()))


def with_names(table: pa.Table, names: Codes) -> pa.Table:
    return table.set_column(table.schema.get_field_index(EVENT), EVENT, pa.array(names))


def count_before(values: Codes) -> Codes:
    """Per row: how many rows before it have the same value."""
    index = np.argsort(values, kind="stable")
    ordered = values[index]
    place = np.arange(len(values))
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(values)]
    counts = np.empty(len(values), np.int64)
    counts[index] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return counts


def first_of(values: Codes) -> Codes:
    """Per row: the first row that has the same value."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first[inverse]


def one_row(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.nulls(1, column.type) for column in schema], schema=schema)


def check_texts(table: pa.Table | pa.RecordBatch) -> None:
    """Refuse texts that are not UTF-8: Arrow takes such bytes, and Python cannot read them."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise errors.DataError(
                f"the column {name!r} holds bytes that are not UTF-8 text",
                remedy="repair it where it is read: with make_valid_utf8(...) on Spark, or read it "
                "as binary and decode it",
            ) from None

"""Every function of the catalogue at the edges of every type, and the machines that evaluate it.

`TABLE` holds three columns per kind of value, arranged so that two columns of any kinds meet in all
combinations of their edges. `expressions()` writes each entry of the catalogue over all kinds it
may be given, so that a new entry is asked without being listed here; entries whose text is not
`name(a, b)` have it in `TEXTS`. An answer is ("value", x), or ("error", kind).

The machines are asked for the value of an expression itself, not for matches of a pattern: the code
comes from the compilers the engines use, and is run row by row.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.guard_operators import TooHardError
from ensue.automaton.guards import _Compiler
from ensue.automaton.register_code import Code
from ensue.automaton.registers import FIELD, Arc, Field, Machine
from ensue.evaluate.arrow_kinds import from_arrow
from ensue.evaluate.columns import Rows, evaluate
from ensue.evaluate.guard_banks import load_banks
from ensue.evaluate.quantify.assemble import Assembly, NotNumericError, bits_of, require_number
from ensue.evaluate.quantify.model import Operation
from ensue.evaluate.values import compile_value
from ensue.front.expressions import Scope, parse_condition
from ensue.kernels import guards as vm
from ensue.kernels import quantify_code as opcodes
from ensue.kernels.revision_quick import run_quick
from ensue.kernels.revision_steps import run_arc
from ensue.pattern import condition as c
from ensue.pattern import kinds as k
from ensue.pattern.functions import CATALOGUE, FORMS
from ensue.pattern.infer import infer

UTC = dt.UTC
NAN, INF = math.nan, math.inf
MIN64, MAX64 = -(2**63), 2**63 - 1
LARGEST = 1.7976931348623157e308


def _whole(bits: int) -> list[int | None]:
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0, 1, -(2 ** (bits - 1)) + 1, None, 7]


def _moments(zone: dt.tzinfo | None) -> list[Any]:
    texts = (
        "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "1970-01-01T00:00:00",
        "1969-12-31T23:59:59.999999", "2020-02-29T12:34:56.789012", "1582-10-15T00:00:00",
    )  # fmt: skip
    return [*(dt.datetime.fromisoformat(text).replace(tzinfo=zone) for text in texts), None]


def _digits(precision: int, scale: int) -> list[Any]:
    last = Decimal(1).scaleb(-scale)
    most = Decimal((0, (9,) * precision, -scale))
    return [most, most.copy_negate(), Decimal(0), last, -last, None]


EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), _whole(8)),
    "i16": (pa.int16(), _whole(16)),
    "i32": (pa.int32(), _whole(32)),
    "i64": (pa.int64(), [*_whole(64), 2**53 + 1, -(2**31), 2**60 + 2**36 + 1]),
    "f32": (
        pa.float32(),
        [0.0, -0.0, INF, -INF, NAN, 1.401298464324817e-45, 3.4028234663852886e38, -1.5, None, 1.0],
    ),
    "f64": (
        pa.float64(),
        [0.0, -0.0, INF, -INF, NAN, 5e-324, LARGEST, -LARGEST, 2.5, -(2.0**63), None, 1.0],
    ),
    "d9": (pa.decimal128(9, 2), _digits(9, 2)),
    "d38": (pa.decimal128(38, 0), [*_digits(38, 0), Decimal(2**63)]),
    "d38f": (pa.decimal128(38, 38), _digits(38, 38)),
    "d38m": (pa.decimal128(38, 18), _digits(38, 18)),
    "flag": (pa.bool_(), [True, False, None]),
    "text": (
        pa.string(),
        ["", " ", "  aB ", "Straße", "😀é", "%", "_a", "İı", "ΑΣ", None, "a\\b", "true"],
    ),
    "num": (
        pa.string(),
        ["0", "-1", "9223372036854775807", "128", " 1 ", "1e400", "NaN", "-0", "", None, "1.5"],
    ),
    "date": (
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31),
         dt.date(2020, 2, 29), dt.date(1582, 10, 15), None],
    ),
    "ts": (pa.timestamp("us", "UTC"), _moments(UTC)),
    "ntz": (pa.timestamp("us"), _moments(None)),
    "span": (
        pa.duration("us"),
        [dt.timedelta(microseconds=n) for n in (MAX64, MIN64, 0, 1, -1, 86_400_000_000)] + [None],
    ),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"a", None]),
    "ints": (pa.list_(pa.int32()), [[], [-(2**31), 2**31 - 1], [None], [0, None, 1], None]),
    "reals": (pa.list_(pa.float64()), [[], [NAN, -0.0], [0.0], [INF, None], None]),
}  # fmt: skip
SIDES, WIDE = "abc", 12


def _table() -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array(range(WIDE * WIDE), pa.int32())}
    for name, (kind, edges) in EDGES.items():
        for side in SIDES:
            rows = range(WIDE * WIDE)
            place = {
                "a": [row // WIDE for row in rows],
                "b": [row % WIDE for row in rows],
                "c": [row * 5 + row // WIDE for row in rows],
            }[side]
            values = [edges[p % len(edges)] for p in place]
            if pa.types.is_duration(kind):
                # Arrow takes the longest of Python's spans for one too long.
                micros = [v if v is None else v // dt.timedelta(microseconds=1) for v in values]
                columns[f"{name}_{side}"] = pa.array(micros, pa.int64()).cast(kind)
            else:
                columns[f"{name}_{side}"] = pa.array(values, kind)
    return pa.table(columns)


TABLE = _table()
KINDS = {f.name: from_arrow(f.type) for f in TABLE.schema}

_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
          "date", "timestamp", "timestamp_ntz", "decimal(9,2)", "decimal(38,0)", "decimal(38,38)",
          "decimal(3,3)")  # fmt: skip
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FEW = "least(greatest({b}, -1), 30)"  # a text of 2**31 letters is no test
TEXTS: dict[str, tuple[str, ...]] = {
    "eq": ("{a} = {b}",),
    "neq": ("{a} <> {b}",),
    "lt": ("{a} < {b}",),
    "lte": ("{a} <= {b}",),
    "gt": ("{a} > {b}",),
    "gte": ("{a} >= {b}",),
    "nullsafeeq": ("{a} <=> {b}",),
    "add": ("{a} + {b}", "{a} + 1", "1 + {a}"),
    "sub": ("{a} - {b}", "1 - {a}"),
    "mul": ("{a} * {b}", "{a} * -1"),
    "div": ("{a} / {b}", "1 / {a}"),
    "mod": ("{a} % {b}", "{a} % -1", "{a} % 3"),
    "intdiv": ("{a} div {b}", "{a} div -1", "1 div {a}"),
    "neg": ("-{a}",),
    "like": ("{a} LIKE {b}", "{a} LIKE 'a%'", "{a} LIKE '_a%'"),
    "ilike": ("{a} ILIKE {b}", "{a} ILIKE 'A%'"),
    "rlike": ("{a} RLIKE 'a|B'",),
    "split": ("split({a}, 'a')", "split({a}, '', 2)"),
    "round": ("round({a})", "round({a}, 1)", "round({a}, -1)", "round({a}, -18)"),
    "lpad": (f"lpad({{a}}, {_FEW})", f"lpad({{a}}, {_FEW}, {{c}})"),
    "rpad": (f"rpad({{a}}, {_FEW})", f"rpad({{a}}, {_FEW}, {{c}})"),
    "repeat": ("repeat({a}, least(greatest({b}, -1), 3))",),
    "date_trunc": tuple(f"date_trunc('{unit}', {{a}})" for unit in _UNITS),
    "trunc": tuple(f"trunc({{a}}, '{unit}')" for unit in _UNITS[:4]),
    "element": ("{a}[{b}]", "{a}[0]"),
    "and": ("{a} AND {b}", "{a} = {b} AND 1 / {b} > 0"),
    "or": ("{a} OR {b}", "{a} <> {b} OR 1 / {b} > 0"),
    "not": ("NOT {a}",),
    "is": ("{a} IS NULL", "{a} IS NOT NULL", "{a} IS TRUE", "{a} IS NOT FALSE"),
    "between": ("{a} BETWEEN {b} AND {c}", "{a} BETWEEN {b} AND 1 / {b}"),
    "in": ("{a} IN ({b}, {c})", "{a} IN (1, {b}, NULL)", "{a} IN ({b}, 1 / {b})"),
    "case": (
        "CASE WHEN {a} = {b} THEN {a} ELSE {b} END",
        "CASE {a} WHEN {b} THEN {c} END",
        "CASE WHEN {b} <> 0 THEN {a} % {b} ELSE {a} END",
    ),
    "if": ("if({a} > {b}, {a}, {b})",),
    "coalesce": ("coalesce({a}, {b}, {c})", "coalesce({a}, 1 / {b})"),
    "nvl2": ("nvl2({a}, {b}, {c})",),
    "nullif": ("nullif({a}, {b})",),
    "cast": tuple(f"CAST({{a}} AS {kind})" for kind in _TYPES),
    "trycast": tuple(f"TRY_CAST({{a}} AS {kind})" for kind in _TYPES),
    "interval": (
        "{a} + INTERVAL '1' DAY",
        "{a} - INTERVAL '1' MICROSECOND",
        "{a} + INTERVAL '1' MONTH",
        "{a} = INTERVAL '1' DAY",
    ),
}


def texts_of(name: str) -> tuple[str, ...]:
    """How an entry is written over the sides a, b and c."""
    if name in TEXTS or name not in CATALOGUE:
        return TEXTS.get(name, (f"{name}({{a}})",))
    entry = CATALOGUE[name]
    most = min(3, entry.least + 1 if entry.most is None else entry.most)
    counts = range(entry.least, most + 1)
    return tuple(
        f"{name}({', '.join('{' + side + '}' for side in SIDES[:count])})" for count in counts
    )


def expressions(name: str) -> Iterator[str]:
    """An entry over all kinds that its first two arguments may have; the third has one of them."""
    for text in texts_of(name):
        sides = [side for side in SIDES if f"{{{side}}}" in text]
        kinds = [list(EDGES)] * min(2, len(sides))
        for chosen in itertools.product(*kinds):
            names = {side: f"{chosen[min(i, 1)]}_{side}" for i, side in enumerate(sides)}
            yield text.format(**names)
            if len(sides) == 3 and chosen[0] != chosen[1]:
                yield text.format(**{**names, sides[2]: f"{chosen[0]}_{sides[2]}"})


def sample(name: str, most: int, rows: int | None) -> list[Asked]:
    """At most so many of an entry's expressions: each kind with itself, then spread ones."""
    listed = list(expressions(name))
    alike = [text for text in listed if len(set(_kinds_in(text))) == 1]
    spread = [listed[place * 7919 % len(listed)] for place in range(len(listed))]
    found = []
    for text in dict.fromkeys([*alike, *spread]):
        case = asked(text, rows)
        if case is not None:
            found.append(case)
        if len(found) == most:
            break
    return found


def _kinds_in(text: str) -> list[str]:
    return [kind for kind, _ in re.findall(r"\b([a-z]+[0-9]*[a-z]?)_([abc])\b", text)]


Answer = tuple[str, Any]


@dataclass(frozen=True)
class Asked:
    """An expression that has types here, and the rows it is asked on."""

    text: str
    condition: c.Condition
    kind: k.Kind
    names: tuple[str, ...]
    rows: tuple[int, ...]


def asked(text: str, rows: int | None = None) -> Asked | None:
    """None where the expression is refused by name. `rows`: so many of them, spread."""
    parsed = parse_condition(text, Scope())
    condition = c.transform(parsed, lambda n: n.argument if isinstance(n, c.Navigate) else None)
    try:
        kind = infer(condition, kind_of)
    except (errors.ColumnTypeError, errors.UnsupportedError):
        return None
    names = tuple(dict.fromkeys(c.columns(condition)))
    seen: dict[Any, int] = {}
    for row in range(TABLE.num_rows):
        seen.setdefault(tuple(repr(COLUMNS[name][row]) for name in names), row)
    chosen = sorted(seen.values())
    if rows is not None and len(chosen) > rows:
        start = sum(map(ord, text)) % len(chosen)
        step = next(s for s in range(len(chosen) // 2 + 1, 0, -1) if math.gcd(s, len(chosen)) == 1)
        chosen = sorted(chosen[(start + step * i) % len(chosen)] for i in range(rows))
    return Asked(text, condition, kind, names, tuple(chosen))


COLUMNS = {name: TABLE[name].to_pylist() for name in TABLE.column_names}


def column_of(leaf: c.Condition) -> str:
    assert isinstance(leaf, c.Column)
    return leaf.name


def kind_of(leaf: c.Condition) -> k.Kind:
    return KINDS[column_of(leaf)]


def answer(function: Callable[[], Any]) -> Answer:
    try:
        return "value", function()
    except errors.OverflowDataError as problem:
        return "error", ("overflow", problem.problem)
    except errors.DataError as problem:
        return "error", ("other", problem.problem)


# -- the evaluators ------------------------------------------------------------------------------


def by_values(case: Asked) -> list[Answer]:
    compiled = compile_value(case.condition, kind_of)

    def one(row: int) -> Any:
        return compiled(lambda leaf: COLUMNS[column_of(leaf)][row])

    return [answer(lambda row=row: one(row)) for row in case.rows]


def by_columns(case: Asked, expected: list[Answer]) -> list[Answer]:
    """Rows expected to raise are asked one by one, the others together."""
    found: dict[int, Answer] = {}
    fine = [row for row, (what, _) in zip(case.rows, expected, strict=True) if what == "value"]
    try:
        column = _over(case, fine)
        found = {row: ("value", x) for row, x in zip(fine, _listed(column), strict=True)}
    except errors.DataError:
        pass
    for row in case.rows:
        if row not in found:
            found[row] = answer(lambda row=row: _listed(_over(case, [row, row]))[0])
    return [found[row] for row in case.rows]


def _over(case: Asked, rows: list[int]) -> pa.Array:
    taken = TABLE.select(list(case.names)).take(pa.array(rows, pa.int64()))
    return evaluate(case.condition, Rows({n: taken[n].combine_chunks() for n in case.names},
                                         len(rows), zone="UTC"))  # fmt: skip


def _listed(column: pa.Array) -> list[Any]:
    found = []
    for value in column:
        try:
            found.append(value.as_py())
        except (OverflowError, ValueError):
            found.append(FAR)
    return found


FAR = "a time outside the years 1 to 9999"


class _Rows(_Compiler):
    """Guards over the columns of a row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(None, {name: KINDS[name] for name in names})  # type: ignore[arg-type]

    def finished(self, case: Asked) -> Any:
        value = self._condition(case.condition)
        self._plan = _NoPlan()  # type: ignore[assignment]
        return value, self._finish([0, len(self._code)])


class _NoProgram:
    labels: tuple[str, ...] = ()
    states = 0


class _NoPlan:
    program = _NoProgram()


_HANDED_OVER = ("error", ("overflow", "handed over"))


def by_guards(case: Asked) -> list[Answer] | str:
    """The register machine; the reason where it does not hold the expression."""
    try:
        value, guards = _Rows(case.names).finished(case)
    except TooHardError as problem:
        return str(problem)
    found: list[Answer] = []
    for row in case.rows:
        columns = {name: TABLE[name].combine_chunks().slice(row, 1) for name in case.names}
        banks = load_banks(guards, columns, 1)
        if banks is None:
            found.append(_HANDED_OVER)
            continue
        cells = guards.cells + value.cell + 200
        ints, floats, nulls = np.zeros(cells, np.int64), np.zeros(cells), np.zeros(cells, np.bool_)
        none = np.zeros(1, np.int64)
        status = vm.run_guard(
            guards.code, 0, len(guards.code), 0, 0, 0, 1, 1, none, np.zeros(1), banks.ints,
            banks.floats, banks.int_nulls, banks.float_nulls, banks.int_constants,
            guards.float_constants, ints, floats, nulls,
        )  # fmt: skip
        texts = _texts(guards, columns)
        number = floats[value.cell] if value.floating else ints[value.cell]
        found.append(_read(status, number, bool(nulls[value.cell]), value.kind, texts))
    return found


def _texts(guards: Any, columns: Any) -> list[str]:
    found = [v for name in guards.text_inputs for v in columns[name].to_pylist() if v is not None]
    return sorted({*found, *guards.literals}, key=lambda text: text.encode())


def _read(status: int, number: Any, null: bool, kind: k.Kind, texts: list[str]) -> Answer:
    if status == vm.OVERFLOW:
        return _HANDED_OVER
    if status == vm.BY_ZERO:
        return "error", ("other", "division by zero")
    if null:
        return "value", None
    match kind.name:
        case "float":
            return "value", float(number)
        case "boolean":
            return "value", bool(number)
        case "int":
            return "value", int(number)
        case "decimal":
            return "value", Decimal(int(number)).scaleb(-kind.scale)
        case "string":
            return "value", texts[int(number)]
        case "interval":
            return "value", dt.timedelta(microseconds=int(number))
        case "date":
            try:
                return "value", dt.date(1970, 1, 1) + dt.timedelta(days=int(number))
            except OverflowError:
                return "value", FAR
        case "timestamp":
            zone = UTC if kind.zoned else None
            try:
                start = dt.datetime(1970, 1, 1, tzinfo=zone)
                return "value", start + dt.timedelta(microseconds=int(number))
            except OverflowError:
                return "value", FAR
        case _:
            return "value", None


def by_quantify(case: Asked) -> list[Answer] | str:
    kinds = [KINDS[name] for name in case.names]
    assembly = Assembly()
    cells = [assembly._cell(0, opcodes.NULL) for _ in case.names]
    try:
        for kind in (*kinds, case.kind):
            require_number(kind)
        begin, end = assembly._operation(
            Operation(case.names, case.condition), list(kinds), list(cells), case.kind
        )
    except NotNumericError as problem:
        return str(problem)
    code = np.array(assembly._code, np.int64).reshape(-1, 2)
    found = []
    for row in case.rows:
        bits = np.array([cell for cell, _ in assembly._cells], np.int64)
        marks = np.array([mark for _, mark in assembly._cells], np.uint8)
        for cell, name, kind in zip(cells, case.names, kinds, strict=True):
            bits[cell], marks[cell] = bits_of(COLUMNS[name][row], kind)
        ints, stack = np.zeros(64, np.int64), np.zeros(64, np.uint8)
        opcodes.run_code(code, begin, end, bits, marks, ints, ints.view(np.float64), stack)
        status = {opcodes.OVERFLOW: vm.OVERFLOW, opcodes.BY_ZERO: vm.BY_ZERO}.get(int(stack[0]), 1)
        number = ints.view(np.float64)[0] if case.kind.name == "float" else ints[0]
        found.append(_read(status, number, bool(stack[0] == opcodes.NULL), case.kind, []))
    return found


def by_arcs(case: Asked) -> list[Answer] | str:
    """The transfer of an AFA's arc over its register; short ones run in the quick machine."""
    fields = tuple(Field(name, KINDS[name]) for name in case.names)
    machine = Machine((*fields, Field("out", case.kind)), starts=("q",))

    def into_register(node: c.Condition) -> c.Condition | None:
        return c.Column(FIELD + node.name) if isinstance(node, c.Column) else None

    moved = c.transform(case.condition, into_register)
    code = Code(machine, {})
    compiled = code.compiled(Arc("q", "q", set=(("out", moved),)))
    if compiled.slow is not None:
        return compiled.slow
    lines = np.array(code.code, np.int64).reshape(-1, 4)
    found = []
    for row in case.rows:
        cells, nulls = np.zeros(code.cells, np.int64), np.zeros(code.cells, np.bool_)
        for cell, bits in code._filled.items():
            cells[cell] = bits
        for place, name in enumerate(case.names):
            value = COLUMNS[name][row]
            nulls[place] = value is None
            if value is not None:
                cells[place] = _bits(code, value, KINDS[name])
        floats = cells.view(np.float64)
        if code.is_quick(compiled):
            status = _quick(lines, compiled.begin, compiled.end, cells, floats, nulls)
        else:
            status = run_arc(
                0, 0, lines, compiled.begin, compiled.end, cells, floats, nulls,
                np.zeros((1, 1), np.int64), np.zeros((1, 1)), np.zeros((1, 1), np.bool_),
            )  # fmt: skip
        out = compiled.outputs[-1]
        number = floats[out] if case.kind.name == "float" else cells[out]
        found.append(_read(status, number, bool(nulls[out]), case.kind, code.texts.values))
    return found


def _bits(code: Code, value: Any, kind: k.Kind) -> int:
    return (
        value // dt.timedelta(microseconds=1)
        if kind.name == "interval"
        else code.encoded(value, kind)
    )


_compiled_quick: list[Any] = []


def _quick(*given: Any) -> int:
    """The quick machine is written into its callers; here it has one of its own."""
    if not _compiled_quick:
        from numba import njit

        @njit
        def run(code, begin, end, cells, floats, nulls):  # type: ignore[no-untyped-def]
            return run_quick(code, begin, end, cells, floats, nulls)

        _compiled_quick.append(run)
    status: int = _compiled_quick[0](*given)
    return status


# -- agreement -----------------------------------------------------------------------------------


def same(ours: Any, theirs: Any, exact: bool = True) -> bool:
    """Equal in type, value and the sign of zero; NaN equals NaN."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs, [exact] * len(ours)))
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        if ours == theirs:
            return math.copysign(1, ours) == math.copysign(1, theirs)
        return not exact and math.isclose(ours, theirs, rel_tol=1e-14)
    return type(ours) is type(theirs) and bool(ours == theirs)


def agree(ours: Answer, theirs: Answer, exact: bool = True) -> bool:
    """Errors agree in being overflows or not."""
    if ours[0] != theirs[0]:
        return False
    return ours[1][0] == theirs[1][0] if ours[0] == "error" else same(ours[1], theirs[1], exact)


def may_hand_over(case: Asked, found: Answer) -> bool:
    """A decimal beyond 64 bits is no error: the engine asks plain values instead."""
    return found == _HANDED_OVER and any(KINDS[name].name == "decimal" for name in case.names)


def beyond_python(ours: Answer, theirs: Answer) -> bool:
    """Plain values refuse times outside the years 1 to 9999, as docs/functions.md says."""
    return ours == ("value", FAR) and theirs[0] == "error" and theirs[1][0] == "overflow"


ENTRIES = (*CATALOGUE, *FORMS)

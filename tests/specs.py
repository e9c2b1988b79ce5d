"""Spec cases: pattern + events -> what comes out, as data that every runner runs.

A file of `tests/spec` is a list of `[[case]]` tables:

    name, rule          what it shows; the numbered rule of the semantics (a name, or "row 3")
    events = "ABBCD"    one row per letter: `id` 0, 1, ... and `kind` the letter; blanks ignored
    columns = {x = "1 null 3"}      further columns beside `events`
    table = '''...'''   instead of `events`: a text table, see below
    pattern, define = {A = "x > 1"}, subset = {U = "A B"}, measures = {n = "COUNT(*)"}
                        without `measures`, the plain listing of the matches
    types = "kind"      a label means kind = 'label', and `define` adds to it; this is so where
                        `events` is given and no label may say otherwise: `types = ""`
    partition_by = "p", order_by = "t DESC NULLS LAST, id"    `id` where there is an `id`
    rows = "one" | "all" | "all omit empty" | "all with unmatched"
    skip = "past last row" | "to next row" | "to first B" | "to last B" | "to B"
    within = 5 | "10 rows" | "1 hour"
    names = "sql"       unquoted labels fold to upper case, as SQL's do (otherwise they stay)

and one expectation:

    matches = ["ABB@0", "-", "C@3"]   the labels of each match and its first row; "-" is empty;
                                      longer labels are separated by blanks
    expect = '''...'''                the output as a text table, order of the columns included
    error = "SkipTargetError"         the class of the error, when the query is read or when it runs

A text table has a header and one line per row, cells separated by `|`:

    id | kind | x:double | t
    0  | a    | null     | 2024-01-01 00:00:05

Cells are null, true, false, numbers, timestamps, [1, 2] lists, else text ('...' where it looks
like something else). A column's type follows from its cells; `name:type` says it.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ensue.front.expressions import Scope, parse_condition
from ensue.front.grammar import parse_pattern
from ensue.query import condition as c
from ensue.query import nodes, rules
from ensue.query.duration import parse_duration
from ensue.query.query import Measure, OrderKey, Query, Rows, Skip, SkipMode, Window, WindowKind

FOLDER = Path(__file__).parent / "spec"
_ROWS = {
    "one": Rows.ONE,
    "all": Rows.ALL_SHOW_EMPTY,
    "all omit empty": Rows.ALL_OMIT_EMPTY,
    "all with unmatched": Rows.ALL_WITH_UNMATCHED,
}
_TYPES = {
    "int": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us"),
}
_QUERY_KEYS = {"pattern", "define", "subset", "measures", "types", "partition_by", "order_by"}
_OUTPUT_KEYS = {"rows", "skip", "within", "names", "matches", "expect", "error"}
_KEYS = {"name", "rule", "events", "columns", "table"} | _QUERY_KEYS | _OUTPUT_KEYS
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One case; the query is read on demand, since reading it may be what must fail."""

    file: str
    data: dict[str, Any]

    def __post_init__(self) -> None:
        unknown = set(self.data) - _KEYS
        assert not unknown, f"{self}: unknown keys {unknown}"

    def __str__(self) -> str:
        return f"{self.file}: {self.data['name']}"

    @property
    def error(self) -> str | None:
        return self.data.get("error")

    @property
    def table(self) -> pa.Table:
        """The input, in the order written."""
        if "events" not in self.data:
            return read_table(self.data["table"])
        kinds = "".join(self.data["events"].split())
        columns: dict[str, pa.Array] = {
            "id": pa.array(range(len(kinds)), pa.int64()),
            "kind": pa.array(list(kinds), pa.string()),
        }
        for heading, text in self.data.get("columns", {}).items():
            name, _, kind = heading.partition(":")
            columns[name] = _array([_cell(cell) for cell in text.split()], kind)
        return pa.table(columns)

    @property
    def input(self) -> list[Row]:
        return self.table.to_pylist()

    def query(self) -> Query:
        return rules.check(self._query())

    def _query(self) -> Query:
        data, fold = self.data, self.data.get("names") == "sql"

        def variable(text: str) -> str:
            if text.startswith('"'):
                return text.strip('"')
            return text.upper() if fold else text

        pattern = parse_pattern(data["pattern"], fold=fold, arrows=False)
        labels = nodes.labels(pattern)
        subsets = tuple(
            (variable(name), tuple(variable(member) for member in members.split()))
            for name, members in data.get("subset", {}).items()
        )
        variables = (*labels, *(name for name, _ in subsets))

        def condition(text: str, where: str, define: bool) -> c.Condition:
            return parse_condition(text, Scope(variables, where, define, fold))

        define = {
            variable(name): condition(text, f"DEFINE {name}", True)
            for name, text in data.get("define", {}).items()
        }
        types = data.get("types", "kind" if "events" in data else "")
        if types:
            for label in labels:
                kind = condition(f"{types} = '{label}'", f"DEFINE {label}", True)
                define[label] = c.conjunction([kind, define.get(label, c.TRUE)])
        measures = None
        if "measures" in data:
            measures = tuple(
                Measure(name, condition(text, f"measure {name}", False))
                for name, text in data["measures"].items()
            )
        order_by = data.get("order_by", "id" if "id" in self.table.column_names else "")
        return Query(
            pattern=pattern,
            define=tuple(define.items()),
            subsets=subsets,
            partition_by=tuple(data.get("partition_by", "").split()),
            order_by=tuple(_order_key(text) for text in order_by.split(",") if text),
            measures=measures,
            rows=_ROWS[data.get("rows", "one")],
            skip=_skip(data.get("skip", "past last row"), variable),
            within=_window(data.get("within")),
        )

    def expected(self) -> tuple[list[str], list[Row]]:
        """The columns and rows of the output; in no order of the rows."""
        if "expect" in self.data:
            table = read_table(self.data["expect"])
            return table.column_names, table.to_pylist()
        listed = [self._listed(n, text) for n, text in enumerate(self.data["matches"], 1)]
        return ["match_number", "first", "last", "events"], listed

    def _listed(self, number: int, text: str) -> Row:
        if text == "-":
            return {"match_number": number, "first": None, "last": None, "events": []}
        spelt, _, at = text.partition("@")
        start = int(at)
        labels = spelt.split() if " " in spelt else list(spelt)
        order = self.query().order_by[0].column
        values = [row[order] for row in self.input]  # cases with `matches` are written in order
        return {
            "match_number": number,
            "first": values[start],
            "last": values[start + len(labels) - 1],
            "events": [{"label": label, "row": row} for row, label in enumerate(labels, start)],
        }


@cache
def cases() -> tuple[Case, ...]:
    """All cases of all files."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        for data in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            found.append(Case(path.stem, data))
            expectations = data.keys() & {"matches", "expect", "error"}
            assert len(expectations) == 1, f"{found[-1]}: one expectation, not {expectations}"
    names = [str(case) for case in found]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"cases of one name: {repeated}"
    return tuple(found)


def check(case: Case, run: Callable[[Query, pa.Table], tuple[list[str], list[Row]]]) -> None:
    """Asserts that `run`, which gives columns and rows, does what the case expects."""
    if case.error is not None:
        try:
            got: Any = run(case.query(), case.table)
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            assert case.error in names, f"{case}: expected {case.error}, got {error!r}"
            return
        raise AssertionError(f"{case}: expected {case.error}, got {got}")
    columns, rows = run(case.query(), case.table)
    expected_columns, expected_rows = case.expected()
    assert columns == expected_columns, f"{case}: columns"
    got, wanted = comparable(case.query(), rows), comparable(case.query(), expected_rows)
    assert got == wanted, "\n".join([f"{case}: got", *got, "expected", *wanted])


# -- comparing ------------------------------------------------------------------------------------


def comparable(query: Query, rows: Iterable[Row]) -> list[str]:
    """Rows as sorted text: equal for equal multisets of rows, and a readable difference if not."""
    sets = {
        measure.name
        for measure in query.measures or ()
        for node in c.walk(measure.value)
        if isinstance(node, c.Aggregate) and node.function == "collect_set"
    }
    return sorted(
        " | ".join(f"{name}={_plain(value, name in sets)}" for name, value in row.items())
        for row in rows
    )


def _plain(value: Any, as_set: bool = False) -> str:
    """1, 1.0 and Decimal(1) are one value here; the types of columns have tests of their own."""
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        return "[" + ", ".join(sorted(items) if as_set else items) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, (int, float, Decimal)):
        number = float(value)
        if math.isnan(number):
            return "nan"
        return str(int(value)) if number == int(number) else f"{number:.9g}"
    return repr(value) if isinstance(value, str) else str(value)


# -- reading the pieces of a case -----------------------------------------------------------------


def read_table(text: str) -> pa.Table:
    header, *lines = [line for line in text.strip().splitlines() if line.strip()]
    names = [name.strip().partition(":") for name in header.split("|")]
    rows = [[_cell(cell.strip()) for cell in line.split("|")] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert len(row) == len(names), f"{len(names)} columns, but the line is {line!r}"
    return pa.table(
        {name: _array([row[i] for row in rows], kind) for i, (name, _, kind) in enumerate(names)}
    )


def _array(values: list[Any], kind: str) -> pa.Array:
    if kind:
        return pa.array(values, _TYPES[kind])
    if all(value is None for value in values):
        return pa.array(values, pa.int64())
    array = pa.array(values)
    return array.cast(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array


def _cell(text: str) -> Any:
    if text in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[text]
    if text[:1] in "[" and text:
        return json.loads(text.replace("'", '"'))
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if text == "nan" or re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    if re.fullmatch(r"\d{4}-\d\d-\d\d( [\d:.]+)?", text):
        return datetime.fromisoformat(text)
    return text


def _order_key(text: str) -> OrderKey:
    column, *words = text.split()
    words = [word.upper() for word in words]
    nulls_first = words[-1] == "FIRST" if "NULLS" in words else None
    return OrderKey.of(column, "DESC" in words, nulls_first)


def _skip(text: str, variable: Callable[[str], str]) -> Skip:
    words = text.split()
    match [word.lower() for word in words]:
        case ["past", "last", "row"]:
            return Skip(SkipMode.PAST_LAST_ROW)
        case ["to", "next", "row"]:
            return Skip(SkipMode.TO_NEXT_ROW)
        case ["to", "first", _]:
            return Skip(SkipMode.TO_FIRST, variable(words[-1]))
        case ["to", "last", _] | ["to", _]:
            return Skip(SkipMode.TO_LAST, variable(words[-1]))
    raise AssertionError(f"skip = {text!r}")


def _window(value: int | float | str | None) -> Window | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return Window(WindowKind.NUMBER, value)
    if value.endswith(" rows"):
        return Window(WindowKind.ROWS, int(value.split()[0]))
    return Window(WindowKind.TIME, parse_duration(value))

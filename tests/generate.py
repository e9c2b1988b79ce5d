"""Patterns, streams, queries and tables for the tests that compare an engine with the oracle.

Two kinds: everything up to a size (`small_patterns` x `short_streams`), and random, larger ones
for Hypothesis (`query_texts`, `tables`). The random ones are written as spec cases, so that a
counterexample can be pasted into `tests/spec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from ensue.front.expressions import Scope, parse_condition
from ensue.query import nodes
from ensue.query.query import Measure, OrderKey, Query, Rows, Skip, SkipMode
from tests.specs import Case

# -- everything up to a size ----------------------------------------------------------------------

QUANTIFIERS = ((0, None), (1, None), (0, 1), (2, 2), (1, 2))


@cache
def small_patterns(size: int) -> tuple[nodes.Node, ...]:
    """All patterns of exactly `size` nodes over A and B: 5, 55, 680, 9130, ..."""
    if size == 1:
        return (
            nodes.Label("A"),
            nodes.Label("B"),
            nodes.Empty(),
            nodes.AnchorStart(),
            nodes.AnchorEnd(),
        )
    return tuple(_larger(size))


def _larger(size: int) -> Iterator[nodes.Node]:
    for part in small_patterns(size - 1):
        for least, most in QUANTIFIERS:
            yield nodes.Repetition(part, least, most, greedy=True)
            yield nodes.Repetition(part, least, most, greedy=False)
        yield nodes.Exclusion(part)
    for left_size in range(1, size - 1):
        sides = (small_patterns(left_size), small_patterns(size - 1 - left_size))
        for left, right in product(*sides):
            yield nodes.concatenate([left, right])
            yield nodes.Alternation((left, right))
            yield nodes.Permutation((left, right))


def short_streams(length: int, letters: str = "ab") -> list[str]:
    """All texts of 1 to `length` letters."""
    return ["".join(text) for n in range(1, length + 1) for text in product(letters, repeat=n)]


def stream_table(streams: list[str]) -> pa.Table:
    """One partition per stream: `stream`, `id` and `kind`; `x` is 0, 1, 2 by position."""
    rows = [(s, i, letter) for s, text in enumerate(streams) for i, letter in enumerate(text)]
    return pa.table(
        {
            "stream": pa.array([row[0] for row in rows], pa.int64()),
            "id": pa.array([row[1] for row in rows], pa.int64()),
            "kind": pa.array([row[2] for row in rows], pa.string()),
            "x": pa.array([row[1] % 3 for row in rows], pa.int64()),
        }
    )


# Which rows a label may take: A and B never the same; B any row; what depends on the match so far.
DEFINITIONS = {
    "disjoint": {"A": "kind = 'a'", "B": "kind = 'b'"},
    "overlap": {"A": "kind = 'a'"},
    "neighbour": {"A": "kind = 'a'", "B": "kind <> PREV(kind) OR NEXT(kind) = 'b'"},
    "correlated": {"A": "kind = 'a' OR COUNT(A.*) = 2", "B": "x >= COALESCE(LAST(A.x), 0)"},
}


def stream_query(
    pattern: nodes.Node,
    definitions: str,
    skip: SkipMode = SkipMode.TO_NEXT_ROW,
    all_rows: bool = False,
) -> Query:
    """A query over a `stream_table`: the plain listing, or all rows with their labels."""
    labels = nodes.labels(pattern)
    define = tuple(
        (label, parse_condition(text, Scope(("A", "B"), f"DEFINE {label}", True)))
        for label, text in DEFINITIONS[definitions].items()
        if label in labels
    )
    shown: dict[str, Any] = {}
    if all_rows:
        texts = {"mn": "MATCH_NUMBER()", "label": "CLASSIFIER()", "n": "COUNT(*)"}
        measures = (Measure(name, parse_condition(text, Scope())) for name, text in texts.items())
        shown = {"measures": tuple(measures), "rows": Rows.ALL_SHOW_EMPTY}
    return Query(
        pattern=pattern,
        define=define,
        partition_by=("stream",),
        order_by=(OrderKey("id"),),
        skip=Skip(skip),
        **shown,
    )


# -- random ----------------------------------------------------------------------------------------

_LABELS = ("A", "B", "C")
_OPERATORS = ("<", "<=", ">", ">=", "=", "<>")
_ROW_CONDITIONS = (
    "x {op} {k}",
    "y {op} {k}",
    "x {op} y",
    "kind = '{letter}'",
    "kind <> '{letter}'",
    "x IS NULL",
    "y IS NOT NULL",
    "x BETWEEN {k} AND 3",
    "x IN ({k}, 3)",
    "COALESCE(x, 1) {op} y",
    "x + y {op} {k}",
    "ABS(x - y) % 2 = 0",
    "CASE WHEN x > 1 THEN y ELSE x END {op} {k}",
    "z {op} 0.5",
    "z {op} x",
    "b",
    "NOT b",
)
_NEIGHBOUR_CONDITIONS = (
    "x {op} PREV(x)",
    "x {op} NEXT(x)",
    "y {op} PREV(x, 2) + {k}",
    "PREV(kind) = '{letter}'",
    "NEXT(kind) <> kind",
    "PREV(x, 2) IS NULL",
    "NEXT(y, 2) {op} {k}",
    "PREV(x + y) {op} x",
    "z {op} PREV(z)",
    "NEXT(b)",
    "kind {op} NEXT(kind)",
)
_MATCH_CONDITIONS = (
    "x {op} LAST({v}.x)",
    "x {op} FIRST({v}.x)",
    "FIRST(x) {op} y",
    "{v}.y {op} {k}",
    "LAST({v}.x, 1) {op} x",
    "FIRST({v}.x, 1) {op} {k}",
    "LAST(x, 2) IS NULL",
    "LAST({v}.x) IS NULL",
    "FIRST({v}.x) + LAST({w}.y) {op} x",
    "COALESCE(LAST({v}.x), 0) {op} y",
    "{v}.x {op} {w}.x",
    "LAST({v}.kind) = kind",
    "z {op} LAST({v}.z)",
    "x {op} FIRST({v}.z)",
    "LAST({v}.b) = b",
    "FIRST(b)",
    "kind {op} FIRST({v}.kind)",
    "ts {op} LAST({v}.ts)",
    "{v}.kind IN ('a', '{letter}')",
    "SUM({v}.z) {op} 1",
    "MAX({v}.z) {op} z",
    "MIN({v}.kind) = kind",
    "COUNT(DISTINCT z) <= 2",
    "AVG(z) {op} {k}",
    "PREV(LAST({v}.x)) {op} x",
    "NEXT(FIRST({v}.y)) {op} {k}",
    "PREV({v}.x, 2) {op} {k}",
    "PREV(CLASSIFIER()) = '{label}'",
    "NEXT(CLASSIFIER()) IS NULL",
    "CLASSIFIER() = '{label}'",
    "CLASSIFIER({v}) = '{label}'",
    "FIRST(CLASSIFIER()) <> '{label}'",
    "MATCH_NUMBER() % 2 = 1",
    "COUNT(*) <= {n}",
    "COUNT({v}.*) < {n}",
    "COUNT({v}.x) {op} {k}",
    "COUNT(DISTINCT x) <= 2",
    "COUNT(*) FILTER (WHERE x > {k}) <= 1",
    "SUM({v}.x) {op} {n}",
    "SUM(x + y) <= 6",
    "AVG({v}.y) {op} x",
    "MIN({v}.x) {op} {k}",
    "MAX(y) - MIN(y) {op} {k}",
    "BOOL_OR({v}.x > {k})",
    "BOOL_AND(y <= {n})",
    "MAX_BY({v}.x, {v}.id) {op} {k}",
)
_MEASURES = (
    "MATCH_NUMBER()",
    "CLASSIFIER()",
    "CLASSIFIER({v})",
    "PREV(CLASSIFIER())",
    "NEXT(CLASSIFIER())",
    "FIRST(CLASSIFIER(), 1)",
    "FINAL LAST(CLASSIFIER())",
    "x",
    "{v}.x",
    "{v}.kind",
    "FIRST({v}.id)",
    "LAST({v}.id, 1)",
    "FINAL LAST({v}.y)",
    "FINAL FIRST({v}.id, 1)",
    "PREV(x)",
    "NEXT(id, 2)",
    "PREV(FIRST({v}.x), 2)",
    "NEXT(LAST({v}.x, 1))",
    "PREV(FINAL LAST({v}.id))",
    "COUNT(*)",
    "FINAL COUNT(*)",
    "COUNT({v}.*)",
    "COUNT({v}.x)",
    "COUNT(DISTINCT {v}.x)",
    "COUNT(*) FILTER (WHERE x > {k})",
    "COUNT_IF({v}.y > {k})",
    "SUM({v}.x)",
    "SUM(DISTINCT y)",
    "FINAL SUM(x) - SUM(x)",
    "AVG({v}.x)",
    "MIN({v}.x)",
    "MAX(y)",
    "FINAL MIN({v}.kind)",
    "{v}.z",
    "FIRST(b)",
    "SUM({v}.z)",
    "AVG(z)",
    "MAX({v}.z)",
    "FINAL MIN(z)",
    "MIN({v}.ts)",
    "MAX(b)",
    "COUNT(DISTINCT {v}.z)",
    "PREV({v}.z)",
    "ARRAY_AGG({v}.kind)",
    "ARRAY_AGG({v}.id)",
    "ARRAY_AGG(CLASSIFIER())",
    "COLLECT_SET({v}.x)",
    "MAX_BY(x, id)",
    "MIN_BY({v}.kind, {v}.id)",
    "BOOL_AND({v}.x > {k})",
    "BOOL_OR(y > {k})",
    "{v}.x + {w}.y",
    "COALESCE(LAST({v}.x), -1)",
    "CASE WHEN COUNT({v}.*) > 1 THEN 'many' ELSE kind END",
    "LAST({v}.x) IS NULL OR LAST({v}.x) {op} x",
)


def pattern_texts() -> st.SearchStrategy[str]:
    """Pattern texts over A, B and C of moderate size."""
    atoms = st.sampled_from((*_LABELS * 5, "()", "^", "$"))
    quantifiers = st.sampled_from(
        tuple(q + r for q in ("*", "+", "?", "{2}", "{1,2}", "{2,}", "{,2}") for r in ("", "?"))
    )

    def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(parts, min_size=2, max_size=3)
        quantified = st.tuples(parts, quantifiers).map(lambda t: f"({t[0]}){t[1]}")
        return st.one_of(
            quantified,
            several.map(lambda found: "(" + " ".join(found) + ")"),
            st.lists(st.one_of(parts, quantified), min_size=2, max_size=4)
            .map(" ".join)
            .map(lambda text: f"({text})"),
            several.map(lambda found: "(" + " | ".join(found) + ")"),
            several.map(lambda found: "PERMUTE(" + ", ".join(found) + ")"),
            st.tuples(atoms, parts).map(lambda t: f"({t[0]} {{- {t[1]} -}})"),
        )

    return st.recursive(atoms, larger, max_leaves=7)


@st.composite
def query_texts(draw: st.DrawFn) -> dict[str, Any]:
    """A row-pattern query over a table of `tables`, as the data of a spec case."""
    pattern = draw(pattern_texts())
    labels = [label for label in _LABELS if label in pattern.replace("PERMUTE", "")]
    data: dict[str, Any] = {"name": "generated", "pattern": pattern}
    variables = list(labels)
    if labels and draw(st.booleans()):
        data["subset"] = {
            "U": " ".join(draw(st.lists(st.sampled_from(labels), min_size=1, unique=True)))
        }
        variables.append("U")

    def filled(template: str) -> str:
        values = {
            "op": draw(st.sampled_from(_OPERATORS)),
            "k": draw(st.integers(0, 3)),
            "n": draw(st.integers(1, 4)),
            "letter": draw(st.sampled_from("abc")),
            "label": draw(st.sampled_from(_LABELS)),
        }
        for name in "vw":
            if "{" + name + "}" in template:
                values[name] = draw(st.sampled_from(variables))
        return template.format(**values)

    def usable(templates: tuple[str, ...]) -> list[str]:
        return [t for t in templates if variables or "{v}" not in t]

    families = [usable(f) for f in (_ROW_CONDITIONS, _NEIGHBOUR_CONDITIONS, _MATCH_CONDITIONS)]

    def condition() -> str:
        text = filled(draw(st.sampled_from(draw(st.sampled_from(families)))))
        shape = draw(st.sampled_from(("one", "one", "one", "not", "and", "or")))
        if shape == "one":
            return text
        if shape == "not":
            return f"NOT ({text})"
        other = filled(draw(st.sampled_from(draw(st.sampled_from(families)))))
        return f"({text}) {shape.upper()} ({other})"

    # Conditions that hold often, so that matches are found.
    data["define"] = {
        label: draw(st.sampled_from(("", "kind <> 'c' OR ", "x IS NULL OR "))) + condition()
        for label in labels
        if draw(st.integers(0, 2))
    }
    rows = ["one", "one", "all", "all omit empty"]
    if "{-" not in pattern:
        rows.append("all with unmatched")
    data["rows"] = draw(st.sampled_from(rows))
    if data["rows"] != "one" or draw(st.integers(0, 3)):
        templates = draw(st.lists(st.sampled_from(usable(_MEASURES)), min_size=1, max_size=5))
        data["measures"] = {f"m{i}": filled(text) for i, text in enumerate(templates)}
    skips = ["past last row", "past last row", "to next row", "to next row"]
    skips += [f"to {end}{v}" for v in variables for end in ("first ", "last ")]
    data["skip"] = draw(st.sampled_from(skips))
    data["partition_by"] = draw(st.sampled_from(("p", "p", "p q", "")))
    orders = ["t", "id", "ts", "u", "u DESC", "u NULLS LAST", "t DESC", "y, t", "kind DESC, id"]
    window = draw(st.sampled_from((None, None, None, "number", "time", "rows")))
    if window == "number":
        data["within"], orders = draw(st.integers(0, 6)), ["t"]
    elif window == "time":
        data["within"], orders = f"{draw(st.integers(0, 6))} s", ["ts"]
    elif window == "rows":
        data["within"] = f"{draw(st.integers(1, 4))} rows"
    data["order_by"] = draw(st.sampled_from(orders))
    return data


@st.composite
def tables(draw: st.DrawFn) -> str:
    """A text table: partitions `p`, `q`; `t`, `ts`, `id`, `u` without ties; the rest with nulls.

    `u` has at most one null, so that it orders the rows without ties as well.
    """
    small = st.sampled_from(("null", 0, 1, 1, 2, 2, 3))
    size = draw(st.sampled_from((8, 10, 9, 7, 6, 5, 4, 2, 1, 0)))
    times = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size, unique=True))
    order = draw(st.permutations(range(size)))
    holes = draw(st.integers(0, 2 * size + 1))
    lines = [
        "p:string | q:int | id:int | t:int | ts:timestamp | u:int | kind:string | x:int | y:int"
        " | z:double | b:boolean"
    ]
    for i, t in enumerate(times):
        p, q = draw(st.sampled_from("uuuuv")), draw(st.sampled_from((1, 1, 1, 1, "null")))
        p = "null" if p == "v" and draw(st.booleans()) else p
        u = "null" if i == holes else order[i] * 2
        kind = draw(st.sampled_from(("a", "a", "b", "b", "c", "null")))
        z = draw(st.sampled_from(("null", 0.0, 0.5, 0.5, 1.0, 2.5, -1.5, "nan")))
        b = draw(st.sampled_from(("true", "false", "null")))
        cells = (p, q, i, t, f"2024-01-01 00:00:{t:02d}", u, kind, draw(small), draw(small), z, b)
        lines.append(" | ".join(map(str, cells)))
    return "\n".join(lines)


def generated_case(query: dict[str, Any], table: str) -> Case:
    return Case("generated", query | {"table": table})

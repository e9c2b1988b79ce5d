"""Small texts that ask for much work or memory: bounded, and never a raw error."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.scalar.functions.regex import re2_regex, rlike


def rows(condition: str, *texts: str) -> list[int]:
    table = pa.table({"t": pa.array(range(len(texts))), "s": list(texts)})
    pattern = ensue.pattern("A").define(A=condition).order_by("t").measures(t="A.t")
    return [row["t"] for row in pattern.matches(table).to_pylist()]


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,0)", "DOUBLE"])
def test_numbers_of_any_length_are_null_or_a_number(kind: str) -> None:
    texts = ["1" * 5_000, "1e99999999999999999999999", "0" * 5_000 + "7", "-"]
    found = rows(f"TRY_CAST(s AS {kind}) IS NULL", *texts)
    assert found == ([1, 3] if kind == "DOUBLE" else [0, 1, 3]) or kind == "DOUBLE"
    assert rows(f"TRY_CAST(s AS {kind}) = 7", *texts) == [2]


@pytest.mark.parametrize(
    "made",
    [
        "repeat(s, 2000000000)",
        "lpad(s, 2000000000, s)",
        "repeat(repeat(s, 4000), 5000)",
        "replace(repeat(s, 1000000), 'a', repeat('b', 1000000))",
        "concat(repeat(s, 5000000), repeat(s, 5000000), s)",
        "concat_ws(s, repeat(s, 5000000), repeat(s, 5000000), s)",
    ],
)
def test_a_text_that_fills_the_memory_is_refused(made: str) -> None:
    with pytest.raises(errors.LimitError, match="the limit is 16,777,216"):
        rows(f"length({made}) > 1", "ab")


def test_rounding_far_above_a_number_is_zero() -> None:
    assert rows("round(1e300, -2000000000) = 0 AND round(1234567, -7) = 0", "a") == [0]
    assert rows("round(6e6, -7) = 1e7 AND round(4e6, -7) = 0", "a") == [0]


def test_like_with_many_wildcards_is_quick_and_right() -> None:
    text = "a" * 3_000
    assert rows("s LIKE '" + "%a" * 25 + "%b'", text, text + "b") == [1]
    assert rows("s LIKE '%a_c%_e'", "xabcde", "abce", "aXcXe", "acde") == [0, 2]
    assert rows("s LIKE '_%_'", "ab", "a", "a\nb") == [0, 2]


def test_rlike_is_linear_or_refused_by_name() -> None:
    text = "a" * 5_000
    assert rows("s RLIKE '^(a+)+$'", text, text + "!") == [0]
    assert rows("s RLIKE '(x+x+)+y'", "xxy", "x" * 3_000) == [0]
    for pattern in (r"(?=(a+)+$)b", r"(a+)+\1b"):
        with pytest.raises(errors.UnsupportedFunctionError, match="many ways"):
            rlike("a" * 40, pattern)


def test_rlike_means_what_java_means() -> None:
    assert rlike("a\n", "a$") and not rlike("a\n\n", "a$")
    assert rlike("a\n", "a$\n") and re2_regex("a$\n") is None
    assert rlike("\x0b", r"^\s$") and not rlike("\x0b", r"\S")
    assert not rlike("a\u2028b", "a.b") and rlike("aéb", "a.b") and not rlike("é", r"\w")
    assert rlike("a\n", r"a\Z")


def test_a_matcher_keeps_to_a_limit_of_matches() -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="k").order_by("t")
    kinds = ["A", *"B" * 40, "C"]
    matcher = pattern.matcher()
    with pytest.raises(errors.LimitError, match="max_matches"):
        matcher.insert(pa.table({"t": pa.array(range(42)), "k": kinds}))
        matcher.end()


@pytest.mark.compiled
@pytest.mark.parametrize("condition", [None, "x >= A.x"])
def test_too_many_matches_are_counted_and_never_kept(
    condition: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(*_: object) -> None:
        raise AssertionError("matches beyond the limit were put into tables")

    monkeypatch.setattr("ensue.sequences.evaluator._joined", kept)
    rows = pa.table({"t": range(42), "x": range(42), "k": ["A", *"B" * 40, "C"]})
    pattern = ensue.pattern("A ->> B+ ->> C", types="k").order_by("t")
    pattern = pattern if condition is None else pattern.define(B=condition)
    with pytest.raises(errors.LimitError, match="there are 1,099,511,627,775 matches"):
        pattern.matches(rows)
    matcher = pattern.matcher()
    matcher.insert(rows)
    with pytest.raises(errors.LimitError, match="there are 1,099,511,627,775 matches"):
        matcher.end()


@pytest.mark.parametrize(
    "pattern",
    [
        ensue.pattern("A+").after_match("next row"),
        ensue.pattern("A+").after_match("next row").measures(x="COLLECT_LIST(A.t)"),
        ensue.pattern("A -> B+", types="k"),
    ],
    ids=["rows", "lists", "events"],
)
def test_matches_that_overlap_fill_no_memory(
    pattern: ensue.Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row stands in thousands of matches; the limit is met while they are listed."""
    monkeypatch.setattr("ensue.operator.protocol.MAX_OUTPUT", 1 << 20)
    table = pa.table({"t": range(3_000), "k": ["A", *"B" * 2_999]})
    asked = pattern.order_by("t")
    with pytest.raises(errors.LimitError, match="the answer needs more than 1 MB"):
        asked.matches(table)
    matcher = asked.matcher()
    matcher.insert(table)
    with pytest.raises(errors.LimitError, match="the answer needs more than 1 MB"):
        matcher.end()
    assert asked.count(table) >= 2_999


def test_counts_of_more_than_4300_digits() -> None:
    """Python converts no such number to text or back by itself."""
    size = 15_000
    rows = pa.table({"t": range(size), "k": ["A"] + ["B"] * (size - 1)})
    asked = ensue.pattern("A ->> B+", types="k").order_by("t")
    wanted = 2 ** (size - 1) - 1
    assert asked.count(rows) == ensue.workload(a=asked).count(rows)["a"] == wanted
    text = asked.aggregate(rows, n="count(*)", big="text")["n"][0].as_py()
    assert int(Decimal(text)) == wanted
    with pytest.raises(errors.OverflowDataError, match="has 4516 digits"):
        asked.aggregate(rows, n="count(*)")
    with pytest.raises(errors.LimitError, match=r"more than 10\^4,515 matches"):
        asked.matches(rows)
    assert "10^4,515" in asked.explain(rows)


def test_counting_paths_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = pa.table({"subject": list("aab"), "relation": ["r"] * 3, "object": list("aba")})
    graph = ensue.graph(edges)
    assert graph.count("r*", start="a", max_hops=2_000) > 2**1_000
    monkeypatch.setattr("ensue.paths.counts.MAX_STEPS", 1_000)
    with pytest.raises(errors.LimitError, match=r"there may be as many as 2\^"):
        graph.count("r*", start="a", max_hops=2_000)


def test_joins_without_a_condition_are_read_in_linear_time() -> None:
    """What they mean stays the same, conditions of inner joins included."""
    clause = "MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS o PATTERN (A) DEFINE A AS t = 1)"
    tables = {"t": pa.table({"t": [1]}), "u": pa.table({"t": [1, 2]})}
    for joins, rows in (
        ("JOIN u JOIN u AS v ON u.t = v.t", 2),
        ("JOIN u JOIN u AS v ON u.t = v.t ON v.t = 1", 1),
        ("CROSS JOIN u", 2),
        ("JOIN (SELECT u.t FROM u JOIN u AS v USING (t)) AS w ON w.t > 1", 1),
    ):
        text = f"SELECT m.o FROM t {clause} AS m {joins}"
        assert ensue.sql(text, **tables).num_rows == rows
    many = "".join(f" JOIN t AS t{number}" for number in range(60))
    assert "Row pattern" in ensue.explain(f"SELECT m.o FROM t {clause} AS m{many}")

"""Each mistake is an error of its own class that says what, where and what to do."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors, quantify
from ensue.query import stored

TABLE = pa.table({"k": ["a", "a"], "t": [1, 2], "price": [1.0, 2.0], "name": ["x", "y"]})


def base(pattern: str = "A B") -> Any:
    return ensue.pattern(pattern).order_by("t")


@pytest.mark.parametrize(
    ("text", "error", "column", "says"),
    [
        ("A (B", errors.PatternSyntaxError, 3, "never closed"),
        ("A B)", errors.PatternSyntaxError, 4, "closes nothing"),
        ("A {- B", errors.PatternSyntaxError, 3, "never closed"),
        ("A{3,1}", errors.PatternSyntaxError, 3, "at least 3 and at most 1"),
        ("A{1,1000000000}", errors.LimitError, 3, "above the limit of 10,000"),
        ("A{0}", errors.PatternSyntaxError, 3, "at least 1"),
        ("A | | B", errors.PatternSyntaxError, 5, "alternative is empty"),
        ("(| A)", errors.PatternSyntaxError, 2, "alternative is empty"),
        ("A ** B", errors.PatternSyntaxError, 4, "cannot stand here"),
        ("A & B", errors.PatternSyntaxError, 3, "no meaning"),
        ("", errors.PatternSyntaxError, 1, "empty"),
        ("A\n B )", errors.PatternSyntaxError, 4, "closes nothing"),
        ("permute", errors.ReservedNameError, 1, "reserved"),
        ("__ensue_x", errors.ReservedNameError, 1, "reserved"),
        ("(" * 1_300 + "A" + ")" * 1_300, errors.LimitError, 1_001, "nests deeper"),
    ],
)
def test_pattern_text(text: str, error: type[errors.EnsueError], column: int, says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        ensue.pattern(text)
    assert raised.value.column == column
    assert raised.value.remedy


def test_the_message_points_at_the_place() -> None:
    with pytest.raises(errors.PatternSyntaxError) as raised:
        ensue.pattern("A\n B )")
    assert str(raised.value) == (
        "line 2, column 4: ')' closes nothing\n"
        "   B )\n"
        "     ^\n"
        "What to do: remove it or open it with '('"
    )


@pytest.mark.parametrize(
    ("condition", "error", "column", "says"),
    [
        ("price >", errors.ConditionSyntaxError, 7, "not an SQL expression"),
        ("'abc", errors.ConditionSyntaxError, 1, "not an SQL expression"),
        ("price AS p", errors.ConditionSyntaxError, 1, "alias"),
        ("", errors.ConditionSyntaxError, None, "is empty"),
        ("FINAL LAST(A.price) > 1", errors.NavigationError, 1, "FINAL is not allowed"),
        ("LAST(PREV(price)) > 1", errors.NavigationError, 1, "LAST cannot contain PREV"),
        ("PREV(PREV(price)) > 1", errors.NavigationError, 6, "PREV cannot contain PREV"),
        ("SUM(A.price * B.price) > 1", errors.NavigationError, 1, "mixes references to A and B"),
        ("LAST(price, -1) > 1", errors.NavigationError, 1, "must be a whole number"),
        ("PREV(1) > 1", errors.NavigationError, 1, "needs a column"),
        ("price > (SELECT 1)", errors.NavigationError, 1, "sub-query"),
        ("COUNT(Z.*) > 1", errors.UnknownVariableError, 7, "names the variable 'Z'"),
        ("price > rand()", errors.NondeterministicError, None, "different value each time"),
        ("t < unix_timestamp(now())", errors.NondeterministicError, None, "different value"),
        ("stddev(price) > 1", errors.UnsupportedFunctionError, 8, "is not supported"),
    ],
)
def test_condition_text(
    condition: str, error: type[errors.EnsueError], column: int | None, says: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        base().define(B=condition).query
    assert raised.value.column == column
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("condition", "error", "column", "says"),
    [
        ("1 < pricy", errors.UnknownColumnError, 5, "no column 'pricy'"),
        ("1 < Z.price", errors.UnknownVariableError, 5, "neither a pattern variable nor a column"),
        ("price > 'abc' AND name + 1 > 2 AND price < array(1)", errors.EnsueError, None, ""),
        ("price", errors.ColumnTypeError, None, "boolean"),
        ("PREV(price)", errors.ColumnTypeError, None, r"PREV\(price\)"),
        ("A.price + B.name", errors.EnsueError, None, ""),
        ("levenshtein(name, 'x') > 1", errors.UnsupportedFunctionError, None, "levenshtein"),
    ],
)
def test_condition_against_the_data(
    condition: str, error: type[errors.EnsueError], column: int | None, says: str
) -> None:
    with pytest.raises(error) as raised:
        base().define(B=condition).matches(TABLE)
    assert raised.value.column == column
    assert re.search(says, str(raised.value), re.IGNORECASE)
    assert "__ensue" not in str(raised.value)


def test_unknown_variable_in_a_measure() -> None:
    with pytest.raises(errors.UnknownVariableError, match=r"'Z' in Z\.price") as raised:
        base().measures(m="LAST(price) - Z.price").matches(TABLE)
    assert raised.value.column == 15
    with pytest.raises(errors.UnknownVariableError, match="names the variable 'Z'"):
        base().measures(m="CLASSIFIER(Z)").query


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: base().define(Z="true"), errors.UnknownVariableError, "'Z'"),
        (lambda: base().define(A="true", a="false"), errors.DuplicateNameError, "twice"),
        (lambda: base().measures(a="1").measures(A="2").query, errors.DuplicateNameError, "twice"),
        (lambda: base().partition_by("k").measures(K="1").query, errors.DuplicateNameError, "'K'"),
        (lambda: base().measures(__ensue_x="1").query, errors.ReservedNameError, "__ensue"),
        (lambda: base().subset(U="A, Z"), errors.UnknownVariableError, "'Z'"),
        (lambda: base().subset(A="A, B").query, errors.DuplicateNameError, "primary"),
        (lambda: base().subset(U="A").define(U="true").query, errors.QueryError, "subset"),
        (lambda: base().after_match("to first Z"), errors.UnknownVariableError, "'Z'"),
        (lambda: base().after_match("sideways"), errors.QueryError, "sideways"),
        (lambda: base().within("5 parsecs"), errors.QueryError, "not a duration"),
        (lambda: base().within("0 rows"), errors.QueryError, "below 1"),
        (lambda: base().within(-1), errors.QueryError, "below 0"),
        (lambda: ensue.pattern("A").within("1 hour").query, errors.QueryError, "no ORDER BY"),
        (lambda: base().order_by("t sideways"), errors.QueryError, "ORDER BY"),
        (lambda: base().rows_per_match("some"), errors.QueryError, "some"),
        (lambda: base().select("sometimes"), errors.QueryError, "sometimes"),
        (lambda: base().measures().query, errors.QueryError, "no column"),
        (lambda: base().define(A=3), errors.ConditionSyntaxError, "a int"),
        (
            lambda: base("A {- B -}").rows_per_match("all rows with unmatched").query,
            errors.QueryError,
            "exclusion",
        ),
        (lambda: base().order_by("missing").matches(TABLE), errors.UnknownColumnError, "missing"),
        (lambda: base().within("1 s").matches(TABLE), errors.ColumnTypeError, "a duration"),
        (lambda: base().matches([1, 2]), errors.UnsupportedInputError, "builtins.list"),
        (
            lambda: base().matches(TABLE, budget=ensue.Budget(work=1)),
            errors.UnsupportedError,
            "budget",
        ),
        (
            lambda: base().matches(TABLE.rename_columns(["__ensue_k", "t", "price", "name"])),
            errors.ReservedNameError,
            "__ensue_k",
        ),
        (
            lambda: base().rows_per_match("all rows").measures(price="1").matches(TABLE),
            errors.DuplicateNameError,
            "input column",
        ),
    ],
)
def test_parts_that_do_not_fit(build: Any, error: type[errors.EnsueError], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        build()
    assert raised.value.remedy


def test_ambiguous_columns() -> None:
    table = pa.table({"t": [1], "X": [1], "x": [2]})
    with pytest.raises(errors.UnknownColumnError, match="ambiguous"):
        ensue.pattern("A").define(A="x > 1").order_by("t").matches(table)


def test_an_empty_table_and_one_row() -> None:
    query = base("A").partition_by("k").measures(n="COUNT(*)", p="LAST(price)", c="CLASSIFIER()")
    empty = query.matches(TABLE.slice(0, 0))
    assert empty.num_rows == 0
    assert empty.schema.names == ["k", "n", "p", "c"]
    assert [str(t) for t in empty.schema.types] == ["string", "int64", "double", "string"]
    assert query.matches(TABLE.slice(0, 1)).to_pylist() == [{"k": "a", "n": 1, "p": 1.0, "c": "A"}]


def test_null_order_keys_sort_as_in_spark() -> None:
    table = pa.table({"t": [2, None, 1], "x": ["c", "a", "b"]})
    query = ensue.pattern("A B C").measures(x="array_agg(x)")
    assert query.order_by("t").matches(table)["x"].to_pylist() == [["a", "b", "c"]]
    assert query.order_by("t DESC").matches(table)["x"].to_pylist() == [["c", "b", "a"]]
    assert query.order_by("t NULLS LAST").matches(table)["x"].to_pylist() == [["b", "c", "a"]]


def test_errors_survive_the_trip_from_a_worker() -> None:
    place = errors.Place.at_offset("abc", 1)
    problem = errors.SkipTargetError("what", remedy="do", place=place)
    again = pickle.loads(pickle.dumps(problem))
    assert (type(again), str(again), again.place) == (type(problem), str(problem), place)


def test_a_pattern_that_grows_too_large_is_refused() -> None:
    with pytest.raises(errors.LimitError, match="states"):
        base("((A{100}){100}){3}").program
    with pytest.raises(errors.LimitError, match="PERMUTE of 12"):
        base("PERMUTE(A,B,C,D,E,F,G,H,I,J,K,L)").program


def test_texts_that_fuzzing_found_are_refused_or_work() -> None:
    """Each once raised an error that was not Ensue's."""
    table = pa.table({"x": [3, 1, 2], "s": ["a", "b", "c"]})
    for condition in (
        "regexp_replace(s, 'a(b)?''$1') = ''",
        "regexp_replace(s, , '$1') = ''",
        "COLLECT_LIST(1e999.s) = x",
    ):
        with pytest.raises(errors.ConditionSyntaxError):
            ensue.pattern("A").define(A=condition).order_by("x").matches(table)
    for number in ("x IN (" + "1" * 41 + ", 2)", "x > 0." + "1" * 39, "x = " + "9" * 5_000):
        with pytest.raises(errors.LimitError, match="digits"):
            ensue.pattern("A").define(A=number).order_by("x").matches(table)
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY {} MEASURES LAST(a.x) AS l PATTERN (a+))"
    ordered = text.format("CASE WHEN x > 1 THEN x ELSE 9 END")
    assert ensue.sql(ordered, t=table).to_pylist() == [{"l": 1}]
    with pytest.raises(errors.ConditionSyntaxError, match=r"not \*"):
        ensue.sql(text.format("*"), t=table)


def test_half_a_character_is_in_no_text_and_no_name() -> None:
    """No column holds one, and whatever would print it would fail for a reason of its own."""
    half, table = "\ud800", pa.table({"t": [1], "s": ["a"]})
    asked = ensue.pattern("A").order_by("t")
    machine = ensue.Automaton({"n": "bigint"}, order_by="t")
    order = stored.to_json(asked.define(A="s = 'a'").query).replace('"a"', '"\\ud800"')
    for call in (
        lambda: asked.define(A=f"s = '{half}'").count(table),
        lambda: asked.measures(m=f"`{half}`").matches(table),
        lambda: asked.measures(**{half: "s"}).matches(table),
        lambda: ensue.pattern(f"A{half}"),
        lambda: ensue.begin(half).order_by("t").count(table),
        lambda: ensue.sql(f"SELECT '{half}' FROM t", t=table),
        lambda: quantify.event(f"s = '{half}'", "t").eval(table),
        lambda: machine.arc("p", "q", when=f"s = '{half}'"),
        lambda: ensue.graph(pa.table({"subject": "a", "relation": "b", "object": "c"})).paths(half),
        lambda: stored.from_json(order),
    ):
        with pytest.raises(errors.EnsueError) as problem:
            call()
        str(problem.value).encode()


def test_a_field_of_what_is_no_struct_is_refused_in_a_quantity() -> None:
    table = pa.table({"x": [1], "s": pa.array([{"a": 1, "B": 2}])})
    assert quantify.event("s.b > 1", "S.a").eval(table) == 1
    for text in ("x.y > 0", "s.c > 0", "s.a.b > 0"):
        with pytest.raises(errors.UnknownColumnError, match=r"reads the field '[ybc]' of"):
            quantify.event(text, "1").eval(table)

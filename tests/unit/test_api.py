"""The fluent object: kinds of input, laziness, what it says about itself."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ensue
from ensue import errors

TABLE = pa.table(
    {"k": ["a", "a", "a", "b"], "t": [3, 1, 2, 1], "kind": ["pay", "view", "cart", "view"]}
)
VIEWS = pa.schema({"k": pa.string_view(), "t": pa.int64(), "kind": pa.string_view()})
BOUGHT = ensue.pattern("view cart+ pay", types="kind").partition_by("k").order_by("t")


def test_the_listing() -> None:
    assert BOUGHT.matches(TABLE).to_pylist() == [
        {
            "k": "a",
            "match_number": 1,
            "first": 1,
            "last": 3,
            "events": [
                {"label": "view", "row": 0},
                {"label": "cart", "row": 1},
                {"label": "pay", "row": 2},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (TABLE, pa.Table),
        (TABLE.to_batches()[0], pa.Table),
        (TABLE.cast(VIEWS), pa.Table),
        (TABLE.to_pandas(), pd.DataFrame),
        (pl.from_arrow(TABLE), pl.DataFrame),
    ],
)
def test_a_table_comes_back_in_kind(data: object, kind: type) -> None:
    found = BOUGHT.measures(n="COUNT(*)").matches(data)
    assert isinstance(found, kind)
    assert list(found["n"]) == [3] or found["n"].to_pylist() == [3]


def test_a_reader_is_read() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    assert BOUGHT.count(reader) == 1


def test_count() -> None:
    assert BOUGHT.count(TABLE) == 1
    assert ensue.pattern("view", types="kind").order_by("t").count(TABLE) == 2


def test_define_adds_to_the_type() -> None:
    early = BOUGHT.define(cart="t < 2")
    assert early.count(TABLE) == 0
    assert "kind = 'cart'" in early.sql()


def test_objects_are_values() -> None:
    assert (
        ensue.pattern("view cart{1,} pay", types="kind").partition_by("k").order_by("t") == BOUGHT
    )
    assert BOUGHT.within(5) != BOUGHT
    assert len({BOUGHT, BOUGHT.order_by("t")}) == 1
    assert repr(BOUGHT) == (
        "<ensue pattern: view cart+ pay; types kind; partition by k; order by t>"
    )


def test_a_subset_may_come_after_its_use() -> None:
    query = BOUGHT.measures(c="COUNT(U.*)").subset(U="view, cart")
    assert query.matches(TABLE)["c"].to_pylist() == [2]


def test_variables_of_the_builder_keep_their_spelling_and_match_any_case() -> None:
    query = BOUGHT.measures(c="LAST(CART.t)", l="CLASSIFIER()")
    assert query.matches(TABLE).to_pylist() == [{"k": "a", "c": 2, "l": "pay"}]


def test_column_names_match_any_case() -> None:
    query = ensue.pattern("A").define(A="KIND = 'pay'").partition_by("K").order_by("T")
    assert query.matches(TABLE).column_names[0] == "k"


def test_explain_shows_the_split_and_the_reason() -> None:
    query = (
        ensue.pattern("A B")
        .define(A="kind = 'view'", B="t > 1 AND B.t > PREV(B.t) AND B.t > A.t + 0")
        .order_by("t")
    )
    text = query.explain(TABLE)
    assert "row: by Spark before the shuffle (in process: on Arrow columns): `t` > 1" in text
    assert "neighbours: on Arrow columns after the sort: t > PREV(t)" in text
    assert "correlated: a guard for every partial match: t > (A.t + 0)" in text
    assert "engine: threads" in text
    assert "because conditions read the match so far" in text
    assert "engine: automaton" in BOUGHT.explain()


def test_the_previous_row_of_the_match_is_the_previous_row() -> None:
    query = ensue.pattern("A B+").define(B="t > LAST(t, 1)").order_by("t")
    assert "engine: automaton" in query.explain()
    first = ensue.pattern("B+").define(B="t > LAST(t, 1)").order_by("t")
    assert "engine: automaton" not in first.explain()


def test_plot() -> None:
    picture = BOUGHT.plot()
    assert picture.svg.startswith("<svg") or "<svg" in picture.svg
    assert BOUGHT._repr_svg_() == picture.svg
    assert "digraph" in picture.dot


def test_sql_text() -> None:
    query = (
        ensue.pattern("A (B | C)+?")
        .define(B="x > PREV(x)")
        .subset(U="A, B")
        .partition_by("k")
        .order_by("t DESC", "s NULLS LAST")
        .measures(n="COUNT(U.*)", last="FINAL LAST(B.x, 1)")
        .rows_per_match("all rows omit empty")
        .after_match("to last U")
        .within("90 minutes")
    )
    assert query.sql() == (
        "SELECT * FROM input MATCH_RECOGNIZE (\n"
        "  PARTITION BY k\n"
        "  ORDER BY t DESC, s NULLS LAST\n"
        "  MEASURES COUNT(U.*) AS n, FINAL LAST(B.x, 1) AS last\n"
        "  ALL ROWS PER MATCH OMIT EMPTY MATCHES\n"
        "  AFTER MATCH SKIP TO LAST U\n"
        "  PATTERN (A (B | C)+?)\n"
        "  WITHIN INTERVAL '90' MINUTE\n"
        "  SUBSET U = (A, B)\n"
        "  DEFINE B AS x > PREV(x)\n"
        ")"
    )


def test_nothing_runs_before_a_verb() -> None:
    query = ensue.pattern("A").define(A="no_such_column > 1").order_by("t")
    with pytest.raises(errors.UnknownColumnError):
        query.matches(TABLE)


def test_strings_of_other_layouts() -> None:
    wide = TABLE.set_column(2, "kind", TABLE["kind"].cast(pa.large_string()))
    coded = TABLE.set_column(2, "kind", TABLE["kind"].dictionary_encode())
    assert BOUGHT.count(wide) == BOUGHT.count(coded) == 1

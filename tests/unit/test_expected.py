"""What a newcomer expects to be there, tried as a newcomer would."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ensue
from ensue import errors
from ensue.api.tables import STREAM_OPTIONS

ROWS = pa.table(
    {
        "shop": ["n", "n", "n", "s", "s", "n"],
        "user": [2, 1, 1, 1, 1, 1],
        "ts": [9, 1, 2, 1, 2, 3],
        "kind": ["A", "A", "B", "A", "B", "B"],
    }
)
QUERY = ensue.pattern("A -> B", types="kind").partition_by("shop", "user").order_by("ts")


def test_keys_come_as_arguments_or_as_a_list() -> None:
    bare = ensue.pattern("A -> B", types="kind")
    listed = bare.partition_by(["shop", "user"]).order_by(["ts"])
    assert listed == QUERY
    assert bare.order_by(["ts", "user DESC"]) == bare.order_by("ts", "user DESC")
    with pytest.raises(errors.QueryError, match="partition_by takes text, not 3"):
        bare.partition_by(["shop", 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("given", "text"),
    [(timedelta(hours=1), "1 hour"), (timedelta(days=2, microseconds=5), "172800000005 us")],
)
def test_a_window_is_a_timedelta_or_its_text(given: timedelta, text: str) -> None:
    assert QUERY.within(given) == QUERY.within(text)
    step = ensue.begin("A").followed_by("B")
    assert step.within(given, "previous and current") == step.within(text, "previous and current")
    assert step.times(2, within=given) == step.times(2, within=text)


def test_lengths_of_time_of_a_matcher_are_timedeltas_too() -> None:
    kinds = pa.schema([("ts", pa.timestamp("us")), ("kind", pa.string())])
    query = ensue.pattern("A -> B", types="kind").order_by("ts")
    made = query.matcher(delay=timedelta(minutes=1), speculation=timedelta(seconds=5), schema=kinds)
    said = query.matcher(delay="1 minute", speculation="5 seconds", schema=kinds)
    moments = [f"2024-05-01 10:0{m}:00" for m in range(4)]
    rows = pa.table({"ts": moments, "kind": ["A", "B", "A", "B"]}).cast(kinds)
    assert made.insert(rows).equals(said.insert(rows))
    assert ensue.restore(made.snapshot()).end().equals(said.end())


def test_a_label_defined_again_gets_the_new_condition() -> None:
    query = ensue.pattern("A B").define(A="x > 1", B="x > 2")
    assert query.define(a="x > 3") == ensue.pattern("A B").define(A="x > 3", B="x > 2")
    with pytest.raises(errors.DuplicateNameError, match="in one define"):
        query.define(A="true", a="false")
    with pytest.raises(errors.DuplicateNameError, match=r"where\(\.\.\.\) of its step"):
        ensue.begin("A").where("x > 1").define(A="x > 2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(ROWS, tmp_path / "rows.csv")
    tabs = pyarrow.csv.WriteOptions(delimiter="\t")
    pyarrow.csv.write_csv(ROWS, tmp_path / "rows.tsv", tabs)
    (tmp_path / "parts").mkdir()
    for part, rows in enumerate((ROWS.slice(0, 3), ROWS.slice(3))):
        pq.write_table(rows, tmp_path / "parts" / f"{part}.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.tsv", "parts"])
def test_a_path_is_data(folder: Path, name: str) -> None:
    for path in (folder / name, str(folder / name)):
        assert QUERY.matches(path).equals(QUERY.matches(ROWS))
        assert QUERY.count(path) == QUERY.count(ROWS) == 2
        assert ensue.workload(q=QUERY).count(path) == {"q": 2}
    assert QUERY.matcher().insert(folder / name).equals(QUERY.matcher().insert(ROWS))


def test_a_path_that_is_none_says_so(folder: Path) -> None:
    with pytest.raises(errors.UnsupportedInputError, match=r"'ticks\.parquet', which does not"):
        QUERY.matches("ticks.parquet")
    (folder / "bad.parquet").write_text("no parquet")
    with pytest.raises(errors.UnsupportedInputError, match="cannot be read as parquet"):
        QUERY.matches(folder / "bad.parquet")
    (folder / "rows.xlsx").write_text("")
    with pytest.raises(errors.UnsupportedInputError, match="no suffix that names its format"):
        QUERY.matches(folder / "rows.xlsx")


def test_edges_of_a_graph_are_in_a_parquet_file(tmp_path: Path) -> None:
    edges = pa.table({"subject": ["a", "b"], "relation": ["r", "r"], "object": ["b", "c"]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    assert ensue.graph(tmp_path / "edges.parquet").edge_count == 2


def test_a_lazy_frame_in_is_a_lazy_frame_out() -> None:
    lazy = pl.from_arrow(ROWS).lazy()  # type: ignore[union-attr]
    found = QUERY.matches(lazy)
    assert isinstance(found, pl.LazyFrame)
    assert found.collect().to_arrow().num_rows == 2
    assert QUERY.count(lazy) == 2
    row = ensue.pattern("A B", types="kind").partition_by("shop", "user").order_by("ts")
    assert row.count(lazy) == row.count(ROWS)


def test_categories_are_texts() -> None:
    frame = ROWS.to_pandas().astype({"shop": "category", "kind": "category"})
    packed = pa.Table.from_pandas(frame, preserve_index=False)
    polars = pl.from_pandas(frame)
    assert pa.types.is_dictionary(packed.schema.field("kind").type)
    assert polars["kind"].dtype == pl.Categorical
    found, said = QUERY.matches(ROWS), QUERY.explain(ROWS)
    for data in (frame, packed, polars, packed.to_batches()[0], packed.to_reader()):
        assert pa.table(QUERY.matches(data)).to_pylist() == found.to_pylist()
    assert QUERY.explain(packed) == said and QUERY.count(frame) == 2
    matcher = QUERY.matcher(schema=packed.schema)
    assert matcher.insert(packed).equals(QUERY.matcher().insert(ROWS))
    numbered = QUERY.with_row_ids(frame.set_index(frame.index + 5))
    assert str(numbered["kind"].dtype) == "category" and numbered.index[0] == 5
    assert QUERY.with_row_ids(packed).drop_columns(["row"]).equals(packed)


def test_what_is_no_table_says_so() -> None:
    for data in (ROWS.to_pandas()["kind"], pl.from_arrow(ROWS)["kind"], [{"ts": 1}], None):  # type: ignore[index]
        with pytest.raises(errors.UnsupportedInputError, match="is not a table that Ensue reads"):
            QUERY.matches(data)


def test_a_workload_counts_each_pattern() -> None:
    other = ensue.pattern("B", types="kind").order_by("ts")
    assert ensue.workload(ab=QUERY, b=other).count(ROWS) == {"ab": 2, "b": 3}


def test_a_report_prints_as_a_table() -> None:
    many = ensue.workload(ab=QUERY)
    many.matches(ROWS)
    text = str(many.report)
    assert [part in text for part in ("pattern", "recall", "ab", "6 rows in")] == [True] * 4
    assert text.splitlines()[0].split()[0] == "pattern"
    assert repr(many.report) == text
    assert many.report is not None and "<td" in many.report._repr_html_()


def test_show_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    QUERY.show(ROWS)
    out = capsys.readouterr().out
    assert "match_number" in out and "A 0 · B 1" in out and "2 rows" in out
    QUERY.measures(end="B.ts").show(pl.from_arrow(ROWS), rows=1)
    out = capsys.readouterr().out
    assert "2 rows, the first 1 shown" in out
    assert out.splitlines()[0].split() == ["shop", "user", "end"]
    ensue.workload(ab=QUERY).show(ROWS)
    assert "ab" in capsys.readouterr().out


def test_show_is_drawn_by_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        drawn: list[Any] = []  # noqa: RUF012
        kernel = 1

        @classmethod
        def get_ipython(cls) -> type[Shell]:
            return cls

        @classmethod
        def display(cls, shown: Any) -> None:
            cls.drawn.append(shown._repr_html_())

    monkeypatch.setitem(__import__("sys").modules, "IPython", Shell)
    monkeypatch.setitem(__import__("sys").modules, "IPython.display", Shell)
    QUERY.show(ROWS)
    assert len(Shell.drawn) == 1 and "<th>shop</th>" in Shell.drawn[0]


def test_an_explanation_is_text_that_a_notebook_lays_out() -> None:
    for told in (
        QUERY.define(A="ts < 9").explain(),
        QUERY.explain(ROWS),
        ensue.workload(ab=QUERY).explain(),
        ensue.graph(ROWS, src="user", label="kind", dst="ts").explain("A"),
        ensue.Automaton().arc("q0", "q1", when="ts < 9").final("q1").explain(ROWS),
    ):
        assert isinstance(told, str) and repr(told) == str(told)
        drawn = told._repr_html_()  # type: ignore[attr-defined]
        assert drawn.startswith("<pre>") and drawn.count("\n") == told.count("\n")
    assert "&lt;" in QUERY.define(A="ts < 9").explain()._repr_html_()  # type: ignore[attr-defined]


def test_row_ids_join_matches_with_their_rows() -> None:
    numbered = QUERY.with_row_ids(ROWS)
    assert numbered.column("row").to_pylist() == [0, 0, 1, 0, 1, 2]
    assert numbered.drop_columns(["row"]).equals(ROWS)
    for match in QUERY.matches(ROWS).to_pylist():
        for event in match["events"]:
            [row] = [
                row
                for row in numbered.to_pylist()
                if (row["shop"], row["user"], row["row"])
                == (match["shop"], match["user"], event["row"])
            ]
            assert row["kind"] == event["label"]
    frame = QUERY.with_row_ids(pl.from_arrow(ROWS), name="id")
    assert frame["id"].to_list() == [0, 0, 1, 0, 1, 2]
    with pytest.raises(errors.DuplicateNameError, match="already has a column 'ts'"):
        QUERY.with_row_ids(ROWS, name="ts")


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        QUERY.measures(n="COUNT(*)"),
        ensue.pattern("A B+", types="kind").rows_per_match("all rows").measures(n="COUNT(*)"),
        ensue.pattern("A B", types="kind").partition_by("shop").order_by("ts DESC"),
    ],
)
def test_any_query_draws_its_matches(query: ensue.Pattern, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = query.timeline(ROWS, value="ts")
    assert drawn.svg.lstrip().startswith("<?xml") and drawn._repr_svg_() == drawn.svg
    drawn.save(tmp_path / "matches.png")
    assert (tmp_path / "matches.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(errors.UnknownColumnError, match="price"):
        query.timeline(ROWS, value="price")


def test_only_public_names_are_shown() -> None:
    assert set(dir(ensue)) - set(ensue.__all__) == {"__version__", "errors"}


def test_the_page_of_settings_says_what_the_limits_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `(ensue\.[\w.]+)\.([A-Z_]+)` \| ([\d,]+) \|", page, re.MULTILINE)
    assert len(rows) > 10
    for module, name, value in rows:
        assert getattr(import_module(module), name) == int(value.replace(",", "")), (module, name)
    for name in ("ENSUE_PROGRESS", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "JAVA_HOME"):
        assert f"`{name}`" in page


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("ts > LAG(ts)", r"LAG is called PREV in a pattern(.|\n)*write PREV\(ts\)"),
        ("ts > lead(ts, 2)", r"LEAD is called NEXT in a pattern(.|\n)*write NEXT\(ts, 2\)"),
        ("ts > LAG(ts) OVER (ORDER BY ts)", "LAG is called PREV in a pattern"),
        ("regexp_extract_all(kind, 'a') IS NULL", "the function 'regexp_extract_all' is not"),
        ("SOUNDEX(kind) = 'x'", "the function 'soundex' is not"),
    ],
)
def test_messages_name_things_as_they_were_typed(condition: str, message: str) -> None:
    with pytest.raises(errors.EnsueError, match=message) as raised:
        ensue.pattern("A B").define(B=condition).order_by("ts").matches(ROWS)
    assert "in-process runner" not in str(raised.value)


def test_an_unknown_option_names_those_there_are() -> None:
    options = pytest.importorskip("ensue.run.spark.stream_options", exc_type=ImportError)
    assert list(STREAM_OPTIONS) == options.StreamOptions.names()
    with pytest.raises(errors.QueryError, match=r"sampel=(.|\n)*sample") as raised:
        QUERY.matches(ROWS, sampel=3)
    assert "limit" in str(raised.value)
    with pytest.raises(errors.QueryError, match="lanes= is an option of streams"):
        QUERY.matches(ROWS, lanes=3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: QUERY.count(ROWS, asof="end"), "asof= .*did you mean as_of=.*\n.*as_of, timeout"),
        (lambda: QUERY.why(ROWS, pers="start"), "pers= .*did you mean per="),
        (lambda: QUERY.order_by("ts", tie="warn"), "tie= .*did you mean ties="),
        (lambda: QUERY.within(5, unit="s"), "unit= is not an option"),
        (lambda: QUERY.matcher(dela="1 s"), "dela= .*did you mean delay="),
        (lambda: ensue.pattern("a", type="kind"), "type= .*did you mean types="),
        (lambda: ensue.begin("a", types="kind"), "types= .*\n.*after_match"),
        (lambda: ensue.workload(a=QUERY).count(ROWS, budget=1), "budget= .*\n.*as_of"),
        (lambda: ensue.Budget(memry="1 MB"), "memry= .*did you mean memory="),
        (lambda: ensue.graph(ROWS, source="a"), "source= is not an option"),
        (lambda: ensue.sql("SELECT 1", dilect="x"), "dilect=(.|\n)*dialect, .*timeout"),
    ],
)
def test_every_call_names_the_options_there_are(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(errors.QueryError, match=said):
        call()


def test_a_name_that_is_nearly_public_is_named() -> None:
    with pytest.raises(AttributeError) as raised:
        ensue.patern
    assert raised.value.name == "patern"
    assert raised.value.obj is ensue  # what Python reads to name the nearest


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("view => pay", "an arrow is ->"),
        ("view >> pay", "an arrow is ->"),
        ("view, pay", "an arrow (->) or a blank"),
        ("add-cart -> pay", 'double quotes: "add-cart"'),
        ("'add cart' -> pay", 'double quotes: "add-cart"'),
    ],
)
def test_patterns_as_others_write_them_get_the_way_it_is_written_here(
    text: str, remedy: str
) -> None:
    with pytest.raises(errors.PatternSyntaxError, match=re.escape(remedy)):
        ensue.pattern(text)


def test_a_table_given_twice_is_refused() -> None:
    with pytest.raises(errors.DuplicateNameError, match="'t' is given twice"):
        ensue.sql("SELECT * FROM t", t=ROWS, tables={"t": ROWS})


def test_a_direction_stands_behind_its_column() -> None:
    with pytest.raises(errors.UnknownColumnError, match=r"order_by\('ts DESC'\)"):
        QUERY.order_by("ts", "desc").count(ROWS)


def test_what_is_made_says_what_it_is() -> None:
    matcher = QUERY.matcher(name="bought", schema=ROWS.schema)
    matcher.advance(3)
    assert repr(matcher) == "<ensue matcher of bought; partitions: 0 open, watermark 3>"
    assert "save('automaton.svg')" in repr(QUERY.plot())
    assert "matches: save('timeline.svg')" in repr(QUERY.timeline(ROWS))


def test_hints_link_to_the_documentation() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] == errors.DOCS
    for refused in (
        lambda: ensue.pattern("A ; B"),
        lambda: ensue.explain("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) NONSENSE)"),
    ):
        with pytest.raises(errors.EnsueError, match=re.escape(errors.DOCS)):
            refused()

"""Text of strangers: what `trust="pattern"` and orders to a stream let through, and what not."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api import sql_fence
from ensue.api.automaton_text import read_edit, register_fields
from ensue.front.expressions import Scope, parse_condition
from ensue.front.sql import read_order
from ensue.query import condition as c
from ensue.query import stored
from ensue.query.query import Measure
from ensue.scalar.fence import check_condition, check_query
from ensue.scalar.functions import CATALOGUE

FUNCTIONS = Path(__file__).parents[1] / "spark" / "functions.toml"
CLAUSE = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {} AS m PATTERN (A B+) DEFINE {})"
# Each with a word of its refusal. All of them Spark's parser takes, in one version or another.
DOORS = {
    "java_method('java.lang.System', 'exit', 1) = 1": "java_method",
    "reflect('java.util.UUID', 'randomUUID') = x": "reflect",
    "try_reflect('java.lang.System', 'getenv', 'HOME') = x": "try_reflect",
    "x > (SELECT max(v) FROM secrets)": "sub-query",
    "x IN (SELECT v FROM secrets)": "sub-query",
    "EXISTS (SELECT 1 FROM secrets)": "sub-query",
    "read_files('/etc/passwd') = x": "read_files",
    "current_user() = x": "current",
    "session_user() = x": "session",
    "current_timestamp() > x": "current",
    "input_file_name() = x": "input_file_name",
    "secret('scope', 'key') = x": "secret",
    "http_request('https://example.org') = x": "http_request",
    "ai_query('m', x) = 'y'": "ai_query",
    "my_udf(x) = 1": "my_udf",
    "db.my_udf(x) = 1": "",
    "x = '${env:HOME}'": "replace",
    "x = '\\u0024{env:HOME}'": "replace",
    "`${system:user.name}` = x": "replace",
    "raise_error('x') = 1": "raise_error",
    "version() = x": "version",
    "uuid() = x": "uuid",
    "rand() > 0.5": "rand",
    "transform(xs, v -> java_method(v)) = x": "",
    "upper(lower(reflect('a', 'b'))) = 'A'": "reflect",
    "CASE WHEN reflect('a', 'b') = 'c' THEN true END": "reflect",
    "CAST(reflect('a', 'b') AS int) = 1": "reflect",
    "x BETWEEN 1 AND java_method('a', 'b')": "java_method",
    "x IN (1, java_method('a', 'b'))": "java_method",
    "CAST(x AS map<string, int>) IS NULL": "type",
    "from_json(x, 'a int').a = 1": "",
    "xpath(x, '//a') = y": "xpath",
    ":parameter = 1": "",
}
ALLOWED = [
    "price < PREV(price) AND NOT (price IS NULL OR price IN (1, 2.5, 3e0))",
    "CASE WHEN x BETWEEN 1 AND 2 THEN 'a' ELSE upper(trim(k)) END = 'a'",
    "CAST(x AS decimal(10, 2)) + try_cast(k AS int) > -1 AND k LIKE 'a%' AND k RLIKE '^a$'",
    "ts > FIRST(A.ts) + INTERVAL '5' MINUTE AND date_trunc('hour', ts) = ts AND year(ts) = 2024",
    "coalesce(nullif(x, 1), nvl2(x, 1, 2), if(x > 1, 1, 2)) <=> element_at(xs, 1)",
    "avg(A.x) > 3 AND count(DISTINCT A.k) > 1 AND CLASSIFIER() = 'B' AND xs[0] = s.f",
    "concat_ws('-', k, k) || substring(k, 1, 2) = lpad(k, 3, '$') AND extract(HOUR FROM ts) = 1",
]


def refusal(action: Any) -> errors.EnsueError:
    with pytest.raises(errors.EnsueError) as found:
        action()
    return found.value


def fenced(word: str, action: Any) -> None:
    """A refusal of ours that names the thing and says what to do."""
    problem = refusal(action)
    kinds = (errors.UntrustedError, errors.QueryError, errors.ConditionSyntaxError)
    assert isinstance(problem, (*kinds, errors.UnsupportedError)), repr(problem)
    assert word in str(problem), problem
    assert problem.remedy


@pytest.mark.parametrize("text", DOORS)
def test_no_door_in_a_condition_measure_statement_or_order(text: str) -> None:
    word = DOORS[text]
    pattern = ensue.pattern("A B+", trust="pattern")
    fenced(word, lambda: pattern.define(B=text).query)
    fenced(word, lambda: pattern.measures(m=text).query)
    fenced(word, lambda: ensue.begin("a", trust="pattern").where(text).query)
    fenced(word, lambda: pattern.define(B="true").aggregate(table(), n=f"count_if({text})"))
    total = f"sum(CASE WHEN {text} THEN 1 END)"
    fenced(word, lambda: ensue.pattern("A -> B", trust="pattern").summarize(size=9, total=total))
    for measure, define in (("1", f"B AS {text}"), (text, "B AS true")):
        statement = f"SELECT * FROM t {CLAUSE.format(measure, define)}"
        fenced("", lambda s=statement: sql_fence.check(s, "spark", ["t"]))
        fenced("", lambda s=statement: check_query(read_order(s)))
    window = (
        f"SELECT k, m OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts MEASURES {text} AS m "
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS x > 1)"
    )
    fenced("", lambda: sql_fence.check(window, "spark", ["t"]))
    around = f"SELECT * FROM t {CLAUSE.format('1', 'B AS true')} WHERE {text}"
    fenced("", lambda: sql_fence.check(around, "spark", ["t"]))
    add = {"n": {"source": "p", "target": "q", "when": text}}
    order = json.dumps({"ensue arcs": 1, "add": add, "remove": []})
    fenced("", lambda: read_edit(order, register_fields({"r": "int"}, {})))


def table() -> pa.Table:
    return pa.table({"k": ["a"], "ts": [1], "x": [1]})


@pytest.mark.parametrize("text", ALLOWED)
def test_what_a_pattern_needs_passes_unchanged(text: str) -> None:
    given = ensue.pattern("A B+").define(B=text).query
    assert ensue.pattern("A B+", trust="pattern").define(B=text).query == given
    check_query(stored.from_json(stored.to_json(given)))
    for dialect in ("spark", "databricks"):
        statement = f"SELECT k, m FROM t {CLAUSE.format('COUNT(*)', f'B AS {text}')} WHERE m > 1"
        sql_fence.check(statement, dialect, ["t"])


def test_every_function_of_the_catalogue_passes() -> None:
    """The expressions by which each entry is compared with Spark."""
    said = tomllib.loads(FUNCTIONS.read_text(encoding="utf-8"))["cases"]
    assert set(CATALOGUE) <= set(said)
    for text in (text for texts in said.values() for text in texts):
        check_condition(parse_condition(text, Scope()), text)


@pytest.mark.parametrize(
    ("statement", "word"),
    {
        "SELECT * FROM secrets {}": "the table 'secrets'",
        "SELECT * FROM parquet.`/etc/passwd` {}": "passwd",
        "SELECT * FROM \u017f {}": "the table",
        "SELECT '\\044{env:HOME}' FROM t {}": "replace",
        "SELECT CAST(m AS STRING COLLATE UNICODE) FROM t {}": "COLLATE",
        "SELECT * FROM range(10) {}": "table function",
        "SELECT * FROM read_files('/x') {}": "table function",
        "SELECT * FROM t {} JOIN secrets ON true": "secrets",
        "SELECT * FROM t {} UNION SELECT * FROM t": "SELECT",
        "SELECT (SELECT max(v) FROM t) FROM t {}": "sub-query",
        "SELECT * FROM (SELECT * FROM t) {}": "sub-query",
        "WITH t AS (SELECT 1) SELECT * FROM t {}": "sub-query",
        "CREATE TABLE x AS SELECT * FROM t {}": "CREATE",
        "INSERT INTO x SELECT * FROM t {}": "INSERT",
        "SELECT * FROM t": "without a row pattern",
        "SELECT /*+ BROADCAST(t) */ * FROM t {}": "hint",
        "SELECT 1 /* ${env:HOME} */ FROM t {}": "replaces",
        "SELECT max(reflect('a', 'b')) FROM t {} GROUP BY k": "reflect",
        "SELECT * FROM t {} ORDER BY java_method('a', 'b')": "java_method",
        "SELECT * FROM t {} LATERAL VIEW explode(array(1)) AS y": "lateral",
        "SELECT * FROM t TABLESAMPLE (5 PERCENT) {}": "tablesample",
        "SELECT TRANSFORM (k) USING 'sh' FROM t {}": "",
        "SELECT row_number() OVER (ORDER BY reflect('a', 'b')) FROM t {}": "reflect",
        "DROP TABLE t": "",
        "SELECT * FROM t {}; DROP TABLE t": "2 statements",
    }.items(),
)
def test_no_door_around_the_clause(statement: str, word: str) -> None:
    text = statement.replace("{}", CLAUSE.format("COUNT(*)", "B AS x > 1"))
    problem = refusal(lambda: sql_fence.check(text, "spark", ["t", "s"]))
    assert word in str(problem)
    assert problem.place is not None or "hint" in word
    # The same through the front door; nothing asks for a session before.
    refusal(lambda: ensue.sql(text, t=table(), trust="pattern"))
    refusal(lambda: ensue.sql(text, trust="pattern", reads="t"))


@pytest.mark.parametrize(
    ("statement", "name"),
    {
        "SELECT user FROM t {}": "user",
        "SELECT user AS user FROM t {}": "user",
        "SELECT `current_timestamp` FROM t {}": "current_timestamp",
        "SELECT upper(secret) FROM t {}": "secret",
        "SELECT session.m FROM t {}": "session.m",
        "SELECT m AS secret FROM t {} WHERE secret = 1": "secret",
        "SELECT count(*) FROM t {} GROUP BY localtimestamp": "localtimestamp",
        "SELECT max(m) OVER (ORDER BY grouping__id) FROM t {}": "grouping__id",
        "SELECT * FROM t {} AS q ORDER BY q.m, m, T.x, s.f, ts LIMIT 3": None,
        "SELECT q.z + 1 AS a, a + 1 AS b, u.name FROM t {} AS q(y, z) JOIN u ON y = k": None,
        "SELECT count(*) AS n FROM t {} GROUP BY k HAVING n > 1 ORDER BY n": None,
    }.items(),
)
def test_a_name_around_the_clause_is_a_column(statement: str, name: str | None) -> None:
    text = statement.replace("{}", CLAUSE.format("COUNT(*)", "B AS x > 1"))
    sql_fence.check(text, "spark", ["t", "u"])
    columns = {"t": ["K", "ts", "x", "s"], "u": ["name"]}
    if name is None:
        sql_fence.check_columns(text, "spark", columns.__getitem__)
        return
    problem = refusal(lambda: sql_fence.check_columns(text, "spark", columns.__getitem__))
    assert isinstance(problem, errors.UntrustedError) and f"{name!r}, which is no" in str(problem)
    assert problem.line == 1 and name.split(".")[0] in text[problem.place.offset :][:20]


def test_plain_statements_run_in_process() -> None:
    pytest.importorskip("duckdb")
    clause = CLAUSE.format("COUNT(*)", "B AS x > PREV(x)")
    text = (
        f"SELECT upper(q.k) AS k, max(m) AS n FROM T {clause} AS q JOIN u ON q.k = u.k "
        "WHERE m > 1 GROUP BY q.k HAVING count(*) > 0 ORDER BY 2 DESC LIMIT 5"
    )
    rows = pa.table({"k": ["a"] * 3, "ts": [1, 2, 3], "x": [1, 2, 3]})
    names = pa.table({"k": ["a"]})
    found = ensue.sql(text, t=rows, u=names, trust="pattern")
    assert found.to_pylist() == [{"k": "A", "n": 3}] == ensue.sql(text, t=rows, u=names).to_pylist()
    fenced("the table 'u'", lambda: ensue.sql(text, t=rows, u=names, trust="pattern", reads="t"))
    for options in ({"trust": "pattern"}, {"reads": "t"}, {"trust": "some"}):
        problem = refusal(lambda o=options: ensue.sql(text, **o))
        assert isinstance(problem, errors.QueryError)
    window = (
        "SELECT k, m OVER w, first_value(x) OVER w, row_number() OVER (ORDER BY ts) FROM t "
        "WINDOW w AS (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS m ROWS BETWEEN "
        "CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS x > PREV(x))"
    )
    sql_fence.check(window, "spark", ["t"])
    sql_fence.check("SELECT * FROM Shop.T " + clause, "trino", ["shop.t"])


def test_names_and_pyspark_free_paths_are_fenced() -> None:
    pattern = ensue.pattern("A B+", trust="pattern").define(B="x > 1")
    for change in (
        lambda: pattern.partition_by("${env:HOME}"),
        lambda: pattern.order_by("`${env:HOME}`"),
        lambda: pattern.measures(**{"${env:HOME}": "count(*)"}),
        lambda: ensue.pattern("A", types="${env:HOME}", trust="pattern"),
        lambda: ensue.sase("SEQ(A a, B b) WHERE reflect('x', a.k) = b.k", trust="pattern"),
    ):
        assert isinstance(refusal(lambda c=change: c().query), errors.UntrustedError)
    with pytest.raises(errors.QueryError, match="'all', or 'pattern'"):
        ensue.pattern("A", trust="none")


@pytest.mark.parametrize(
    "value",
    [
        c.Literal("int", "1) OR reflect('a', 'b') = (1"),
        c.Literal("double", "1"),
        c.Literal("boolean", 1),
        c.Literal("nothing", 1),
        c.TypeName("int) OR (true"),
        c.call("anonymous", this="upper(x) OR reflect", expressions=()),
        c.call("select", expressions=()),
        c.call("var", this="DAY) OR (x"),
        c.call("command", this="drop", expression="table t"),
        c.Aggregate("reflect", (c.Column("x"),)),
    ],
    ids=str,
)
def test_forged_queries_are_refused(value: Any) -> None:
    """A stored query says trees that no text would give."""
    query = replace(ensue.pattern("A B").query, measures=(Measure("m", value),))
    forged = stored.from_json(stored.to_json(query))
    assert isinstance(refusal(lambda: check_query(forged)), errors.UntrustedError)
    check_query(replace(query, measures=(Measure("m", c.Literal("decimal", Decimal("1.5"))),)))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t, secrets",
        "SELECT * FROM (SELECT * FROM secrets) {}",
        "SELECT * FROM t {} WHERE m > 1",
        "SELECT * FROM t {} JOIN secrets ON true",
        "SELECT max(m) FROM t {}",
        "WITH u AS (SELECT 1) SELECT * FROM u {}",
        "SELECT * FROM read_files('x') {}",
        "INSERT INTO x SELECT * FROM t {}",
        "SELECT DISTINCT * FROM t {}",
    ],
)
def test_an_order_is_one_clause(text: str) -> None:
    clause = CLAUSE.format("COUNT(*)", "B AS x > 1")
    refusal(lambda: read_order(text.format(clause)))
    assert read_order(f"SELECT k, m FROM t {clause}").partition_by == ("k",)

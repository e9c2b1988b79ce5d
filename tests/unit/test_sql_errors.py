"""Every error of SQL, with its text and its place: `tests/spec_sql/errors.toml` lists them."""

from __future__ import annotations

import contextlib
import re

import pyarrow as pa
import pytest
import sqlglot

import ensue
from ensue import errors
from tests import sql_errors
from tests.sql_errors import Case

pytest.importorskip("duckdb", reason="the extra `sql` is not installed")

# What is no word of ours: names of classes and of what we gave to columns, names that are empty.
_FOREIGN = re.compile(
    r"sqlglot|lark|pyarrow|polars|<class|token_type|Traceback|duckdb|_ensue_|ensue_matches|''|\"\""
    r"|\b[A-Z]\w+ Error:",
    re.IGNORECASE,
)


@pytest.mark.parametrize("case", sql_errors.cases(), ids=str)
def test_a_refusal_says_what_where_and_what_to_do(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    problem = sql_errors.said_of(case)
    assert isinstance(problem, errors.EnsueError), problem
    assert problem.remedy
    assert problem.line is not None and problem.column is not None
    said = f"line {problem.line}, column {problem.column}: {problem.problem}"
    assert (type(problem).__name__, said) == (case.error, case.says)
    ours = (said + problem.remedy).replace("'__ensue'", "the prefix")  # a name that is reserved
    foreign = _FOREIGN.search(ours)
    assert foreign is None or foreign[0] in case.sql, foreign
    assert caplog.records == []


def test_what_reads_sql_for_us_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A path that is none makes sqlglot log a warning, for Ensue not, for its own users as ever."""
    text = "SELECT get_json_object(s, '$.[') FROM t"
    with pytest.raises(errors.EnsueError):
        ensue.sql(
            text + " MATCH_RECOGNIZE (ORDER BY s PATTERN (A) DEFINE A AS", t=pa.table({"s": ["a"]})
        )
    with contextlib.suppress(errors.EnsueError):
        asked = ensue.pattern("A").define(A="get_json_object(s, '$.[') = 'a'")
        asked.order_by("s").count(pa.table({"s": ["a"]}))
    assert caplog.records == []
    sqlglot.parse_one(text, read="spark")
    assert len(caplog.records) == 1


def test_the_page_of_errors_is_that_of_the_cases() -> None:
    assert len(sql_errors.cases()) > 300
    assert sql_errors.PAGE.read_text() == sql_errors.page(), "run python -m tests.sql_errors"

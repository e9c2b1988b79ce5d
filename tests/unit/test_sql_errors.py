"""Every error of SQL, with its text and its place: `tests/spec_sql/errors.toml` lists them."""

from __future__ import annotations

import re

import pytest

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
def test_a_refusal_says_what_where_and_what_to_do(case: Case) -> None:
    problem = sql_errors.said_of(case)
    assert isinstance(problem, errors.EnsueError), problem
    assert problem.remedy
    assert problem.line is not None and problem.column is not None
    said = f"line {problem.line}, column {problem.column}: {problem.problem}"
    assert (type(problem).__name__, said) == (case.error, case.says)
    ours = (said + problem.remedy).replace("'__ensue'", "the prefix")  # a name that is reserved
    foreign = _FOREIGN.search(ours)
    assert foreign is None or foreign[0] in case.sql, foreign


def test_the_page_of_errors_is_that_of_the_cases() -> None:
    assert len(sql_errors.cases()) > 300
    assert sql_errors.PAGE.read_text() == sql_errors.page(), "run python -m tests.sql_errors"

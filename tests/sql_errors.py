"""The errors of SQL: the statements of tests/spec_sql/errors.toml, and the page made of them.

`python -m tests.sql_errors` writes docs/sql-errors.md. A case gives a whole statement (`sql`) or
the inside of a clause (`clause`), and what is said of it. `@` stands for a pattern window.
"""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import ensue

ROOT = Path(__file__).parent.parent
SPEC, PAGE = ROOT / "tests/spec_sql/errors.toml", ROOT / "docs/sql-errors.md"
_WINDOW = """ORDER BY id MEASURES LAST(B.v) AS m
  ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+)"""
TABLES = {
    "t": pa.table({"k": list("aaab"), "id": [1, 2, 3, 4], "v": [9, 8, 7, 9]}),
    "u": pa.table({"id": [1, 2]}),
}
_HEAD = """# Errors of SQL

Statements that are refused, and the errors they get. `python -m tests.sql_errors` writes this page
from `tests/spec_sql/errors.toml`, and a test compares the two. The statements run over the tables
`t(k, id, v)` and `u(id)`; below each stand the class of the error and its message.
"""


@dataclass(frozen=True)
class Case:
    group: str
    sql: str
    error: str
    says: str
    dialect: str = "spark"

    def __str__(self) -> str:
        return self.sql


def cases() -> list[Case]:
    found = []
    for group in tomllib.loads(SPEC.read_text())["group"]:
        for case in group["case"]:
            given: dict[str, Any] = dict(case)
            clause = given.pop("clause", None)
            text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})" if clause else given.pop("sql")
            text = text.replace("@", _WINDOW)
            found.append(Case(group["name"], text, **given))
    return found


def said_of(case: Case) -> BaseException | None:
    """What a statement raises; windows are read without Spark, so nothing runs for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if " OVER " in case.sql and "MATCH_RECOGNIZE" not in case.sql:
                ensue.explain(case.sql, dialect=case.dialect)
            else:
                ensue.sql(case.sql, dialect=case.dialect, tables=TABLES)
        except Exception as problem:
            return problem
    return None


def page() -> str:
    parts, group = [_HEAD], ""
    for case in cases():
        if case.group != group:
            group = case.group
            parts.append(f"## {group}\n")
        language = "sql" if case.dialect == "spark" else f"sql {case.dialect}"
        parts.append(f"```{language}\n{case.sql}\n```\n\n`{case.error}`: {_quoted(case.says)}\n")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    """A message as text in which no sign is Markdown's."""
    return f"`` {text} ``"


if __name__ == "__main__":
    PAGE.write_text(page())

"""The dry run of an edit: what appears and what disappears."""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import ensue
from ensue import errors

KINDS = "abc"


def stream(text: str) -> pa.Table:
    return pa.table({"t": range(len(text)), "kind": list(text)})


def pattern(text: str) -> ensue.Pattern:
    return ensue.pattern(text, types="kind").order_by("t")


def matches(asked: ensue.Pattern, table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        tuple((e["label"], e["row"]) for e in row["events"])
        for row in asked.matches(table).to_pylist()
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("a b", "a b+"), ("a -> b", "a ->> b"), ("a b", "a -> b"), ("a", "b"), ("a b? c", "a b* c")],
)
def test_it_is_the_difference_of_two_runs(old: str, new: str) -> None:
    for letters in product(KINDS, repeat=4):
        table = stream("".join(letters))
        before, after = matches(pattern(old), table), matches(pattern(new), table)
        found = pattern(old).diff(pattern(new), table).to_pylist()
        by_op: dict[str, list[Any]] = {"+": [], "-": []}
        for row in found:
            by_op[row["op"]].append(tuple((e["label"], e["row"]) for e in row["events"]))
        assert sorted(by_op["+"]) == sorted(m for m in after if m not in before)
        assert sorted(by_op["-"]) == sorted(m for m in before if m not in after)


def test_measures_and_rows_per_match_are_no_difference() -> None:
    one = pattern("a b").measures(n="COUNT(*)")
    other = pattern("a b").rows_per_match("all rows").measures(label="CLASSIFIER()")
    found = one.diff(other, stream("abab"))
    assert found.num_rows == 0
    assert found.column_names == ["op", "first", "last", "events"]


def test_it_comes_back_in_kind() -> None:
    found = pattern("a b").diff(pattern("b"), stream("ab").to_pandas())
    assert isinstance(found, pd.DataFrame)
    assert found["op"].tolist() == ["-", "+"]


def test_patterns_that_cut_the_rows_differently_cannot_be_compared() -> None:
    with pytest.raises(errors.QueryError, match="partition or order the rows differently"):
        pattern("a").diff(pattern("a").partition_by("kind"), stream("ab"))

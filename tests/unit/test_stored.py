"""Queries as JSON: every query comes back, and nothing else gets in."""

from __future__ import annotations

import json

import pytest

import ensue
from ensue import errors
from ensue.query.stored import from_json, to_json
from tests import sequence_specs, specs


def test_every_spec_comes_back() -> None:
    queries = [case.query() for case in specs.cases() if case.error is None]
    queries += [case.pattern.query for case in sequence_specs.cases()]
    assert len(queries) > 300
    for query in queries:
        assert from_json(to_json(query)) == query


def test_numbers_and_missing_events_come_back() -> None:
    pattern = ensue.pattern("A ->> B").define(A="x > 1.50", B="x > 1e300 OR x < -7")
    query = pattern.within(2.5).order_by("t").allow_missing(1).query
    assert from_json(to_json(query).encode()) == query


def test_only_what_differs_from_a_default_is_written() -> None:
    told = json.loads(to_json(ensue.pattern("A").query))["query"]
    assert set(told) == {"", "pattern"}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"ensue query": 1, "query": {"": "Label", "name": "A"}}',
        '{"ensue query": 1, "query": {"": "Popen", "args": "ls"}}',
        '{"ensue query": 1, "query": {"": "Query", "nothing": 1}}',
        '{"ensue query": 1, "query": {"": "Query", "pattern": {"": "Decimal", "is": "x"}}}',
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(errors.StateError, match="not a stored query"):
        from_json(text)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(errors.StateError, match="of version 2"):
        from_json('{"ensue query": 2, "query": null}')

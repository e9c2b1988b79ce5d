"""The spec cases against the oracle: what was derived by hand, and what brute force finds."""

from __future__ import annotations

import re
from itertools import permutations

import pyarrow as pa
import pytest

from ensue.query import nodes
from ensue.query.query import Query
from tests import oracle, specs
from tests.generate import short_streams, small_patterns, stream_query, stream_table


def run(query: Query, table: pa.Table) -> tuple[list[str], list[specs.Row]]:
    result = oracle.run(query, table.to_pylist(), table.column_names)
    return result.columns, result.rows


@pytest.mark.parametrize("case", specs.cases(), ids=str)
def test_oracle_gives_what_was_derived_by_hand(case: specs.Case) -> None:
    specs.check(case, run)


@pytest.mark.parametrize("rule", range(1, 13))
def test_every_rule_has_cases(rule: int) -> None:
    covered = [case for case in specs.cases() if case.data.get("rule") == rule]
    assert len(covered) >= 3


def test_there_are_enough_cases() -> None:
    assert len(specs.cases()) >= 120


def test_the_order_of_the_input_rows_does_not_matter() -> None:
    for case in specs.cases():
        if case.error is None:
            query, rows, columns = case.query(), case.input, case.table.column_names
            forwards = oracle.run(query, rows, columns).rows
            backwards = oracle.run(query, rows[::-1], columns).rows
            assert specs.comparable(query, forwards) == specs.comparable(query, backwards), case


def test_preference_is_that_of_backtracking_regular_expressions() -> None:
    # Python's `re` prefers as the standard does, except where an iteration takes no row.
    streams = short_streams(5)
    rows = stream_table(streams).to_pylist()
    compared = 0
    for size in (1, 2, 3, 4):
        for pattern in small_patterns(size)[:: 1 if size < 4 else 7]:
            repeated = [n.part for n in nodes.walk(pattern) if isinstance(n, nodes.Repetition)]
            if any(_may_be_empty(part) for part in repeated):
                continue
            compared += 1
            expression = re.compile(_expression(pattern))
            found: dict[int, list[int]] = {number: [] for number in range(len(streams))}
            for match in oracle.run(stream_query(pattern, "overlap"), rows).rows:
                found[match["stream"]].append(len(match["events"]))
            for number, text in enumerate(streams):
                matches = (expression.match(text, start) for start in range(len(text)))
                lengths = [len(match.group()) for match in matches if match]
                assert found[number] == lengths, f"{nodes.pattern_text(pattern)} on {text}"
    assert compared > 500


def _may_be_empty(node: nodes.Node) -> bool:
    match node:
        case nodes.Label():
            return False
        case nodes.Alternation(options=options):
            return any(_may_be_empty(option) for option in options)
        case nodes.Repetition(part=part, least=least):
            return least == 0 or _may_be_empty(part)
    return all(_may_be_empty(part) for part in nodes.children(node))


def _expression(node: nodes.Node) -> str:
    """The regular expression of a pattern in which A is the letter a and B any letter."""
    inside = [f"(?:{_expression(part)})" for part in nodes.children(node)]
    match node:
        case nodes.Label(name=name):
            return "a" if name == "A" else "."
        case nodes.AnchorStart():
            return r"\A"
        case nodes.AnchorEnd():
            return r"\Z"
        case nodes.Alternation():
            return "|".join(inside)
        case nodes.Permutation():
            return "|".join("".join(order) for order in permutations(inside))
        case nodes.Repetition(least=least, most=most, greedy=greedy):
            most_text = "" if most is None else str(most)
            return f"{inside[0]}{{{least},{most_text}}}{'' if greedy else '?'}"
    return "".join(inside)

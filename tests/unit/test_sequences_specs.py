"""The spec cases of event patterns in process, and by the oracle."""

from __future__ import annotations

import pytest

from tests import oracle_sequences, sequence_specs


@pytest.mark.parametrize("case", sequence_specs.cases(), ids=str)
def test_in_process(case: sequence_specs.Case) -> None:
    found = case.pattern.matches(case.table).to_pylist()
    assert sequence_specs.shown(found) == case.expected
    assert case.pattern.count(case.table) == len(case.expected)


def test_all_rows_are_those_of_the_matches() -> None:
    for case in sequence_specs.cases():
        listed = case.pattern.matches(case.table).to_pylist()
        rows = case.pattern.with_row_ids(case.table).sort_by("row").to_pylist()
        whole = case.pattern.rows_per_match("all rows")
        found = whole.matches(case.table)
        assert found.column_names == ["time", "id", "match_number", "label", "kind"]
        assert found.to_pylist() == [
            {
                "time": rows[event["row"]]["time"],
                "id": rows[event["row"]]["id"],
                "match_number": match["match_number"],
                "label": event["label"],
                "kind": rows[event["row"]]["kind"],
            }
            for match in listed
            for event in match["events"]
        ], case


def _plain(case: sequence_specs.Case) -> bool:
    """The oracle's greed and `until` know single steps; rows that fit a "not" and a step differ."""
    return not any(word in str(case) for word in ("greedy", "until", "not"))


@pytest.mark.parametrize("case", [c for c in sequence_specs.cases() if _plain(c)], ids=str)
def test_oracle(case: sequence_specs.Case) -> None:
    found = oracle_sequences.matches(case.pattern.query, case.table.to_pylist())
    shown = sorted(" ".join(f"{row}:{label}" for label, row in pairs) for pairs in found)
    assert shown == case.expected

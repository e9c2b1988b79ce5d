"""Thirty situations that surprised a newcomer: what happened, what happens now, and the test of it.

The tests lie where their subject is; this is where one reads them together. Each entry names a test
that fails when the situation surprises again.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]


class Situation(NamedTuple):
    what: str
    before: str
    now: str
    test: str


SITUATIONS = [
    Situation(
        "Carts not paid within an hour, asked in SQL, fluently and as `cart -> !pay`",
        "three different counts",
        "one count for all ways; `open` apart from `timeout`",
        "spark/test_abandonment.py::test_every_way_gives_the_carts_counted_by_hand",
    ),
    Situation(
        "`F{3} -> S` as text and step by step",
        "strict and relaxed loops that printed alike",
        "the same query; strict is `F{3}[strict]`",
        "unit/test_surprises.py::test_a_loop_at_the_beginning_means_in_text_what_it_means_step_by_step",
    ),
    Situation(
        "Two queries that mean different things",
        "printed the same",
        "differ in repr, text and explain",
        "unit/test_surprises.py::test_queries_that_differ_print_differently",
    ),
    Situation(
        "No order_by on a DataFrame",
        "a wrong answer",
        "refused, with the remedy",
        "spark/test_surprises_on_spark.py::test_a_forgotten_order_is_refused",
    ),
    Situation(
        "No ORDER BY in SQL",
        "a wrong answer",
        "one warning",
        "spark/test_surprises_on_spark.py::test_sql_without_an_order_warns_once",
    ),
    Situation(
        "No order_by on a table with a column of time",
        "the order of the table, in silence",
        "one warning",
        "unit/test_surprises.py::test_a_forgotten_order_is_warned_of_once_per_query",
    ),
    Situation(
        "Rows that tie in the order",
        "an answer by chance",
        "counted; error, warning or neither, as asked",
        "unit/test_surprises.py::test_ties_are_counted",
    ),
    Situation(
        "No partition_by over a table with a key",
        "one long partition",
        "explain names the key",
        "unit/test_surprises.py::test_explain_names_a_key_that_was_forgotten",
    ),
    Situation(
        "A type that does not occur",
        "no match, no word",
        "a warning with the nearest value",
        "unit/test_nothing_matches.py::test_a_type_that_does_not_occur_is_named_with_the_nearest",
    ),
    Situation(
        "A type in the wrong case",
        "no match, no word",
        "a warning that says so",
        "unit/test_nothing_matches.py::test_wrong_case_is_named_as_such",
    ),
    Situation(
        "A condition that nothing can satisfy",
        "no match, no word",
        "a warning that says so",
        "unit/test_nothing_matches.py::test_a_condition_that_no_value_satisfies",
    ),
    Situation(
        "`count` of nothing on Spark",
        "0",
        "0 and the reason",
        "spark/test_surprises_on_spark.py::test_a_count_of_nothing_says_why",
    ),
    Situation(
        "Which variables have rows, and how far attempts get",
        "not to be seen",
        "in explain(data)",
        "unit/test_nothing_matches.py::test_explain_counts_attempts_by_the_place_they_reach",
    ),
    Situation(
        "A share of the work over short sessions",
        "sheds nothing and says nothing",
        "holds from the first row",
        "unit/test_bounds_hold.py::test_thirty_patterns_over_short_sessions_keep_to_a_share_of_work",
    ),
    Situation(
        "A bound that cannot hold",
        "silence",
        "the report and a warning say why",
        "unit/test_bounds_hold.py::test_where_there_are_too_few_rows_the_report_and_a_warning_say_so",
    ),
    Situation(
        "foreachBatch with two actions",
        "stack traces in the log",
        "each row counted once",
        "spark/test_surprises_on_spark.py::test_a_sink_with_two_actions_counts_each_row_once",
    ),
    Situation(
        "A machine without Java",
        "Spark does not start",
        "a plain session starts on the packaged one and says so",
        "spark/test_java_from_wheel.py::test_a_plain_session_starts_on_the_java_of_the_wheel",
    ),
    Situation(
        "A feature without its extra",
        "ModuleNotFoundError",
        "the extra is named",
        "unit/test_import.py::test_plots_are_named_and_svg_needs_none",
    ),
    Situation(
        "SQL over a pandas frame or a file",
        "needs Spark",
        "ensue.sql(..., events=frame)",
        "unit/test_sql_tables.py::test_every_kind_of_table_is_one",
    ),
    Situation(
        'partition_by(["a", "b"])',
        "TypeError",
        "two keys",
        "unit/test_expected.py::test_keys_come_as_arguments_or_as_a_list",
    ),
    Situation(
        "within(timedelta(hours=1))",
        "an error",
        "an hour",
        "unit/test_expected.py::test_a_window_is_a_timedelta_or_its_text",
    ),
    Situation(
        "define of a label that has a condition",
        "an error",
        "replaces it",
        "unit/test_expected.py::test_a_label_defined_again_gets_the_new_condition",
    ),
    Situation(
        "A path or a LazyFrame as data",
        "an error",
        "read; a LazyFrame gives a LazyFrame",
        "unit/test_expected.py::test_a_lazy_frame_in_is_a_lazy_frame_out",
    ),
    Situation(
        "The rows of an event pattern's matches",
        "labels and row numbers only",
        "all rows with all their columns",
        "unit/test_sequences_api.py::test_all_rows_per_match",
    ),
    Situation(
        "Joining `events.row` with the rows",
        "row numbers of nothing one has",
        "with_row_ids",
        "unit/test_expected.py::test_row_ids_join_matches_with_their_rows",
    ),
    Situation(
        "Looking at matches",
        "to_pylist",
        "show, timeline, reports as tables",
        "unit/test_expected.py::test_any_query_draws_its_matches",
    ),
    Situation(
        "The automaton's picture",
        "labels without conditions",
        "conditions, short; in full in the tooltips",
        "unit/test_picture.py::test_conditions_are_drawn_short_and_told_in_full",
    ),
    Situation(
        "LAG in a condition, `regexp_extract` in a message",
        "an unknown function, another spelling",
        "PREV is suggested, names stand as typed",
        "unit/test_expected.py::test_messages_name_things_as_they_were_typed",
    ),
    Situation(
        "A misspelled option",
        "TypeError",
        "the options there are",
        "unit/test_expected.py::test_an_unknown_option_names_those_there_are",
    ),
    Situation(
        "A first query that compiles",
        "silence for a long time",
        "a line that says what and how long",
        "unit/test_warm.py::test_every_long_compile_is_told_with_its_name",
    ),
]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.what)
def test_each_situation_has_its_test(situation: Situation) -> None:
    path, _, name = situation.test.partition("::")
    assert name in names_in(path)


def test_there_are_thirty() -> None:
    assert len({situation.what for situation in SITUATIONS}) == 30

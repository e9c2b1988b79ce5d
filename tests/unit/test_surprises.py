"""Mistakes that used to give an answer give a word: refused, warned of, or counted."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue import errors
from ensue.front.grammar import parse_pattern
from ensue.operator.sorting import sorted_events
from ensue.query import nodes
from ensue.query.query import Ties
from tests.share import examples

CLICKS = pa.table(
    {
        "user": ["a", "a", "a", "b", "b", "b"],
        "ts": [3, 1, 2, 1, 2, 2],
        "kind": ["pay", "view", "cart", "view", "cart", "pay"],
    }
)
VIEW_PAY = ensue.pattern("view -> pay", types="kind").partition_by("user")


def quiet(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


# -- names -----------------------------------------------------------------------------------------


def test_a_missing_column_is_told_where_it_was_named() -> None:
    with pytest.raises(errors.UnknownColumnError, match=r"types='kinds'(.|\n)*did you mean: kind"):
        ensue.pattern("view -> pay", types="kinds").order_by("ts").matches(CLICKS)
    with pytest.raises(errors.UnknownColumnError, match="column 1: DEFINE view: the input"):
        ensue.pattern("view -> pay").define(view="kinds = 'view'").order_by("ts").why(CLICKS)
    indexed = CLICKS.to_pandas().set_index(["user", "ts"])
    for ask in (VIEW_PAY.matches, VIEW_PAY.why, VIEW_PAY.order_by("ts").count):
        with pytest.raises(errors.UnknownColumnError, match=r"index(.|\n)*reset_index\(\)"):
            ask(indexed)


@pytest.mark.parametrize(
    ("verb", "given", "form"),
    [
        ("measures", "COUNT(*) AS rows", 'measures(rows="COUNT(*)")'),
        ("measures", 7, 'measures(n="...")'),
        ("define", "x > 1", 'define(view="x > 1")'),
        ("define", "pay AS x > 1", 'define(pay="x > 1")'),
        ("without", "x > 1", 'without(stop="x > 1")'),
    ],
)
def test_what_has_no_name_is_shown_with_one(verb: str, given: object, form: str) -> None:
    chain = ensue.begin("view").followed_by("pay")
    for query in (VIEW_PAY, chain):
        with pytest.raises(errors.QueryError, match=f"write {re.escape(form)}"):
            getattr(query, verb)(given)


def test_a_workload_shows_its_patterns() -> None:
    assert repr(ensue.workload(a=VIEW_PAY, b=VIEW_PAY)) == (
        f"<ensue workload: a={VIEW_PAY!r}, b={VIEW_PAY!r}>"
    )
    many = ensue.workload({f"q{number}": VIEW_PAY for number in range(1200)})
    assert repr(many).endswith(f"q9={VIEW_PAY!r}, and 1,190 more>")


# -- the order ------------------------------------------------------------------------------------


def test_a_forgotten_order_is_warned_of_once_per_query() -> None:
    query = ensue.pattern("view -> pay", types="kind").partition_by("user")
    with pytest.warns(errors.OrderWarning, match="'ts' looks like time") as told:
        query.matches(CLICKS)
        query.count(CLICKS)
    assert len(told) == 1
    assert told[0].filename == __file__
    with pytest.warns(errors.OrderWarning):
        ensue.workload(a=VIEW_PAY).matches(CLICKS)


def test_an_order_left_open_on_purpose_is_the_order_of_the_table() -> None:
    meant = VIEW_PAY.order_by(ensue.UNORDERED)
    assert quiet(lambda: meant.count(CLICKS)) == 1
    assert quiet(lambda: VIEW_PAY.order_by("ts", ties="ignore").count(CLICKS)) == 2
    assert meant == VIEW_PAY
    assert quiet(lambda: VIEW_PAY.count(CLICKS.rename_columns(["user", "n", "kind"]))) == 1


def test_columns_beside_unordered_are_refused() -> None:
    with pytest.raises(errors.QueryError, match="UNORDERED"):
        VIEW_PAY.order_by("ts", ensue.UNORDERED)
    with pytest.raises(errors.QueryError, match="ties='never'"):
        VIEW_PAY.order_by("ts", ties="never")


def test_an_order_left_open_is_refused_by_matchers() -> None:
    with pytest.raises(errors.EnsueError, match="order_by"):
        VIEW_PAY.order_by(ensue.UNORDERED).matcher()


@pytest.mark.parametrize("verb", ["matches", "count", "workload"])
def test_ties_are_counted(verb: str) -> None:
    query = ensue.pattern("cart -> pay", types="kind").partition_by("user").order_by("ts")
    with pytest.warns(errors.TiesWarning, match="2 rows share ts and user") as told:
        if verb == "workload":
            ensue.workload(a=query, b=query.within(5)).matches(CLICKS)
        else:
            getattr(query, verb)(CLICKS)
            getattr(query, verb)(CLICKS)
    assert len(told) == 1
    assert "further columns" in str(told[0].message)


def test_ties_that_cannot_change_the_answer_are_none() -> None:
    # The cart beside the payment is no event of this pattern, and skipping does not see it.
    quiet(lambda: VIEW_PAY.order_by("ts", ties="error").count(CLICKS))
    strict = ensue.pattern("view pay", types="kind").partition_by("user")
    with pytest.raises(errors.TiesError, match="2 rows share ts and user"):
        strict.order_by("ts", ties="error").matches(CLICKS)
    twice = pa.concat_tables([CLICKS.slice(0, 3), CLICKS.slice(0, 3)])
    quiet(lambda: strict.order_by("ts", ties="error").matches(twice))
    quiet(lambda: strict.order_by("ts", "kind", ties="error").matches(CLICKS))


def test_what_to_do_about_ties_is_no_part_of_the_question() -> None:
    strict, lax = (VIEW_PAY.order_by("ts", ties=word) for word in ("error", "ignore"))
    assert strict == lax
    assert strict.plan.fingerprint == lax.plan.fingerprint


def test_explain_names_a_key_that_was_forgotten() -> None:
    query = ensue.pattern("view -> pay", types="kind").order_by("ts")
    assert "hint: all rows are one partition, and 'user'" in query.explain(CLICKS)
    assert "hint" not in query.partition_by("user").explain(CLICKS)
    assert "hint" not in query.explain()


def test_a_task_writes_its_ties_to_the_log_once(capsys: pytest.CaptureFixture[str]) -> None:
    query = ensue.pattern("cart+ pay", types="kind").partition_by("user").order_by("ts").query
    batches = CLICKS.append_column("seen", pa.array(range(6))).to_batches()
    for _ in range(2):
        list(sorted_events(batches, batches[0].schema, query))
    assert capsys.readouterr().err.count("TiesWarning: 2 rows share ts and user") == 1
    with pytest.raises(errors.TiesError):
        list(sorted_events(batches, batches[0].schema, replace(query, ties=Ties.ERROR)))


# -- text and builder -----------------------------------------------------------------------------

FAILURES = pa.table({"t": range(6), "kind": list("FXFFXS")})


def test_a_loop_at_the_beginning_means_in_text_what_it_means_step_by_step() -> None:
    text = ensue.pattern("F{3} -> S", types="kind").order_by("t")
    steps = ensue.begin("F").where("kind = 'F'").times(3).followed_by("S").where("kind = 'S'")
    assert text == steps.order_by("t")
    assert repr(text) == "<ensue pattern: F{3} -> S; types kind; order by t>"
    assert repr(text) == repr(steps.order_by("t"))
    assert text.count(FAILURES) == steps.order_by("t").count(FAILURES) == 1
    strict = ensue.pattern("F{3}[strict] -> S", types="kind").order_by("t")
    assert strict == ensue.begin("F").where("kind = 'F'").times(3).consecutive().followed_by(
        "S"
    ).where("kind = 'S'").order_by("t")
    assert strict.count(FAILURES) == 0
    assert repr(strict) == "<ensue pattern: F{3}[strict] -> S; types kind; order by t>"
    assert strict.explain() != text.explain()


def test_a_loop_behind_an_arrow_keeps_the_policy_of_that_arrow() -> None:
    any_way = ensue.pattern("F ->> F+ -> S", types="kind").order_by("t")
    assert any_way == ensue.pattern("F ->> F+[any] -> S", types="kind").order_by("t")
    assert any_way != ensue.pattern("F ->> F+[next] -> S", types="kind").order_by("t")
    behind_a_blank = ensue.pattern("F F+ -> S", types="kind")
    assert behind_a_blank == ensue.pattern("F F+[strict] -> S", types="kind")
    assert ensue.pattern("(F{2}[strict]) -> S") == ensue.pattern("F{2}[strict] -> S")


def test_a_mark_wins_over_select() -> None:
    marked = ensue.pattern("F{3}[strict] S", types="kind").select("any").order_by("t")
    assert marked == ensue.pattern("F{3}[strict] ->> S", types="kind").order_by("t")
    assert marked.count(FAILURES) == 0
    blank = ensue.pattern("F{3} S", types="kind").select("any").order_by("t")
    assert blank.count(FAILURES) == 1
    assert repr(marked) == "<ensue pattern: F{3}[strict] ->> S; types kind; order by t>"
    assert repr(blank) == "<ensue pattern: F{3} ->> S; types kind; order by t>"


@pytest.mark.parametrize("text", ["F[strict] -> S", "F+[loose] -> S", "F+[] -> S", "F+[any any]"])
def test_marks_that_are_not_known(text: str) -> None:
    with pytest.raises(errors.PatternSyntaxError):
        ensue.pattern(text)


PARTS = st.sampled_from(
    [
        "A",
        "a",
        '"within"',
        '"A b"',
        "B+",
        "A{2}",
        "B*?",
        "PERMUTE(A, B)",
        "(A -> B)+",
        "(A | B+)",
        "A?",
    ]
)
MARKS = st.sampled_from(
    ["", "[strict]", "[next]", "[any]", "[any, within 5 us]", "[within 5 units]"]
)
LOOP_MARKS = st.sampled_from(["", "[greedy]", "[until X]", '[strict, greedy, until "x y"]'])


@st.composite
def trees(draw: st.DrawFn) -> nodes.Node:
    text = ""
    for number in range(draw(st.integers(1, 3))):
        if number:
            text += draw(st.sampled_from([" ", " -> ", " ->> ", " -> within 3 us "]))
        part = draw(PARTS)
        loop = part[-1] in "+}*?"
        text += part
        text += draw(LOOP_MARKS if loop and draw(st.booleans()) else MARKS) * (
            loop or part.startswith("PERMUTE")
        )
    return parse_pattern(text)


@settings(max_examples=examples(300), deadline=None)
@given(trees(), trees())
def test_texts_are_equal_where_patterns_are(one: nodes.Node, other: nodes.Node) -> None:
    for folds in (True, False):
        texts = [nodes.pattern_text(node, folds=folds) for node in (one, other)]
        assert parse_pattern(texts[0]) == one
        assert (texts[0] == texts[1]) == (one == other)
    # Another policy in each loop is another pattern, and another text.
    for policy in nodes.Policy:
        changed = inside(one, policy)
        assert (nodes.pattern_text(one) == nodes.pattern_text(changed)) == (one == changed)
        assert parse_pattern(nodes.pattern_text(changed)) == changed


SAYINGS: list[Callable[[ensue.Pattern], ensue.Pattern]] = [
    lambda q: q.within(5),
    lambda q: q.within("5 us"),
    lambda q: q.within("5 rows"),
    lambda q: q.partition_by("u"),
    lambda q: q.order_by("t", "x"),
    lambda q: q.order_by("t DESC"),
    lambda q: q.order_by("t NULLS LAST"),
    lambda q: q.after_match("to next row"),
    lambda q: q.after_match("past last row"),
    lambda q: q.after_match("to first a"),
    lambda q: q.after_match("to first a", required=True),
    lambda q: q.define(a="x > 1"),
    lambda q: q.define(a="x > 1.0"),
    lambda q: q.define(a="kind = 'a'"),
    lambda q: q.define(a="kind = 'a'", b="kind = 'b'"),
    lambda q: q.subset(W="a, b"),
    lambda q: q.measures(n="COUNT(*)"),
    lambda q: q.measures(n="COUNT(a.*)"),
    lambda q: q.rows_per_match("all rows"),
    lambda q: q.select("strict"),
    lambda q: q.select("next"),
    lambda q: q.without(c="x > 1"),
    lambda q: q.select("any").allow_missing(1),
    lambda q: q.select("any").allow_missing(1, required=["a"]),
    lambda q: q.select("any").allow_missing(1, missing={"a": 2}),
    lambda q: q.select("any").allow_missing(1, learn=7),
]


@pytest.mark.filterwarnings("ignore::ensue.query.missing.NearlyEverythingMatchesWarning")
def test_queries_that_differ_print_differently() -> None:
    """By `repr` and by `explain`, and those that are equal print alike."""
    bare = [ensue.pattern("a b+"), ensue.pattern("a b+", types="kind"), ensue.pattern("a ->> b+")]
    queries = [say(query.order_by("t")) for query in bare for say in (lambda q: q, *SAYINGS)]
    for print_ in (repr, lambda q: q.explain()):
        printed: dict[Any, str] = {}
        for query in queries:
            assert printed.setdefault(query.query, print_(query)) == print_(query)
        assert len(set(printed.values())) == len(printed)
    assert len(printed) > 70
    # What does not fit together yet is shown as far as it goes.
    unfinished = ensue.pattern("a b+").within(5)
    assert repr(unfinished) == "<ensue pattern: a b+>"


def inside(node: nodes.Node, policy: nodes.Policy) -> nodes.Node:
    changed = nodes.rebuilt(node, lambda part: inside(part, policy))
    if isinstance(changed, nodes.Repetition | nodes.Permutation):
        return replace(changed, gap=nodes.Gap(policy))
    return changed

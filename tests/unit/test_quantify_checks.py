"""Checks at build time, each with a witness; and the bad input of the issue, message by message."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantify.reading import read_predicate as _predicate
from ensue.quantities.folds import COLLECTS
from ensue.quantities.language import ambiguous_word, distinguishing_word, underlying
from ensue.quantities.model import Collect, Expression
from ensue.quantities.predicates import alphabet
from ensue.scalar import kinds as k
from tests.oracle_quantify import NOTHING, evaluate

EVENTS = pa.table({"x": [1, 2, 3], "kind": ["a", "b", "a"]})


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("x > 0", "x <= 0", False),
        ("x > 0", "x < 5", True),
        ("x > 5", "x < 5", False),
        ("x = 1", "x = 2", False),
        ("kind = 'a'", "kind = 'b'", False),
        ("kind = 'a'", "kind <> 'b'", True),
        ("kind IN ('a', 'b')", "kind = 'c'", False),
        ("flag", "NOT flag", False),
        ("x IS NULL", "x > 0", False),
        ("x IS NULL", "x IS NOT NULL", False),
        ("x BETWEEN 1 AND 3", "x > 3", False),
        ("x > 0 OR kind = 'a'", "x <= 0 AND kind = 'a'", True),
        ("x % 2 = 0", "x % 2 = 1", False),
        ("length(kind) > 3", "length(kind) <= 3", False),
        ("kind < 'm'", "kind >= 'm'", False),
        ("x + y > 3", "x + y <= 3", False),
        ("x > y", "y > x", False),
        ("NOT (x > 0)", "x > 0", False),
        ("NOT ((x > 0) IS TRUE)", "x > 0", False),
    ],
)
def test_predicates_are_decided_over_the_columns(one: str, other: str, together: bool) -> None:
    letters = alphabet([_predicate(one), _predicate(other)]).letters
    assert any(letter.holds == 3 for letter in letters) == together


def test_types_sharpen_the_decision() -> None:
    parts = [_predicate("x + 1 > 5"), _predicate("x > 3")]
    untyped = {letter.holds for letter in alphabet(parts).letters if letter.certain}
    typed = {letter.holds for letter in alphabet(parts, {"x": k.BIGINT}).letters}
    assert typed == {0, 2, 3}  # x = 4 alone tells them apart
    assert untyped <= {0, 1, 2, 3}


def test_witness_of_an_ambiguous_split_is_real() -> None:
    with pytest.raises(errors.AmbiguousError, match=r"\{x=[\d.]+\}, \{x=[\d.]+\}, ") as caught:
        q.split("a + b", q.sum("x", over="x > 0"), q.sum("x", over="x > 0"))
    assert "in two ways" in caught.value.problem and caught.value.remedy


def test_choose_and_iter_inherit_the_check() -> None:
    with pytest.raises(errors.AmbiguousError, match=r"\{x=5\}"):
        q.choose(q.event("x > 0", 1), q.event("x >= 5 AND x <= 5", 2))
    with pytest.raises(errors.AmbiguousError):
        q.iter("sum", q.sum("x"))


def test_parallel_consistency_by_counting() -> None:
    pairs = q.iter("sum", q.split("a + b", q.event("x > 0", 1), q.event("x > 0", 1)), start=0)
    even = (
        q.automaton("sum", name="even")
        .initial("e", 0)
        .step("e", "o", "x > 0", 1)
        .step("o", "e", "x > 0", 1)
        .final("e")
        .build()
    )
    f = q.combine("a - b", pairs, even)
    assert f.eval(pa.table({"x": [1, 1, 1, 1]})) == 0
    assert f.eval(pa.table({"x": [1, 1, 1]})) is None
    odd = q.split("a + b", even, q.event("x > 0", 1))
    with pytest.raises(errors.InconsistentError, match="with no event at all"):
        q.combine("a - b", even, odd)


def test_distinguishing_words_against_all_short_words() -> None:
    """Languages of small unambiguous queries, compared word by word."""
    x = q.event("x > 0", 1)
    y = q.event("x <= 0", 1)
    queries = [
        q.iter("sum", x, start=0),
        q.iter("sum", x),
        q.split("a + b", q.iter("sum", x, start=0), y),
        q.iter("sum", q.split("a + b", x, y), start=0),
        q.choose(x, y),
        q.iter("sum", q.choose(x, y), start=0),
        q.split("a + b", q.iter("sum", x, start=0), q.iter("sum", y, start=0)),
        q.split("a + b", x, q.iter("sum", q.choose(x, y), start=0)),
        q.iter("sum", q.choose(q.split("a + b", x, x), y), start=0),
    ]
    letters = alphabet([p for f in queries for p in f.automaton.predicates()])
    everything = frozenset(range(len(letters.letters)))
    nfas = [underlying(f.automaton, letters) for f in queries]
    words = [w for n in range(6) for w in itertools.product((1, -1), repeat=n)]
    languages = [
        {w for w in words if evaluate(f.automaton, [{"x": v} for v in w]) is not NOTHING}
        for f in queries
    ]
    for (a, first), (b, second) in itertools.product(zip(nfas, languages, strict=True), repeat=2):
        assert ambiguous_word(a, everything) is None
        assert (distinguishing_word(a, b, everything) is None) == (first == second)


def test_left_distributivity_is_known_tested_or_declared() -> None:
    def shortest(fold: str, collect: object) -> q.Quantity:
        return (
            q.automaton(fold, collect=collect)  # type: ignore[arg-type]
            .initial("p", 1)
            .step("p", "p", None, "x")
            .step("p", "p", "x > 0", 1)
            .final("p")
            .build()
        )

    assert shortest("sum", "min").check().distributive == "known"
    assert shortest("product", "sum").check().distributive == "known"
    assert shortest("state * value", "sum").check().distributive == "tested"
    with pytest.raises(errors.DistributivityError, match="does not distribute"):
        shortest("sum", "sum").check()
    declared = Collect("max", COLLECTS["max"].function, distributive=True)
    assert shortest("product", declared).check().distributive == "declared"


SEMIRINGS = [
    ("sum", "max", 0, "x"),  # max-plus
    ("sum", "min", 0, "x"),  # min-plus
    ("product", "sum", 1, 1),  # counting
    ("product", "sum", 1, "0.5e0"),  # probability
    ("all", "any", True, "x > 1"),  # boolean
]


@pytest.mark.parametrize(("fold", "collect", "one", "weight"), SEMIRINGS)
def test_rank_0_semirings_join_paths(fold: str, collect: str, one: object, weight: object) -> None:
    f = (
        q.automaton(fold, collect=collect)
        .initial("p", one)
        .step("p", "p", None, weight)  # type: ignore[arg-type]
        .step("p", "q", "x > 0", weight)  # type: ignore[arg-type]
        .step("q", "q", None, weight)  # type: ignore[arg-type]
        .step("q", "p", "x > 1", weight)  # type: ignore[arg-type]
        .final("q")
        .build()
    )
    assert f.check(EVENTS).ambiguity is not None
    for stream in itertools.product((0, 1, 2), repeat=3):
        expected = evaluate(f.automaton, [{"x": v} for v in stream])
        assert f.eval(pa.table({"x": stream})) == (None if expected is NOTHING else expected)


# -- bad input ------------------------------------------------------------------------------------


def raised(kind: type[errors.EnsueError], *words: str) -> pytest.ExceptionInfo:  # type: ignore[type-arg]
    return pytest.raises(kind, match="(?s)" + ".*".join(words))  # type: ignore[return-value]


def test_type_mismatch_names_the_argument_and_the_types() -> None:
    f = q.combine("a + b", q.sum("x"), q.last("DATE '2026-01-01'"))
    with raised(errors.OperationTypeError, "a is bigint", "b is date"):
        f.eval(EVENTS)
    with raised(errors.OperationTypeError, "sum", "numbers", "boolean"):
        q.sum("x > 1").eval(EVENTS)
    with raised(errors.OperationTypeError, "takes 2 arguments", "3 queries"):
        op = q.split("a + b", q.event("x > 0"), q.event("x < 0")).automaton.finish
        q.split(op, q.event(), q.event(), q.event())
    with raised(errors.OperationTypeError, "'c'", "not one of its arguments"):
        q.combine("a + c", q.sum("x"), q.sum("x"))
    with raised(errors.OperationTypeError, "state and value"):
        q.iter("state + x", q.event(None, "x"), start=0)
    with raised(errors.ColumnTypeError, "where a boolean is expected"):
        q.event("x + 1").eval(EVENTS)


def test_unsatisfiable_predicates_and_useless_states() -> None:
    with raised(errors.UnsatisfiableError, "no event satisfies", "x > 1"):
        q.event("x > 1 AND x < 1", 1).eval(EVENTS)
    with raised(errors.UnsatisfiableError, "no event satisfies", "NULL"):
        q.event("NULL", 1).eval(EVENTS)
    lost = q.automaton("sum").initial("p", 0).final("p").skip("p", "q", None).build()
    with raised(errors.UnsatisfiableError, "q", "nothing is accepted from it"):
        lost.check()
    unreached = q.automaton("sum").initial("p", 0).final("p").skip("q", "p", None).build()
    with raised(errors.UnsatisfiableError, "q", "no input reaches it"):
        unreached.check()


def test_loops_that_read_nothing() -> None:
    with raised(errors.EmptyCycleError, "without reading an event"):
        q.iter("sum", q.sum("x", start=0))
    spin = q.automaton("sum").initial("p", 0).final("p").silent("p", "p", 1)
    with raised(errors.EmptyCycleError, "p → p"):
        spin.build()


def test_undecidable_predicates_ask_for_a_declaration() -> None:
    def low(event: object) -> bool:
        return event["x"] < 2  # type: ignore[index]

    def high(event: object) -> bool:
        return event["x"] >= 2  # type: ignore[index]

    doubtful = q.choose(q.event(low, 1), q.event(high, 2))
    with raised(errors.UndecidedError, "low and high", "disjoint"):
        doubtful.check()
    assert "declaration" in str(doubtful.check(assume="unambiguous"))
    one, two = q.disjoint(low, high, complete=True)
    sure = q.iter("sum", q.choose(q.event(one, 1), q.event(two, 2)), start=0)
    assert sure.eval(EVENTS) == 5
    text = q.choose(q.event("soundex(kind) = 'A'", 1), q.event("upper(kind) = 'B'", 2))
    with raised(errors.UndecidedError, "cannot decide"):
        text.check()


def test_names_and_shapes_that_do_not_fit() -> None:
    with raised(errors.UnknownColumnError, "'y'", "use one of x, kind"):
        q.sum("y").eval(EVENTS)
    with raised(errors.QueryError, "exactly one of rows, time and until"):
        q.windows(q.sum("x"), rows=2, until="x = 0")
    with raised(errors.QueryError, "need the column"):
        q.windows(q.sum("x"), time="1 minute")
    with raised(errors.ColumnTypeError, "no windows of time"):
        q.windows(q.sum("x"), time=5, by="kind").eval(EVENTS)
    with raised(errors.DataError, "null in 1 rows"):
        q.windows(q.count(), time=5, by="t").eval(pa.table({"t": [1, None]}))
    with raised(errors.QueryError, "window, a group or a pipeline"):
        q.iter("sum", q.windows(q.sum("x"), rows=2))
    with raised(errors.QueryError, "reads other events"):
        q.event("sum(x) > 3")
    with raised(errors.ConditionSyntaxError, "line 1"):
        q.event("x >")
    with raised(errors.AutomatonError, "is not a fold"):
        q.iter(3, q.event())  # type: ignore[arg-type]
    with raised(errors.AutomatonError, "does not have", "use one of"):
        q.Quantity.of(
            q.automaton("sum")
            .initial("p", 0)
            .final("p")
            .build()
            .automaton.__class__(("p",), (), {"p": (0,)}, {"z": ()})
        )
    with raised(errors.AutomatonError, "is not a cost"):
        q.sum("x").check(allow="a fortune")
    with raised(errors.UnknownColumnError, "group_by names"):
        q.group_by("nobody", q.sum("x")).eval(EVENTS)
    with raised(errors.DataError, "failed at row 0: KeyError"):
        q.event(None, lambda e: e["nothing"]).eval(EVENTS)


def test_text_is_never_executed() -> None:
    with raised(errors.EnsueError, ""):
        q.sum("__import__('os').system('true')").eval(EVENTS)
    assert Expression  # the tree is all that is kept of the text

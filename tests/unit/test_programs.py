"""Programs: their text is stable, equal patterns compile alike, and large ones stay small."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.compile import compile_query, merge_states
from ensue.automaton.counting import counting_automaton
from ensue.automaton.program import Program
from ensue.automaton.view import View
from ensue.front.grammar import parse_pattern
from ensue.query.nodes import pattern_text
from ensue.query.query import Query

SNAPSHOTS = {
    "A B+ C+": """\
states 4, arcs 6
label A: True
label B: True
label C: True
  0 start -> 1
  1 A -> 2
  2 B -> 2 3
  3 C -> 3 accept
""",
    "A?? B*?": """\
states 3, arcs 7
label A: True
label B: True
  0 start -> accept 1 2
  1 B -> accept 1
  2 A -> accept 1
""",
    "(A? | B)*": """\
states 3, arcs 9
label A: True
label B: True
  0 start -> 1 2 accept
  1 A -> 1 2 accept
  2 B -> 1 2 accept
""",
    "(A? | B){0,2}": """\
states 5, arcs 11
label A: True
label B: True
  0 start -> 1 4 accept
  1 A -> 2 3 accept
  2 A -> accept
  3 B -> accept
  4 B -> 2 3 accept
""",
    "(^ A | B)+ $": """\
states 3, arcs 6
label A: True
label B: True
  0 start -> 1 ^
  0 start -> 2
  1 A -> 2
  1 A -> accept $
  2 B -> 2
  2 B -> accept $
""",
    "{- A -} PERMUTE(B, C)": """\
states 6, arcs 7
label A: True
label B: True
label C: True
  0 start -> 1
  1 A excluded -> 2 4
  2 B -> 3
  3 C -> accept
  4 C -> 5
  5 B -> accept
""",
    "()*": """\
states 1, arcs 1
  0 start -> accept
""",
}


def program(text: str) -> Program:
    return merge_states(compile_query(Query(parse_pattern(text))))


@pytest.mark.parametrize("text", SNAPSHOTS)
def test_snapshot(text: str) -> None:
    assert program(text).dump() == SNAPSHOTS[text]


@pytest.mark.parametrize(
    ("one", "other"),
    [("A B", "(A) (B)"), ("A+", "A{1,}"), ("A | B | C", "A|B|C"), ("A  -- x\n B", "A B")],
)
def test_same_meaning_same_program(one: str, other: str) -> None:
    assert program(one) == program(other)
    assert hash(program(one)) == hash(program(other))
    assert program(one) != program("B A")


def test_definitions_are_part_of_a_program() -> None:
    one = ensue.pattern("A").define(A="x > 1")
    assert one.program == ensue.pattern("A").define(A="x  >  1").program
    assert one.program != ensue.pattern("A").define(A="x > 2").program
    assert "label A: gt(x, 1)" in one.program.dump()


EVENTS = {
    "A -> B+ ->> C": """\
states 4, arcs 9
  0 start -> 1 take A
  1 -> 2 take B
  1 -> 1 skip if not B
  2 -> 2 take B
  2 -> 1 skip if not B
  2 -> accept take C
  2 -> 3 skip
  3 -> accept take C
  3 -> 3 skip
""",
    "A -> !X -> B": """\
states 2, arcs 3
  0 start -> 1 take A
  1 -> accept take B
  1 -> 1 skip if not B and not X
""",
    "A ->> !E": """\
states 2, arcs 2
  0 start -> 1 take A
  1 pending -> 1 skip if not E
""",
}


@pytest.mark.parametrize("text", EVENTS)
def test_an_event_pattern_has_its_own_automaton(text: str) -> None:
    pattern = ensue.pattern(text, types="kind").order_by("t").within(10)
    assert pattern.program.dump() == EVENTS[text]
    for line in EVENTS[text].splitlines()[1:]:
        assert line in pattern.explain()


def holds(text: str, event: str) -> bool:
    """Whether an arc's condition holds for an event that is of one label alone."""
    parts = text.split(" if ")[1].split(" and ") if " if " in text else []
    return all((part.removeprefix("not ") == event) != part.startswith("not ") for part in parts)


def shown_matches(shown: View, word: str) -> set[tuple[tuple[str, int], ...]]:
    """What the arcs of a view accept from the first event of a word on."""
    ends = {n for n, state in enumerate(shown.states) if "accept" in state.marks}
    threads: set[tuple[int, tuple[tuple[str, int], ...]]] = {(0, ())}
    found = set()
    for place, event in enumerate(word):
        following = set()
        for state, taken in threads:
            for arc in shown.arcs:
                if arc.source != state or not holds(arc.text, event):
                    continue
                verb, *label = arc.text.split(" if ")[0].split()
                if verb == "take" and label[0] != event:
                    continue
                following.add((arc.target, (*taken, (event, place)) if verb == "take" else taken))
        found |= {taken for state, taken in following if state in ends}
        threads = following
    return found


@pytest.mark.parametrize(
    "text",
    ["A -> B+ ->> C", "A -> !X -> B{2,3} -> C", "A ->> (B | C ->> A)+ -> B", "A (B -> C?)+ ->> A",
     "PERMUTE(A, B C) -> A{1,2}", "A -> B* -> !X -> C ->> B?"],
)  # fmt: skip
def test_the_view_of_an_event_pattern_accepts_its_matches(text: str) -> None:
    pattern = ensue.pattern(text, types="kind").partition_by("word").order_by("t").within(99)
    words = ["".join(letters) for letters in itertools.product("ABCX", repeat=5)]
    table = pa.table(
        {
            "word": [word for word in words for _ in word],
            "t": list(range(5)) * len(words),
            "kind": list("".join(words)),
        }
    )
    matches: dict[str, set[tuple[tuple[str, int], ...]]] = {word: set() for word in words}
    for match in pattern.matches(table).to_pylist():
        matches[match["word"]].add(tuple((e["label"], e["row"]) for e in match["events"]))
    assert any(matches.values())
    shown = pattern.program.view()
    for word in words:
        told = {
            tuple((label, start + row) for label, row in taken)
            for start in range(5)
            for taken in shown_matches(shown, word[start:])
        }
        assert told == matches[word], word


def test_automata_print_in_one_form() -> None:
    missing = ensue.pattern("A ->> B ->> C", types="kind").order_by("t").within(9).allow_missing(1)
    assert "  1 A -> 2\n  1 A -> 3 without B\n" in missing.program.dump()
    counted = counting_automaton(parse_pattern("A B+ | A"), ("A", "B"))
    assert counted.dump() == (
        "states 2, arcs 2\nshortest match 1\n  0 start -> 1 A\n  1 accept -> 1 B\n"
    )
    falls = ensue.Automaton(register={"n": "int"}).arc("a", "b", when="x < 1", set={"n": "n + 1"})
    assert falls.final("b").machine.dump() == (
        "states 2, arcs 1\nregister n: int\n  a start -> b when x < 1 set n = n + 1\n  b accept\n"
    )


@pytest.mark.parametrize(
    "text",
    ["A B+? (C | D E)*", "PERMUTE(A, B C, D{2,5}?) ^ $", "{- A+ -}?", "(() | A)??", '"a b" "B"'],
)
def test_pattern_text_reads_back(text: str) -> None:
    assert parse_pattern(pattern_text(parse_pattern(text))) == parse_pattern(text)


def test_permute_is_a_lattice() -> None:
    assert program("PERMUTE(A, B, C, D, E, F, G, H)").states == 8 * 2**7 + 1


def test_least_position() -> None:
    assert program("A? B (C | D D E)").least_position == (0, 0, 1, 1, 3)


def test_members() -> None:
    query = Query(parse_pattern("A B C"), subsets=(("U", ("A", "C")),))
    found = compile_query(query)
    assert found.members("U").tolist() == [False, True, False, True]
    assert found.members(None).tolist() == [False, True, True, True]
    assert found.members("B").dtype == np.bool_

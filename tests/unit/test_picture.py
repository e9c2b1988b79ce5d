"""Pictures of automata: well-formed, escaped, the same on every run, with and without Graphviz."""

from __future__ import annotations

import math
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import graphviz
import pyarrow as pa
import pytest

import ensue
from ensue import errors, quantify
from ensue.automaton.compile import compile_query, merge_states
from ensue.automaton.view import View
from ensue.draw import diagram as picture
from ensue.draw import layout
from ensue.draw.diagram import Picture
from ensue.front.grammar import parse_pattern
from ensue.query.query import Query

SVG = "{http://www.w3.org/2000/svg}"
PATTERNS = [
    "A",
    "A B+ C+",
    "A? B* C",
    "(A | B)+ C{2,4} {- D+ -} E",
    "^ PERMUTE(A, B, C) $",
    "A (B C)* (D (E F)+)* G?",
    "(A B* (C | D E)*)+ F | G ^ H",
    "A{1,30}",
    "()",
]


def program(text: str) -> View:
    return merge_states(compile_query(Query(pattern=parse_pattern(text)))).view()


@pytest.fixture
def without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: object, format: str) -> bytes:
        raise graphviz.ExecutableNotFound(["dot"])

    monkeypatch.setattr(graphviz.Source, "pipe", absent)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_graphviz_source_of_a_small_program() -> None:
    assert picture.dot(program("A {- B+ -} $")) == (
        "digraph program {\n"
        "  rankdir=LR;\n"
        '  bgcolor="transparent";\n'
        '  node [fontname="Helvetica", fontsize=14, style=filled, fillcolor="#eef1f6", '
        'color="#76808f", fontcolor="#1f2733"];\n'
        '  edge [fontname="Helvetica", fontsize=11, color="#76808f", fontcolor="#76808f"];\n'
        '  0 [label="start", shape=circle, fixedsize=true, width=0.67, fontsize=10, '
        'fontcolor="#76808f", tooltip="start"];\n'
        '  1 [label="A", shape=circle, fixedsize=true, width=0.67, tooltip="state 1: A"];\n'
        '  2 [label="B", shape=circle, fixedsize=true, width=0.67, style="filled,dashed", '
        'tooltip="state 2: B, excluded from the output"];\n'
        '  accept [label="accept", shape=circle, fixedsize=true, width=0.67, peripheries=2, '
        'fontsize=10, fontcolor="#76808f", tooltip="accept"];\n'
        "  0 -> 1;\n"
        "  1 -> 2;\n"
        '  2 -> 2 [label=" 1"];\n'
        '  2 -> accept [label=" 2 $"];\n'
        "}\n"
    )


@pytest.mark.parametrize("text", PATTERNS)
def test_own_drawing_is_well_formed_and_repeatable(text: str) -> None:
    compiled = program(text)
    drawn = picture.draw_svg(compiled)
    assert drawn == picture.draw_svg(program(text))
    names = texts(drawn)
    assert names.count("start") == names.count("accept") == 1
    root = ET.fromstring(drawn)
    assert len(list(root.iter(f"{SVG}path"))) == len(layout.collect_arcs(compiled))
    assert "nan" not in drawn


@pytest.mark.parametrize("text", PATTERNS)
def test_states_do_not_overlap_and_stay_inside(text: str) -> None:
    compiled = program(text)
    placed = layout.arrange(compiled, [layout.RADIUS] * len(compiled.states))
    for index, centre in enumerate(placed.centres):
        assert layout.RADIUS <= centre[0] <= placed.width - layout.RADIUS
        assert layout.RADIUS <= centre[1] <= placed.height - layout.RADIUS
        for other in placed.centres[:index]:
            assert math.dist(centre, other) > 2 * layout.RADIUS
    for curve in placed.curves:
        assert len(curve.points) % 3 == 1
        assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in curve.points)


def test_a_state_is_right_of_every_state_that_leads_to_it_forward() -> None:
    placed = layout.arrange(program("A? B* C"), [layout.RADIUS] * 5)
    columns = [x for x, _ in placed.centres]
    assert columns == sorted(set(columns))


def test_preferences_and_anchors_are_marked() -> None:
    marks = texts(picture.draw_svg(program("^ A+ $ | B")))
    assert {"1 ^", "2", "2 $"} <= set(marks)


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "a & b", "it's", "\\N", "]]>", "\x01\x7f", "名前", "$x$"],
)
def test_hostile_labels_stay_text(name: str) -> None:
    compiled = program(f'"{name}" B')
    drawn = picture.draw_svg(compiled)
    root = ET.fromstring(drawn.encode("utf-8"))
    assert all(element.tag != f"{SVG}script" for element in root.iter())
    assert len(texts(drawn)) == 4
    assert "<script" not in drawn
    picture.dot(compiled).encode("utf-8")
    assert picture.draw_image(compiled, "png").startswith(b"\x89PNG")


def test_a_label_cannot_leave_its_string_in_graphviz_source() -> None:
    source = picture.dot(program('"x""];0 -> 9;\\""" B'))
    assert 'label="x\\"];0 -> 9;\\\\\\""' in source


def test_long_labels_are_cut_and_kept_in_the_tooltip() -> None:
    name = "a" * 60
    drawn = picture.draw_svg(program(name))
    assert name not in texts(drawn)
    assert f"state 1: {name}" in drawn


def test_svg_comes_from_graphviz_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def pipe(self: graphviz.Source, format: str) -> bytes:
        asked.append((self.source, format))
        return b"<svg>by dot</svg>"

    monkeypatch.setattr(graphviz.Source, "pipe", pipe)
    compiled = program("A B")
    assert picture.svg(compiled) == "<svg>by dot</svg>"
    assert asked == [(picture.dot(compiled), "svg")]


@pytest.mark.parametrize(
    "problem",
    [graphviz.ExecutableNotFound(["dot"]), subprocess.CalledProcessError(1, "dot"), OSError("no")],
)
def test_svg_is_drawn_here_where_graphviz_is_not(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def pipe(self: graphviz.Source, format: str) -> bytes:
        raise problem

    monkeypatch.setattr(graphviz.Source, "pipe", pipe)
    compiled = program("A B")
    assert picture.svg(compiled) == picture.draw_svg(compiled)


def test_too_many_states_give_a_note(without_dot: None) -> None:
    compiled = program(f"A{{{picture.MAX_STATES + 1}}}")
    drawn = picture.svg(compiled)
    assert texts(drawn)[0].startswith("202 states and 202 arcs: too many to draw")
    assert picture.draw_image(compiled, "png").startswith(b"\x89PNG")


def test_too_many_arcs_give_a_note(without_dot: None) -> None:
    compiled = program(" ".join(f"A{i}?" for i in range(100)))
    assert "too many to draw" in picture.svg(compiled)


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".svg", b"<svg"), (".dot", b"digraph"), (".gv", b"digraph"), (".png", b"\x89PNG")],
)
def test_save_by_suffix(without_dot: None, tmp_path: Path, suffix: str, start: bytes) -> None:
    drawn = Picture(program("A B+"))
    path = drawn.save(str(tmp_path / f"p{suffix}"))
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_images_are_repeatable(kind: str) -> None:
    compiled = program("A {- B+ -} C")
    assert picture.draw_image(compiled, kind) == picture.draw_image(compiled, kind)


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"'p\.doc'.*\.doc is not one of \.svg"):
        Picture(program("A")).save(tmp_path / "p.doc")


def test_a_notebook_shows_the_svg(without_dot: None) -> None:
    drawn = Picture(program("A B+"))
    assert drawn._repr_svg_() == drawn.svg == picture.draw_svg(program("A B+"))
    assert drawn.dot == picture.dot(program("A B+"))


def events(text: str) -> ensue.Pattern:
    return ensue.pattern(text, types="kind").order_by("t").within(10)


FALLS = (
    ensue.Automaton(register={"r1": "int"})
    .arc("q0", "q1", when="price < 10", set={"r1": "r1 + 1"})
    .arc("q1", "q1")
    .arc("q1", "q2", epsilon=True)
    .final("q2")
)
GRAPH = ensue.graph(pa.table({"subject": [1], "relation": ["knows"], "object": [2]}))
KINDS = {
    "rows": (ensue.pattern("A B+"), {"start", "A", "B", "accept"}),
    "events": (events("A -> B+ ->> C"), {"take A", "take B", "take C", "skip if not B", "skip"}),
    "absence": (events("A -> !X -> B ->> !E"), {"skip if not B and not X", "skip if not E"}),
    "missing": (events("A ->> B ->> C").allow_missing(1), {"A", "B", "C", "without B"}),
    "workload": (
        ensue.workload(one=events("A ->> B"), two=events("A ->> C"), rows=ensue.pattern("D E")),
        {"start", "A B", "A C", "01", "10", "rows", "D", "E"},
    ),
    "automaton": (FALLS, {"q0", "q1", "q2", "ε", "when price < 10 set r1 = r1 + 1"}),
    "quantify": (quantify.max("x"), {"max(x)", "none", "some"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_query_is_drawn_with_its_labels(
    without_dot: None, kind: str, tmp_path: Path
) -> None:
    asked, labels = KINDS[kind]
    drawn = asked.plot()
    assert labels <= set(texts(drawn.svg))
    assert asked._repr_svg_() == drawn.svg == asked.plot().svg
    assert drawn.dot.startswith("digraph")
    assert drawn.save(tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


LONG = "price > 10 AND amount BETWEEN 2 AND 30 AND note LIKE '%<refund>%'"


@pytest.mark.parametrize("text", ["A B+", "A -> B+", "A ->> B"])
def test_conditions_are_drawn_short_and_told_in_full(without_dot: None, text: str) -> None:
    asked = ensue.pattern(text).define(A="price < 5", B=LONG).order_by("t").within(9)
    for query in (asked, asked.allow_missing(1)) if text == "A ->> B" else (asked,):
        drawn = query.plot()
        assert "price < 5" in texts(drawn.svg)
        short = [line for line in texts(drawn.svg) if line.startswith("price > 10 AND")]
        assert short and all(len(line) < 40 and line.endswith("…") for line in short)
        titles = [e.text or "" for e in ET.fromstring(drawn.svg).iter(f"{SVG}title")]
        assert any("B" in title and title.count(LONG) == 1 for title in titles)
        assert LONG in drawn.dot and "price > 10 AND" in drawn.dot
        assert LONG not in query.program.dump() or text == "A B+"


def test_path_expressions_are_drawn(without_dot: None) -> None:
    assert set(texts(GRAPH.plot("knows/^likes+").svg)) == {
        "knows/^likes+", "start", "knows", "^likes", "accept",
    }  # fmt: skip
    both = texts(GRAPH.plot({"one": "a[node.age > 3]", "two": "!b|."}).svg)
    assert {"a[node.age > 3]", "!(b)"} <= set(both)


def test_marks_do_not_cover_each_other(without_dot: None) -> None:
    """Of patterns with several texts between the same columns."""
    for text in ("A -> B+ ->> C", "A -> !X -> B{2,3} -> C", "(A ->> B | C ->> D)+ -> E"):
        view = events(text)._view()
        placed = layout.arrange(view, [layout.RADIUS] * len(view.states))
        boxes = [(c.mark_at, c.arc.mark_size) for c in placed.curves if c.arc.marks]
        for index, ((x, y), (half, radius)) in enumerate(boxes):
            assert half <= x <= placed.width - half and radius <= y <= placed.height - radius
            for (x2, y2), (half2, radius2) in boxes[:index]:
                assert abs(x - x2) >= half + half2 or abs(y - y2) >= radius + radius2

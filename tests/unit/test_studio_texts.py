"""What is typed in the studio: read in every language, written in the others, mistakes placed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue.demo.show import questions
from ensue.studio.link import share, shared
from ensue.studio.reading import read
from ensue.studio.samples import SAMPLES
from ensue.studio.sources import sample_sources
from ensue.studio.texts import TextError, Typed, from_utf16, place, utf16
from ensue.studio.written import in_language, in_languages
from tests.share import examples

SASE = Typed(
    "sase",
    "SEQ(A a, B+ b[], !C c, D d)\nWHERE [id] AND a.x < b[i].x AND sum(b[..].x) < d.x\n"
    "WITHIN 10 minutes",
    {"types": "kind", "order_by": "ts"},
)
STEPS = Typed(
    "python",
    "import ensue\nq = (ensue.begin('a').where(\"kind = 'a'\").followed_by('b').where('x > a.x')\n"
    "    .one_or_more().followed_by_any('c').within('1 hour').order_by('ts DESC'))",
)
QUERIES = [
    *(q.query for sample in SAMPLES.values() for q in sample.questions),
    SASE,
    STEPS,
    Typed("pattern", "A{2,3}? -> B+[within 5 minutes] | C", {"after_match": "past last row"}),
    Typed("pattern", "PERMUTE(A, B) C*", {"subset": "U: A, B"}),
    Typed("pattern", "A B", {"select": "strict", "within": "500 rows", "order_by": "n"}),
    Typed("pattern", "^ A+ $", {"partition_by": "`a b`, c", "rows_per_match": "all rows"}),
    Typed("pattern", "A ->> B", {"missing": "1", "within": "12.5", "order_by": "`odd name` DESC"}),
    Typed("pattern", "A -> B", {"without": "x: kind = 'x'", "measures": "n: COUNT(A.*)"}),
]


def texts(typed: Typed) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return in_languages(read(typed).query, typed)


@pytest.mark.parametrize("typed", QUERIES, ids=lambda t: t.text.split("\n")[0][:40])
def test_what_is_written_means_the_same(typed: Typed) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = read(typed).query
        for name, written in texts(typed).items():
            if name == "sql" and "refused" in written:
                assert not asked.row_semantics or asked.missing
            if "query" in written:
                again = read(Typed.of(written["query"])).query
                assert again.pattern == asked.pattern, name
                assert dict(again.define).keys() == dict(asked.define).keys(), name
                assert (again.within, again.skip, again.order_by) == (
                    asked.within, asked.skip, asked.order_by,
                )  # fmt: skip
        assert "query" in texts(typed)["pattern"] and "query" in texts(typed)["python"]


def test_patterns_are_written_as_a_hand_would() -> None:
    bought = questions()[0].pattern.query
    written = in_language(bought, "pattern")["query"]
    assert written["text"] == "view cart+ pay"
    assert written["options"]["types"] == "kind" and "define" not in written["options"]
    assert written["options"]["within"] == "1 hour"
    python = in_language(bought, "python")["query"]["text"]
    assert python.startswith('q = (\n    ensue.pattern("view cart+ pay", types="kind")\n    .part')
    assert in_language(read(SASE).query, "python")["query"]["text"].count("define(") == 1
    assert in_language(ensue.pattern("A | B").query, "sase")["refused"].startswith("SASE has")


MISTAKES = [
    (Typed("pattern", "A B+ (C"), "text", "(", "never closed"),
    (Typed("pattern", "A B", {"define": "A: x > 1\nB: price <"}), "define", "<", "is missing at"),
    (Typed("pattern", "A B", {"define": "A: x > 1\nCC: x > 1"}), "define", "CC", "does not have"),
    (Typed("pattern", "A B", {"define": "A x > 1"}), "define", "A x > 1", "no colon"),
    (Typed("pattern", "A", {"within": "3 fortnights"}), "within", "3 fortnights", "no"),
    (Typed("pattern", "A", {"select": "foo"}), "select", "foo", "policy"),
    (Typed("pattern", "A", {"order_by": "ts up"}), "order_by", "ts up", "direction"),
    (Typed("pattern", "A ->> B", {"missing": "x"}), "missing", "x", "not a number"),
    (Typed("pattern", "A", {"after_match": "to last Q"}), "after_match", "Q", "does not have"),
    (Typed("python", "ensue.pattern('A B+ (C')"), "text", "(", "never closed"),
    (Typed("python", "ensue.pattern('A').define(\n A='price <')"), "text", "<", "is missing at"),
    (Typed("python", "ensue.pattern('A').matches(1)"), "text", "matches", "not a pattern method"),
    (Typed("python", "ensue.pattern('A', 'B')"), "text", "pattern", "positional"),
    (Typed("python", "ensue.pattern('A'"), "text", "(", "not Python"),
    (Typed("python", "1 + 1"), "text", "1 + 1", "not a call"),
    (Typed("sql", "SELECT 1"), "text", "SELECT 1", "0 MATCH_RECOGNIZE"),
    (
        Typed("sql", "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE C AS x < 1)"),
        "text", "C", "does not have",
    ),
    (Typed("sase", "SEQ(A a, B)"), "text", "B", "component"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "field", "word", "said"), MISTAKES, ids=lambda v: str(v)[:40])
def test_a_mistake_has_its_place(typed: Typed, field: str, word: str, said: str) -> None:
    with pytest.raises(TextError) as caught:
        read(typed)
    spot, problem = caught.value.spot, caught.value.problem
    assert said in problem.problem and problem.remedy
    assert spot is not None and spot.field == field
    text = typed.field(field)
    assert text[spot.offset : spot.offset + spot.length] == word


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "ensue.pattern(open('/etc/passwd').read())",
        "ensue.pattern('A').define(A=[x for x in ().__class__.__base__.__subclasses__()][0])",
        "ensue.sql('SELECT 1')",
        "(lambda: ensue.pattern('A'))()",
        "ensue.pattern('A')._with(a=1)",
        "ensue.pattern('A').__class__('B')",
        "ensue.pattern(f'{1}')",
        "x = 1\nensue.pattern('A')",
        "ensue.pattern" + ".define()" * 5_000,
        "(" * 500 + ")" * 500,
    ],
)
def test_python_is_read_and_never_run(text: str) -> None:
    with pytest.raises(TextError):
        read(Typed("python", text))


@given(st.text(max_size=30), st.integers(0, 40))
def test_places_count_as_editors_do(text: str, offset: int) -> None:
    here = from_utf16(text, offset)
    assert utf16(text[:here]) <= offset or here == 0
    typed = Typed("pattern", text)
    with pytest.raises(TextError) as caught:
        read(typed)
        raise TextError(ensue.EnsueError("read"), None)
    found = place(caught.value.spot, typed)
    if found is not None:
        assert 0 <= found["offset"] <= utf16(text)
        lines = text.split("\n")
        assert 1 <= found["line"] <= len(lines)
        before = sum(utf16(line) + 1 for line in lines[: found["line"] - 1])
        assert before + found["column"] - 1 == found["offset"]


@settings(max_examples=examples(50))
@given(st.text(max_size=200))
def test_links_bring_what_was_shared_and_nothing_else(text: str) -> None:
    sources = sample_sources()
    typed = Typed("pattern", text, {"define": "A: x > 1"})
    link = share(typed, sources["shop"])
    assert shared(link, sources) == {"source": "shop", "query": typed.message()}
    with pytest.raises(ensue.EnsueError):
        shared("#share=" + text, sources)

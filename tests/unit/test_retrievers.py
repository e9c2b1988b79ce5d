"""The question loop, and the retrievers of LangChain and LlamaIndex where these are installed."""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue import errors
from ensue.api import rag, retrievers
from ensue.api.retrievers import langchain_retriever, llama_index_retriever

LOOP = Path(__file__).parents[2] / "examples" / "graphrag_loop.py"
OTHERS = "Which other films did the writer of Alila write?"


@pytest.fixture(scope="module")
def loop() -> dict[str, Any]:
    return runpy.run_path(str(LOOP))


def test_the_loop_finds_evidence_through_what_a_model_replied(
    loop: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    loop["main"]()
    shown = capsys.readouterr().out
    found = {text: [one.text for one in some] for text, some in loop["ask"](loop["films"]())}
    assert list(found) == list(loop["REPLIES"]) and all(text in shown for text in found)
    for film in ("Kedma", "Kadosh"):
        assert f"Alila -written_by-> Amos Gitai <-written_by- {film}" in found[OTHERS]
    assert set(found["Who starred in Alila?"]) == {
        "Alila -starred_actors-> Yaël Abecassis",
        "Alila -starred_actors-> Uri Klauzner",
    }
    assert found["What kind of film is Heat?"] == ["Heat -has_genre-> Crime"]
    assert len(found["Which films share an actor with Kadosh?"]) == 1


@pytest.mark.parametrize(
    "reply",
    [
        '{"start": "Alila", "paths": ["a/b", "c"]}',
        'So {this} is it:\n```json\n{"start": "Alila", "paths": ["a/b", 7, "c", "a/b"]}\n``` {}',
    ],
)
def test_replies_are_read_whatever_is_around_them(reply: str) -> None:
    question = rag.read_reply("who wrote Alila", reply)
    assert question.expressions == ("a/b", "c") and question.start == "Alila"
    assert question.text == "who wrote [Alila]"
    assert rag.read_reply("x [7] 7", '{"start": 7, "paths": "a"}').text == "x [7] 7"


@pytest.mark.parametrize(
    "reply", ["", "no", '{"start": "x"}', '{"paths": ["a"]}', '{"start": "x", "paths": [1]}', "{{{"]
)
def test_a_reply_without_a_question_is_refused(reply: str) -> None:
    with pytest.raises(errors.DataError, match="lacks a start or a path"):
        rag.read_reply("who", reply)


def test_a_langchain_retriever(loop: dict[str, Any]) -> None:
    pytest.importorskip("langchain_core", reason="the extra `graphrag` is not installed")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    graph = loop["films"]()
    propose = rag.proposer(graph, loop["recorded"])
    retriever = langchain_retriever(graph, propose, k=3, budget=ensue.Budget(work=20))
    assert isinstance(retriever, BaseRetriever)
    expected = {text: [one.text for one in some][:3] for text, some in loop["ask"](graph)}
    documents = retriever.invoke(OTHERS)
    assert all(isinstance(document, Document) for document in documents)
    assert [document.page_content for document in documents] == expected[OTHERS]
    assert documents[0].metadata["nodes"][0] == "Alila" and documents[0].metadata["score"] > 0
    assert asyncio.run(retriever.ainvoke(OTHERS)) == documents
    batch = retriever.batch(list(expected))
    assert [[one.page_content for one in some] for some in batch] == list(expected.values())
    chain = retriever | RunnableLambda(lambda some: some[0].page_content)
    assert chain.invoke(OTHERS) == expected[OTHERS][0]


def test_a_llama_index_retriever(loop: dict[str, Any]) -> None:
    pytest.importorskip("llama_index.core", reason="the extra `graphrag` is not installed")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore

    graph = loop["films"]()
    propose = rag.proposer(graph, loop["recorded"])
    retriever = llama_index_retriever(graph, propose, k=3, budget=ensue.Budget(work=20))
    assert isinstance(retriever, BaseRetriever)
    expected = {text: [one.text for one in some][:3] for text, some in loop["ask"](graph)}
    nodes = retriever.retrieve(OTHERS)
    assert all(isinstance(node, NodeWithScore) for node in nodes)
    assert [node.get_content() for node in nodes] == expected[OTHERS]
    assert nodes[0].score is not None and nodes[0].score > 0
    assert nodes[0].metadata["end"] in ("Kedma", "Kadosh")
    awaited = asyncio.run(retriever.aretrieve(OTHERS))
    assert [node.get_content() for node in awaited] == expected[OTHERS]
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    assert len(engine.query(OTHERS).source_nodes) == len(nodes)


@pytest.mark.parametrize(
    ("make", "package"),
    [(langchain_retriever, "langchain_core"), (llama_index_retriever, "llama_index")],
)
def test_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, loop: dict[str, Any], make: Any, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    retrievers._langchain.cache_clear()
    retrievers._llama_index.cache_clear()
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'ensue\[graphrag\]'"):
        make(loop["films"](), loop["recorded"])

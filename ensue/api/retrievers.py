"""A graph as a retriever of LangChain or of LlamaIndex (extra `graphrag`).

    from ensue.api.rag import proposer
    from ensue.api.retrievers import langchain_retriever, llama_index_retriever

    retriever = langchain_retriever(graph, proposer(graph, model), k=10)
    documents = retriever.invoke("who else did the writer of Alila write for")

A document (or node) is one path in words; beside it are nodes, labels, expression and score.
The classes are made when first asked for: neither package is needed to load this module.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ensue.api.graph import Graph
from ensue.api.rag import Evidence, Propose, evidence
from ensue.extras import needed


def langchain_retriever(graph: Graph, propose: Propose, *, k: int = 20, **options: Any) -> Any:
    """A `langchain_core.retrievers.BaseRetriever`: at most `k` documents per question.

    `propose` turns a question in words into an `ensue.Question`, `options` are those of
    `graph.retrieve`.
    """
    return _langchain()(graph=graph, propose=propose, k=k, options=options)


def llama_index_retriever(graph: Graph, propose: Propose, *, k: int = 20, **options: Any) -> Any:
    """A `llama_index.core.retrievers.BaseRetriever`; see `langchain_retriever`."""
    return _llama_index()(graph, propose, k, options)


def _found(
    graph: Graph, propose: Propose, text: str, most: int, options: dict[str, Any]
) -> list[Evidence]:
    return evidence(graph, [propose(text)], most, **options)[0]


@cache
def _langchain() -> Any:
    needed("langchain_core", "a LangChain retriever")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class GraphRetriever(BaseRetriever):  # type: ignore[misc]
        """Paths of an `ensue.graph` that may answer a question, best first."""

        graph: Any
        propose: Any
        k: int
        options: dict[str, Any]

        def _get_relevant_documents(self, query: str, **_: Any) -> list[Any]:
            found = _found(self.graph, self.propose, query, self.k, self.options)
            return [
                Document(page_content=one.text, metadata={**one.about, "score": one.score})
                for one in found
            ]

    return GraphRetriever


@cache
def _llama_index() -> Any:
    needed("llama_index", "a LlamaIndex retriever")
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class GraphRetriever(BaseRetriever):  # type: ignore[misc]
        """Paths of an `ensue.graph` that may answer a question, best first."""

        def __init__(
            self, graph: Graph, propose: Propose, most: int, options: dict[str, Any]
        ) -> None:
            self._asked = graph, propose, most, options
            super().__init__()

        def _retrieve(self, query_bundle: Any) -> list[Any]:
            graph, propose, most, options = self._asked
            found = _found(graph, propose, query_bundle.query_str, most, options)
            return [
                NodeWithScore(
                    node=TextNode(text=one.text, metadata=dict(one.about)), score=one.score
                )
                for one in found
            ]

    return GraphRetriever

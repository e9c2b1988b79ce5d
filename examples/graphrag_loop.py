"""Questions in words: a language model proposes paths, the graph gives evidence.

`python examples/graphrag_loop.py` needs no model: REPLIES are recorded. A language model wrote them
when this example was made, with the slips that such replies have: labels that the graph does not
have, a fence, a remark, a path that cannot be read. Put your own model in place of `recorded`: any
function from a prompt to a reply.

With LangChain or LlamaIndex (pip install 'ensue[graphrag]') the loop is a retriever:

    from ensue.api.retrievers import langchain_retriever        # or llama_index_retriever
    langchain_retriever(graph, proposer(graph, model), k=5).invoke("Who starred in Alila?")
"""

from __future__ import annotations

import warnings

import pyarrow as pa

import ensue
from ensue.api.rag import Evidence, evidence, proposer

REPLIES = {
    "Which other films did the writer of Alila write?": """```json
{"start": "Alila", "paths": ["film.written_by/^film.written_by", "written_by/^written_by",
 "directed_by/^directed_by"]}
```""",
    "Who starred in Alila?": 'The cast is one step away. {"start": "Alila", "paths": '
    '["starredActors", "cast_member", "performed_in/^starred_actors"]}',
    "What kind of film is Heat?": '{"start": "Heat", "paths": '
    '["genre", "has_genre", "film/type("]}',
    "Which films share an actor with Kadosh?": '{"start": "Kadosh", "paths": '
    '["starred_actors/^starred_actors", "starring/^starring"]}',
}


def recorded(prompt: str) -> str:
    """The model's reply to a prompt of this file."""
    return REPLIES[prompt.rsplit("Question: ", 1)[1].strip()]


def films() -> ensue.Graph:
    triples = [
        ("Alila", "written_by", "Amos Gitai"),
        ("Kedma", "written_by", "Amos Gitai"),
        ("Kadosh", "written_by", "Amos Gitai"),
        ("Alila", "directed_by", "Amos Gitai"),
        ("Alila", "starred_actors", "Yaël Abecassis"),
        ("Kadosh", "starred_actors", "Yaël Abecassis"),
        ("Alila", "starred_actors", "Uri Klauzner"),
        ("Alila", "has_genre", "Drama"),
        ("Heat", "has_genre", "Crime"),
        ("Heat", "release_year", "1995"),
    ]
    columns = list(zip(*triples, strict=True))
    names = ["subject", "relation", "object"]
    return ensue.graph(pa.table([pa.array(column) for column in columns], names=names))


def ask(graph: ensue.Graph) -> list[tuple[str, list[Evidence]]]:
    """All questions in one call, with their evidence."""
    propose = proposer(graph, recorded)
    questions = [propose(text) for text in REPLIES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ensue.errors.CandidateWarning)
        found = evidence(graph, questions, most=4, budget=ensue.Budget(work=20))
    return list(zip(REPLIES, found, strict=True))


def main() -> None:
    for text, found in ask(films()):
        print(text)
        for one in found:
            print(f"  {one.score:.2f}  {one.text}   ({one.about['query']})")


if __name__ == "__main__":
    main()

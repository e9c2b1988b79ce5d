"""What is taken from the page: the query as text to paste, and links that others open.

A link holds a query and the name of a sample: no token, no data, no path.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from ensue import errors
from ensue.studio.answer import Answer
from ensue.studio.feed import feed_text
from ensue.studio.reading import read
from ensue.studio.sources import Source
from ensue.studio.texts import Typed
from ensue.studio.written import in_language

VERSION = 1
_PREFIX = "#share="
_LONGEST = 60_000


def copied(
    typed: Typed, source: Source, form: str, answer: Callable[[], Answer] | None = None
) -> str:
    """The query in the form that was asked for."""
    if form == "link":
        return share(typed, source)
    if form == "feed" and answer is not None:
        return feed_text(answer())
    query = read(typed).query
    if form not in ("python", "sql"):
        raise errors.QueryError(
            f"a query cannot be copied as {form!r}", remedy="use python, sql, feed or link"
        )
    written = in_language(query, form, typed if typed.language == form else None)
    if "refused" in written:
        raise errors.UnsupportedError(written["refused"], remedy="copy it as Python")
    text: str = written["query"]["text"]
    if form == "python" and "import ensue" not in text:
        return f"import ensue\n\n{text}"
    return text


def share(typed: Typed, source: Source) -> str:
    name = source.id if source.kind == "sample" else None
    said = {"v": VERSION, "source": name, "query": typed.message()}
    data = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return _PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def fragment(text: str) -> str:
    """`share=...` of a link that was copied, as it stands behind the token of a new one."""
    shared(text, {})
    return "share=" + text.strip().rpartition("share=")[2]


def shared(text: str, sources: Mapping[str, Source]) -> dict[str, Any]:
    """What a link holds, checked as if it were typed."""
    wrong = errors.QueryError(
        "this is not a link of the studio, or only a part of one",
        remedy="copy the whole link again",
    )
    data = text.strip().rpartition("#")[2].removeprefix("share=")
    if len(data) > _LONGEST:
        raise wrong
    try:
        said = json.loads(base64.b64decode(data + "=" * (-len(data) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise wrong from None
    if not isinstance(said, dict) or said.get("v") != VERSION:
        raise wrong
    name = said.get("source")
    known = isinstance(name, str) and name in sources and sources[name].kind == "sample"
    return {"source": name if known else None, "query": Typed.of(said.get("query")).message()}

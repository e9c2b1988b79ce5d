"""A test of the pattern from what is on the screen: a few events, and what must come out of them.

The text is a test for `ensue.testing.Feed`. What it expects is what the matcher gives here and now,
so the test passes as it is pasted, and fails once the pattern means something else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.query.query import Rows
from ensue.studio.answer import Answer
from ensue.studio.parse import columns_read
from ensue.studio.reading import settled
from ensue.studio.written import in_language
from ensue.testing import Feed

MAX_ROWS = 40
_MODULES = ("datetime", "decimal", "zoneinfo")  # of which values are written
_BEFORE = 3  # rows before the first match


def feed_text(answer: Answer) -> str:
    """A test over the rows around the first match, or over the first rows where nothing matches."""
    query = replace(answer.query, measures=None, rows=Rows.ONE)
    written = in_language(query, "python")
    if "refused" in written:
        raise errors.UnsupportedError(written["refused"], remedy="copy it as SQL")
    events = _events(answer)
    feed = Feed(settled(query)).events(events).end()
    expected = [_said(match) for match in feed.matches]
    rows = [f"        {row!r}," for row in events.to_pylist()]
    used = [name for name in _MODULES if any(f"{name}." in row for row in rows)]
    lines = [
        *(f"import {name}" for name in used),
        *([""] if used else []),
        "import ensue",
        "from ensue.testing import Feed",
        "",
        "",
        "def test_pattern():",
        *("    " + line for line in written["query"]["text"].rstrip().splitlines()),
        "    feed = Feed(q)",
        "    feed.events([",
        *rows,
        "    ])",
        "    feed.end()",
    ]
    if expected:
        lines += ["    feed.expect(", *(f"        {match!r}," for match in expected), "    )"]
    else:
        lines.append("    feed.expect_nothing()")
    return "\n".join(lines) + "\n"


def _events(answer: Answer) -> pa.Table:
    """Rows of one key, in order, with the columns that the query reads."""
    listing, rows = answer.listing, answer.rows
    key, begin, end = 0, 0, MAX_ROWS
    if len(listing):
        key = int(listing.key[0])
        begin = max(0, int(listing.first[0]) - _BEFORE)
        end = max(begin + MAX_ROWS // 4, int(listing.last[0]) + 2)
    if not rows.keys:
        return answer.table.slice(0, 0)
    first, behind = rows.rows(key)
    positions = np.arange(first + begin, min(behind, first + end, first + begin + MAX_ROWS))
    names = [n for n in columns_read(answer.query) if n in answer.table.column_names]
    names = names or answer.table.column_names[:4]
    return rows.values(positions.tolist(), names)


def _said(match: dict[str, Any]) -> str:
    events = match.get("events") or []
    return " ".join(f"{event['label']}@{event['time']}".replace(" ", "T") for event in events)

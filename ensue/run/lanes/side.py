"""Rows of a lane's output: matches, and rows put aside with the reason why they play no part.

A row that is no match has its key, a `status`, the row as JSON (`event`), and, in the words of
`why`, the class of the reason (`reason`) and a sentence (`text`).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ensue.operator.intake import REASON, passed
from ensue.operator.intake import TEXT as SENTENCE
from ensue.operator.match_names import MATCH
from ensue.operator.status import LATE, MATCHED, REFUSED, REJECTED, SHED, STATUS
from ensue.run.lanes.rows import as_json
from ensue.run.lanes.work import MATCH_ID, OP, SHOWN, TEXT, Work
from ensue.scalar.moments import values_of

_REASONS = {LATE: LATE, REJECTED: REJECTED, REFUSED: REJECTED, SHED: SHED}
UNKNOWN = "its operation is not known: it is not an insert, update or delete"
NOTHING_TO_TAKE_BACK = "it takes back a row that was never seen"


def shown(work: Work, table: pa.Table, status: str = MATCHED, op: str = "+") -> pa.Table:
    """Rows found, or rows put aside, as rows of the output."""
    rows, settings = table.num_rows, work.settings
    aside = status != MATCHED
    columns: dict[str, Any] = {}
    for name in work.output.names:
        kind = work.output.field(name).type
        nothing = pa.nulls(rows, kind)
        if name == OP and settings.speculative:
            columns[name] = pa.array([op] * rows, kind)
        elif name == MATCH_ID and settings.speculative:
            columns[name] = table[MATCH] if MATCH in table.column_names else nothing
        elif name == STATUS and settings.late:
            columns[name] = pa.array([status] * rows, kind)
        elif name == SHOWN and settings.late:
            columns[name] = table[TEXT] if aside else nothing
        elif name == REASON and settings.late:
            columns[name] = pa.array([_REASONS.get(status)] * rows, kind)
        elif name == SENTENCE and settings.late:
            columns[name] = table[SENTENCE] if aside else nothing
        elif not aside or name in work.partition_by:
            columns[name] = table[name]
        else:
            columns[name] = nothing
    return pa.table(columns).cast(work.output)


def aside(work: Work, rows: pa.Table, status: str, text: str, closed: bool = False) -> pa.Table:
    """Rows that came to nothing; `closed`: the stream had ended before they came."""
    texts = [text] * rows.num_rows
    if status == LATE:
        by = "the stream was closed before it came" if closed else ""
        texts = passed(work.time, values_of(rows[work.time]), by)
    told = [*work.partition_by, TEXT]
    found = pa.table({name: rows[name] for name in told})
    return shown(work, found.append_column(SENTENCE, pa.array(texts, pa.string())), status)


def unused(work: Work, rows: pa.Table) -> pa.Table:
    """Rows that an operator refused, each with its `reason`."""
    reasons = rows[REASON] if REASON in rows.column_names else pa.nulls(rows.num_rows, pa.string())
    named = as_json(rows, work.partition_by).append_column(SENTENCE, reasons)
    return shown(work, named, REJECTED)


def refused(work: Work, orders: list[dict[str, str]]) -> pa.Table:
    """Orders that cannot be carried out."""
    keys = [work.schema.field(name) for name in work.partition_by]
    found = {field.name: pa.nulls(len(orders), field.type) for field in keys}
    found[TEXT] = pa.array([json.dumps(told, ensure_ascii=False) for told in orders])
    found[SENTENCE] = pa.array([told["error"] for told in orders])
    return shown(work, pa.table(found), REFUSED)

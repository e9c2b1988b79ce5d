"""Event patterns whose partitions come in pieces: a driver that tests share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan, plan
from ensue.operator.arrange import arrange
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events, Watermark
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import local
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.pieces import TotalsInPieces
from ensue.sequences.totals import Finish, Grouping


def prepared(query: Query, table: pa.Table) -> tuple[Plan, pa.Table, np.ndarray]:
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    ready = local.prepare(planned, table.combine_chunks())
    return planned, *arrange(ready, bound.partition_by, bound.order_by)


def rounds(starts: np.ndarray, cuts: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """(partition, begin, end) of each call: the partitions take turns in pieces of these sizes."""
    places = [int(start) for start in starts[:-1]]
    found, turn = [], 0
    while any(place < end for place, end in zip(places, starts[1:], strict=True)):
        here = []
        for index, place in enumerate(places):
            size = cuts[(turn + index) % len(cuts)]
            end = min(int(starts[index + 1]), place + size)
            if end > place:
                here.append((index, place, end))
                places[index] = end
        found.append(here)
        turn += 1
    return found


def in_pieces(
    query: Query,
    table: pa.Table,
    cuts: Sequence[int],
    restore: bool,
    marks: bool,
    listing: Listing | None = None,
    together: bool = False,
) -> list[dict[str, Any]]:
    """All matches of a table whose partitions come in pieces; `marks`: a watermark after each."""
    planned, rows, starts = prepared(query, table)

    def opened(state: Any = None) -> SequencesEvaluator:
        evaluator = SequencesEvaluator(listing)
        evaluator.open(planned, rows.schema, state=state)
        return evaluator

    evaluator = opened()
    found = [evaluator.no_matches(rows.schema)]
    for step in steps(query, rows, starts, cuts, marks):
        call = evaluator.insert if isinstance(step, Events) else evaluator.advance
        found.extend(call(step).tables())  # type: ignore[arg-type]
        if restore:
            evaluator = opened(evaluator.snapshot_together() if together else evaluator.snapshot())
    found.extend(evaluator.end().tables())
    assert not evaluator.snapshot().keys
    return list(local.finish(planned, pa.concat_tables(found)).to_pylist())


def totals_in_pieces(
    query: Query,
    table: pa.Table,
    grouping: Grouping,
    cuts: Sequence[int],
    restore: bool,
    marks: bool,
) -> list[dict[str, Any]]:
    """The atoms of aggregates over all matches, added up from the partials of all pieces."""
    planned, rows, starts = prepared(query, table)
    totals = TotalsInPieces(planned, rows.schema, grouping)
    found = []
    for step in steps(query, rows, starts, cuts, marks):
        call = totals.insert if isinstance(step, Events) else totals.advance
        found.append(call(step))  # type: ignore[arg-type]
        if restore:
            totals = TotalsInPieces(planned, rows.schema, grouping, totals.snapshot())
    found.append(totals.end())
    assert not totals.snapshot().keys
    return list(Finish(planned, grouping, rows.schema).table(found).to_pylist())


def steps(
    query: Query, rows: pa.Table, starts: np.ndarray, cuts: Sequence[int], marks: bool
) -> Iterator[Events | Watermark]:
    """The pieces of a table, each with a watermark after it where `marks`."""
    done = [int(start) for start in starts[:-1]]
    order = query.order_by[0].column if query.order_by else None
    for pieces in rounds(starts, cuts):
        part = pa.concat_tables([rows.slice(begin, end - begin) for _, begin, end in pieces])
        sizes = [end - begin for _, begin, end in pieces]
        yield Events(
            part.combine_chunks(),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.zeros(len(pieces), np.bool_),
        )
        for index, _, end in pieces:
            done[index] = end
        if marks and order is not None:
            coming = [
                rows.column(order)[place].as_py()
                for place, end in zip(done, starts[1:], strict=True)
                if place < end
            ]
            if coming and None not in coming:
                yield Watermark(min(coming))

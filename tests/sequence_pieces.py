"""Event patterns whose partitions come in pieces: a driver that tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import local
from ensue.automaton.plan import Plan, plan
from ensue.evaluate.arrange import arrange
from ensue.evaluate.base import Events, Watermark
from ensue.evaluate.sequence_listing import Listing
from ensue.evaluate.sequences import SequencesEvaluator
from ensue.pattern import rules
from ensue.pattern.binding import bind
from ensue.pattern.query import Query


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
    done = [int(start) for start in starts[:-1]]
    order = query.order_by[0].column if query.order_by else None
    for pieces in rounds(starts, cuts):
        part = pa.concat_tables([rows.slice(begin, end - begin) for _, begin, end in pieces])
        sizes = [end - begin for _, begin, end in pieces]
        events = Events(
            part.combine_chunks(),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.zeros(len(pieces), np.bool_),
        )
        found.extend(evaluator.insert(events).tables())
        for index, _, end in pieces:
            done[index] = end
        if restore:
            state = evaluator.snapshot_together() if together else evaluator.snapshot()
            evaluator = opened(state)
        if marks and order is not None:
            coming = [
                rows.column(order)[place].as_py()
                for place, end in zip(done, starts[1:], strict=True)
                if place < end
            ]
            if coming and None not in coming:
                found.extend(evaluator.advance(Watermark(min(coming))).tables())
                if restore:
                    evaluator = opened(evaluator.snapshot())
    found.extend(evaluator.end().tables())
    assert not evaluator.snapshot().keys
    return list(local.finish(planned, pa.concat_tables(found)).to_pylist())

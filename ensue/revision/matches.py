"""All matches of an automaton in a complete table, by the operator for events in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import RegisterAutomaton
from ensue.operator.identity import row_hashes
from ensue.operator.intake import REASON
from ensue.operator.protocol import bounded
from ensue.revision import limits
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.limits import OverfullError
from ensue.revision.parts import DEFAULT, Settings
from ensue.revision.timing import Timing

CHUNK = 1 << 16  # rows after which a complete, ordered table lets go of the past
LEAST_CHUNK = CHUNK >> 10


def all_matches(
    machine: RegisterAutomaton,
    timing: Timing,
    table: pa.Table,
    partition_by: Sequence[str] = (),
    settings: Settings = DEFAULT,
) -> pa.Table:
    """All matches in a complete table, in the order of partitions and of their last events."""
    chunk = CHUNK
    while True:
        evaluator = RevisionEvaluator(machine, timing, table.schema, partition_by, settings)
        try:
            found = _in_chunks(evaluator, table, chunk)
            break
        except OverfullError:
            if chunk == LEAST_CHUNK or table.num_rows <= LEAST_CHUNK:
                raise
            chunk >>= 5  # the past is let go of earlier
    if evaluator.rejected.num_rows:
        problem = evaluator.rejected.column(REASON)[0].as_py()
        raise errors.DataError(
            f"{evaluator.rejected.num_rows} rows could not be used; the first: {problem}",
            remedy="use matcher(), which reports such rows and continues",
        )
    joined = pa.concat_tables(found).drop_columns(["op", "match_id"])
    order = [(name, "ascending") for name in partition_by]
    order += [("last", "ascending"), ("first", "ascending")]
    joined = joined.sort_by(order) if joined.num_rows else joined
    numbers = _numbers(joined, partition_by)
    return joined.add_column(len(partition_by), "match_number", pa.array(numbers))


def _in_chunks(evaluator: RevisionEvaluator, table: pa.Table, chunk: int) -> list[pa.Table]:
    """The changes that a table makes."""
    times = evaluator.times(table)
    by_time = np.lexsort((times.name, times.tie, times.le))
    if (np.diff(by_time) < 0).any():
        table = table.take(pa.array(by_time))
        times = evaluator.times(table)

    def changes() -> Iterator[pa.Table]:
        for begin in range(0, table.num_rows, chunk):
            yield evaluator.insert(table.slice(begin, chunk))
            limits.check_matches(evaluator.metrics.matches)
            edge = begin + chunk
            if edge < table.num_rows:
                yield evaluator.advance(evaluator.clock.time(int(times.le[edge])))
        yield evaluator.end()

    return list(bounded(changes()))


def _numbers(table: pa.Table, partition_by: Sequence[str]) -> NDArray[np.int64]:
    """1, 2, ... in each partition."""
    if not partition_by:
        return np.arange(1, table.num_rows + 1)
    names = row_hashes(table, partition_by)
    fresh = np.concatenate(([True], names[1:] != names[:-1])) if len(names) else np.zeros(0, bool)
    firsts = np.flatnonzero(fresh)
    return np.arange(len(names)) - np.repeat(firsts, np.diff([*firsts, len(names)])) + 1

"""All matches of an automaton in a complete table, by the operator for events in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import RegisterAutomaton
from ensue.operator.identity import row_hashes
from ensue.operator.intake import REASON
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.parts import DEFAULT, Settings
from ensue.revision.timing import Timing

CHUNK = 1 << 16  # rows after which a complete, ordered table lets go of the past


def all_matches(
    machine: RegisterAutomaton,
    timing: Timing,
    table: pa.Table,
    partition_by: Sequence[str] = (),
    settings: Settings = DEFAULT,
) -> pa.Table:
    """All matches in a complete table, in the order of partitions and of their last events."""
    evaluator = RevisionEvaluator(machine, timing, table.schema, partition_by, settings)
    times = evaluator.times(table)
    by_time = np.lexsort((times.name, times.tie, times.le))
    if (np.diff(by_time) < 0).any():
        table = table.take(pa.array(by_time))
        times = evaluator.times(table)
    found = []
    for begin in range(0, table.num_rows, CHUNK):
        part = table.slice(begin, CHUNK)
        found.append(evaluator.insert(part))
        edge = begin + CHUNK
        if edge < table.num_rows:
            found.append(evaluator.advance(evaluator.clock.time(int(times.le[edge]))))
    found.append(evaluator.end())
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


def _numbers(table: pa.Table, partition_by: Sequence[str]) -> NDArray[np.int64]:
    """1, 2, ... in each partition."""
    if not partition_by:
        return np.arange(1, table.num_rows + 1)
    names = row_hashes(table, partition_by)
    fresh = np.concatenate(([True], names[1:] != names[:-1])) if len(names) else np.zeros(0, bool)
    firsts = np.flatnonzero(fresh)
    return np.arange(len(names)) - np.repeat(firsts, np.diff([*firsts, len(names)])) + 1

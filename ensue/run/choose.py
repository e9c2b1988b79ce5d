"""Which evaluator lists the matches of a query."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from ensue.missing.evaluator import ApproximateEvaluator
from ensue.operator.listing import Listing
from ensue.operator.protocol import Evaluator
from ensue.query.query import Query
from ensue.rows.evaluator import RowsEvaluator
from ensue.sequences.evaluator import SequencesEvaluator


class Matcher(Evaluator, Protocol):
    """An evaluator that lists matches."""

    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


def evaluator_for(query: Query, listing: Listing | None = None) -> Matcher:
    """The evaluator that lists the matches of a query."""
    if query.missing is not None:
        return ApproximateEvaluator(listing)
    return RowsEvaluator() if query.row_semantics else SequencesEvaluator(listing)

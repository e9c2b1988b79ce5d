"""Which evaluator lists the matches of a query."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from ensue.evaluate.approximate import ApproximateEvaluator
from ensue.evaluate.base import Evaluator
from ensue.evaluate.listing import Listing
from ensue.evaluate.rows import RowsEvaluator
from ensue.evaluate.sequences import SequencesEvaluator
from ensue.pattern.query import Query


class Matcher(Evaluator, Protocol):
    """An evaluator that lists matches."""

    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


def evaluator_for(query: Query, listing: Listing | None = None) -> Matcher:
    """The evaluator that lists the matches of a query."""
    if query.missing is not None:
        return ApproximateEvaluator(listing)
    return RowsEvaluator() if query.row_semantics else SequencesEvaluator(listing)

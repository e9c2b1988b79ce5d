"""The dry run of an edit on a DataFrame: two runs, and what only one of them has."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ensue.query.query import Query
from ensue.run.diff import APPEARS, DISAPPEARS, NUMBER, OP
from ensue.run.spark import batch


def run(old: Query, new: Query, data: DataFrame) -> DataFrame:
    """`op` and the columns of the listing; rows of equal order are in no promised order."""
    before, after = (batch.run(query, data).drop(NUMBER) for query in (old, new))
    went = before.exceptAll(after).select(f.lit(DISAPPEARS).alias(OP), "*")
    return went.unionByName(after.exceptAll(before).select(f.lit(APPEARS).alias(OP), "*"))

"""`with_row_ids` on Spark: the same numbers that the workers give rows, by a window function."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run.spark.keyed import quoted


def add(query: Query, data: DataFrame, name: str) -> DataFrame:
    if data.isStreaming or not query.order_by:
        raise errors.UnsupportedError(
            "with_row_ids numbers the rows of a batch in an order, and this "
            + ("is a stream" if data.isStreaming else "query has none"),
            remedy="give the rows as a batch DataFrame, and order_by(...)",
        )
    if name in data.columns:
        raise errors.DuplicateNameError(
            f"with_row_ids: the data has a column {name!r} already",
            remedy="choose another name: with_row_ids(data, name='row_id')",
        )
    bound = bind(query, data.columns)
    order = []
    for key in bound.order_by:
        column = F.col(quoted(key.column))
        if key.descending:
            order.append(column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last())
        else:
            order.append(column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last())
    keys = [F.col(quoted(column)) for column in bound.partition_by]
    window = Window.partitionBy(*keys).orderBy(*order)
    return data.withColumn(name, (F.row_number().over(window) - 1).cast("bigint"))

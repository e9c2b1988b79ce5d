"""Edges of a DataFrame made fit for joins, with the same settings as in process.

Each check that finds something says how many edges it was; what was dropped is noted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, IntegralType, LongType, StringType

from ensue import errors
from ensue.run.spark.keyed import quoted

EdgeColumns = tuple[str, str, str]  # names of source, label and target
SRC_COLUMN, LABEL_COLUMN, DST_COLUMN, EDGE_COLUMN = "__src", "__label", "__dst", "__edge"


def node_type(df: DataFrame, src: str, dst: str) -> DataType:
    first, second = df.schema[src].dataType, df.schema[dst].dataType
    if first == second:
        return first
    if isinstance(first, IntegralType) and isinstance(second, IntegralType):
        return LongType()
    if isinstance(first, StringType) and isinstance(second, StringType):
        return first
    raise errors.ColumnTypeError(
        f"{src} is {first.simpleString()}, {dst} is {second.simpleString()}: a node has one type",
        remedy="cast one of the two columns",
    )


def without_nulls(edges: DataFrame, nulls: str, names: EdgeColumns, notes: list[str]) -> DataFrame:
    bad = F.col(SRC_COLUMN).isNull() | F.col(LABEL_COLUMN).isNull() | F.col(DST_COLUMN).isNull()
    count = edges.where(bad).count()
    if not count:
        return edges
    if nulls == "error":
        raise errors.DataError(
            f"{count:,} edges have a null {', '.join(names[:2])} or {names[2]}",
            remedy='fill the values, or set nulls="drop"',
        )
    notes.append(f"{count:,} edges with a null end or label were dropped")
    return edges.where(~bad)


def without_repeats(edges: DataFrame, duplicates: str, notes: list[str]) -> DataFrame:
    if duplicates == "keep":
        return edges
    distinct = edges.dropDuplicates()
    repeats = edges.count() - distinct.count()
    if repeats and duplicates == "error":
        raise errors.DataError(
            f"{repeats:,} edges repeat another in every column",
            remedy='remove them, or set duplicates="drop" (one edge) or "keep" (parallel edges)',
        )
    if repeats:
        notes.append(f"{repeats:,} edges that repeat another in every column were dropped")
    return distinct


def without_dangling(
    edges: DataFrame, nodes: DataFrame, node_id: str, dangling: str, notes: list[str]
) -> DataFrame:
    if node_id not in nodes.columns:
        raise errors.UnknownColumnError(
            f"the nodes have no column {node_id!r} (node_id=)",
            remedy=f"name one of {', '.join(nodes.columns)}",
        )
    known = nodes.select(F.col(quoted(node_id)).alias("__known")).distinct()
    inside = edges.join(known, F.col(SRC_COLUMN) == F.col("__known"), "left_semi")
    inside = inside.join(known, F.col(DST_COLUMN) == F.col("__known"), "left_semi")
    count = edges.count() - inside.count()
    if not count:
        return edges
    if dangling == "error":
        raise errors.DataError(
            f"{count:,} edges have an end that the table of nodes does not have",
            remedy='add the nodes, or set dangling="keep" (no attributes) or "drop"',
        )
    if dangling == "keep":
        notes.append(f"{count:,} edges have an end that the table of nodes does not have")
        return edges
    notes.append(f"{count:,} edges with an end outside the table of nodes were dropped")
    return inside

"""Edges of a DataFrame made fit for joins: cleaned, with the same settings as in process, and from
both ends, with bits that say which conditions they pass.

Each check that finds something says how many edges it was; what was dropped is noted. Conditions
look at an edge and its two nodes; Spark evaluates them here, before any path is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, IntegralType, LongType, StringType

from ensue import errors
from ensue.query import condition as c
from ensue.query.paths import EDGE, NODE, SOURCE, EdgeTest
from ensue.query.sql import row_sql
from ensue.run.spark.keyed import quoted

if TYPE_CHECKING:
    from ensue.run.spark.graph_joins import JoinedGraph

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


def entries_of(
    graph: JoinedGraph, used: set[tuple[str, bool]], conditional: Sequence[EdgeTest]
) -> DataFrame:
    """Edges from both ends, of the labels and directions that are used; bit k of `bits` says
    whether the edge passes the k-th conditional test."""
    pieces = []
    for back in (False, True):
        labels = sorted(label for label, direction in used if direction == back)
        if not labels and (used or back):  # where no arc is left, a table without rows
            continue
        left, right = (DST_COLUMN, SRC_COLUMN) if back else (SRC_COLUMN, DST_COLUMN)
        piece = graph.edges.where(F.col(LABEL_COLUMN).isin(labels)).select(
            F.col(left).alias("from"),
            F.col(right).alias("to"),
            F.col(LABEL_COLUMN).alias("label"),
            F.lit(back).alias("back"),
            F.col(EDGE_COLUMN).alias("edge_number"),
            F.struct(
                *(F.col(quoted(name)) for name in graph.columns),
                F.col(LABEL_COLUMN).alias("label"),
            ).alias(EDGE),
        )
        pieces.append(piece)
    entries = pieces[0] if len(pieces) == 1 else pieces[0].unionByName(pieces[1])
    entries = _with_nodes(graph, entries, conditional)
    bits = F.lit(0).cast("bigint")
    for place, test in enumerate(conditional):
        labels = [label for label in graph.labels if test.accepts(label)]
        fits = F.col("label").isin(labels) & (F.col("back") == F.lit(test.backward))
        assert test.condition is not None
        holds = F.expr(row_sql(test.condition))
        bits = bits + F.when(fits & holds, F.lit(1 << place)).otherwise(F.lit(0))
    named = ("from", "to", "label", "back", "edge_number")
    return entries.select(*named, bits.cast("bigint").alias("bits"))


def _with_nodes(
    graph: JoinedGraph, entries: DataFrame, conditional: Sequence[EdgeTest]
) -> DataFrame:
    """Structs `node` and `source` for the conditions that read them."""
    roots = {
        node.name
        for test in conditional
        for node in c.walk(test.condition or c.TRUE)
        if isinstance(node, c.Column)
    }
    for root, column in ((NODE, "to"), (SOURCE, "from")):
        if root not in roots:
            continue
        attributes: list[str] = []
        if graph.nodes is not None:
            attributes = [n for n in graph.nodes.columns if n != graph.node_id]
            prefixed = graph.nodes.select(
                F.col(quoted(graph.node_id)).alias("__id"),
                *(F.col(quoted(n)).alias(f"__n_{at}") for at, n in enumerate(attributes)),
            )
            entries = entries.join(prefixed, entries[column] == prefixed["__id"], "left")
        fields = [F.col(column).alias("id")]
        if graph.node_id != "id" and graph.nodes is not None:
            fields.append(F.col(column).alias(graph.node_id))
        fields += [F.col(f"__n_{at}").alias(n) for at, n in enumerate(attributes) if n != "id"]
        entries = entries.withColumn(root, F.struct(*fields))
        entries = entries.drop("__id", *(f"__n_{at}" for at in range(len(attributes))))
    return entries


def first_of_each(rows: DataFrame, limit: int | None, by: str) -> DataFrame:
    """At most `limit` rows of each query and start, the least first."""
    if not limit:
        return rows
    keys = [name for name in ("query", "start") if name in rows.columns]
    rank = F.row_number().over(Window.partitionBy(*keys).orderBy(by))
    return rows.withColumn("__rank", rank).where(F.col("__rank") <= limit).drop("__rank")

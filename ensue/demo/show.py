"""`ensue demo`: three patterns on generated events, on local Spark.

It writes the tables as parquet, matches them, and prints what a new user wants to see: the
question, the plan, the matches, the speed, and a picture.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import ensue
from ensue.api.pattern import Pattern
from ensue.demo.data import funnel, ticks
from ensue.draw.timeline import draw_timeline

SHOWN = 5


@dataclass(frozen=True)
class Question:
    title: str
    table: str
    pattern: Pattern
    order: str  # the measure to show the most striking matches by


def questions() -> tuple[Question, ...]:
    bought = (
        ensue.pattern("view cart+ pay", types="kind")
        .partition_by("user_id")
        .order_by("ts")
        .within("1 hour")
        .measures(
            started="FIRST(ts)",
            carts="COUNT(cart.*)",
            total="SUM(cart.amount)",
            paid="LAST(pay.amount)",
        )
    )
    returned = (
        ensue.pattern("pay other*? refund", types=None)
        .define(
            pay="kind = 'pay'",
            other="kind NOT IN ('pay', 'refund')",
            refund="kind = 'refund' AND refund.amount > pay.amount",
        )
        .partition_by("user_id")
        .order_by("ts")
        .within("1 day")
        .measures(
            paid="pay.amount",
            refunded="refund.amount",
            between="COUNT(other.*)",
            support="COUNT(*) FILTER (WHERE kind = 'support')",
        )
    )
    valley = (
        ensue.pattern("A B{3,} C{3,}")
        .define(B="price < PREV(price)", C="price > PREV(price)")
        .partition_by("symbol")
        .order_by("ts")
        .measures(
            top="A.price",
            bottom="LAST(B.price)",
            recovered="LAST(C.price)",
            rows="COUNT(*)",
            depth="round(100 * (A.price - LAST(B.price)) / A.price, 2)",
        )
    )
    return (
        Question("Bought in one go: view, carts, payment within an hour", "shop", bought, "total"),
        Question("Refunded more than was paid, within a day", "shop", returned, "refunded"),
        Question("Valleys: at least three falls, then three rises", "market", valley, "depth"),
    )


def run(rows: int, picture: Path, console: Console) -> None:
    from ensue.run.spark.session import local_session

    began = time.perf_counter()
    spark, java = local_session()
    console.print(f"[dim]{java}[/dim]")
    with tempfile.TemporaryDirectory(prefix="ensue-demo-") as folder:
        tables = {"shop": funnel(max(1, rows // 100), rows), "market": ticks(1_000, rows)}
        frames = {}
        for name, table in tables.items():
            path = str(Path(folder) / f"{name}.parquet")
            pq.write_table(table, path)
            frames[name] = spark.read.parquet(path)
            console.print(f"{name}: {table.num_rows:,} rows, {', '.join(table.column_names)}")
        for question in questions():
            _answer(question, frames[question.table], rows, console)
        _picture(tables["market"], picture)
    console.print(f"\nA timeline of matches is in [bold]{picture}[/bold]")
    console.print(f"[dim]demo took {time.perf_counter() - began:.1f} s[/dim]")


def _answer(question: Question, frame: Any, rows: int, console: Console) -> None:
    from ensue.run.spark.raised import action

    console.rule(question.title)
    console.print(question.pattern.sql(), style="cyan", markup=False, highlight=False)
    console.print(question.pattern.explain(frame), style="dim", markup=False, highlight=False)
    began = time.perf_counter()
    planned = question.pattern.matches(frame)
    with action(planned, "matching"):
        found = planned.toArrow()
    seconds = time.perf_counter() - began
    console.print(_readable(found, question.order))
    console.print(
        f"{found.num_rows:,} matches in {rows:,} rows: {seconds:.2f} s, "
        f"[bold]{rows / seconds:,.0f} rows/s[/bold]"
    )


def _readable(found: pa.Table, order: str) -> Table:
    first = found.take(pc.sort_indices(found, sort_keys=[(order, "descending")])[:SHOWN])
    shown = Table(box=None, header_style="bold")
    for name in first.column_names:
        shown.add_column(name, justify="right")
    for row in first.to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    return shown


def _picture(market: pa.Table, path: Path) -> None:
    """The valleys of a few symbols, over their prices."""
    symbols = pc.unique(market["symbol"]).slice(0, 4)
    some = market.filter(pc.is_in(market["symbol"], symbols)).sort_by("ts")
    some = some.slice(0, 400)
    valley = (
        ensue.pattern("A B{2,} C{2,}")
        .define(B="price < PREV(price)", C="price > PREV(price)")
        .partition_by("symbol")
        .order_by("ts")
    )
    draw_timeline(
        some, valley.matches(some), partition="symbol", order="ts", value="price", path=str(path)
    )

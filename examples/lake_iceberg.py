"""Events from an Iceberg table, matches into another, without a JVM.

pip install ensue 'pyiceberg[sql-sqlite]'
python examples/lake_iceberg.py
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path

import ensue
from ensue.demo import data

FALL = (
    ensue.pattern("A B+ C")
    .define(B="price < LAST(price, 1)", C="price > LAST(price, 1)")
    .partition_by("symbol")
    .order_by("ts")
    .measures(at="FIRST(ts)", bottom="LAST(B.price)")
)


def main(folder: Path) -> int:
    catalog = import_module("pyiceberg.catalog").load_catalog(
        "lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("shop")
    ticks = data.ticks(symbols=5, rows=1_000)
    catalog.create_table("shop.ticks", schema=ticks.schema).append(ticks)

    events = catalog.load_table("shop.ticks").scan(row_filter="price > 1").to_arrow()
    falls = FALL.matches(events)
    catalog.create_table("shop.falls", schema=falls.schema).append(falls)
    written: int = catalog.load_table("shop.falls").scan().count()
    assert written == falls.num_rows
    print(f"{written} matches in shop.falls")
    return written


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))

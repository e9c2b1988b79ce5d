"""The change feed of a Delta table, followed in process: the matches of the table as it is now.

    pip install ensue deltalake
    python examples/lake_delta.py

Every commit says which rows came and which went; the matcher takes both, and withdraws matches that
no longer are. Its snapshot, kept with the version, goes on where it stopped.
"""

from __future__ import annotations

import math
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

import ensue
from ensue.demo import data

FALL = (
    ensue.pattern("A B+ C")
    .define(B="price < LAST(price, 1)", C="price > LAST(price, 1)")
    .partition_by("symbol")
    .order_by("ts")
    .measures(at="FIRST(ts)", bottom="LAST(B.price)")
)
COLUMNS = ("symbol", "ts", "price")
COME, GONE = ("insert", "update_postimage"), ("delete", "update_preimage")


def follow(matcher: Any, table: Any, version: int) -> dict[str, dict[str, Any] | None]:
    """What one commit changes: matches by their id, None for those that are withdrawn."""
    feed = pa.table(table.load_cdf(starting_version=version, ending_version=version)).to_pylist()
    changed: dict[str, dict[str, Any] | None] = {}
    for take, kinds in ((matcher.retract, GONE), (matcher.insert, COME)):
        rows = [{n: row[n] for n in COLUMNS} for row in feed if row["_change_type"] in kinds]
        for change in take(rows).to_pylist() if rows else ():
            changed[change["match_id"]] = change if change["op"] == "+" else None
    return changed


def main(folder: Path) -> int:
    deltalake = import_module("deltalake")
    place = str(folder / "ticks")
    ticks = data.ticks(symbols=5, rows=1_000).sort_by("ts")
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(place, ticks.slice(0, 600), configuration=feed)
    deltalake.write_deltalake(place, ticks.slice(600), mode="append")
    table = deltalake.DeltaTable(place)
    table.update(predicate="price > 100", updates={"price": "price - 5"})
    table.delete("symbol = 'CAAA'")

    matcher = FALL.matcher(speculation=math.inf)
    matches: dict[str, dict[str, Any] | None] = {}
    for version in range(table.version() + 1):
        changed = follow(matcher, table, version)
        matches.update(changed)
        print(f"version {version}: {len(changed)} matches changed")
    standing = {(m["symbol"], m["at"], m["bottom"]) for m in matches.values() if m is not None}
    now = FALL.matches(table.to_pyarrow_table()).to_pylist()
    assert standing == {(m["symbol"], m["at"], m["bottom"]) for m in now}
    print(f"{len(standing)} matches stand, as in the table")
    return len(standing)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))

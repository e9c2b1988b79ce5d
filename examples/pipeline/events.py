"""The events that the pipeline reads: four parquet files in the folder `events`.

python events.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq

from ensue.demo import data


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    events = data.funnel(users=100, events=4_000).sort_by("ts")
    for number in range(4):
        path = folder / f"{number}.parquet"
        pq.write_table(events.slice(number * 1_000, 1_000), path)
        os.utime(path, (number, number))  # Spark reads files by the time of their last change


if __name__ == "__main__":
    write(Path("events"))

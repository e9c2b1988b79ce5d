"""The benchmark harness: what it counts, what it writes, how it answers."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from benchmarks import __main__ as command
from benchmarks import harness, processes, sharp_data, whole
from benchmarks.harness import Measurement, Target
from benchmarks.rows import Settings

ON_LINUX = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads /proc")


def burn() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


@ON_LINUX
def test_the_clock_counts_processes_below() -> None:
    with processes.Clock() as clock:
        burn()
    assert 0.25 < clock.cpu < 2
    assert clock.wall >= 0.25


@ON_LINUX
def test_variants_take_turns_after_a_warm_up() -> None:
    calls: list[str] = []

    def variant(name: str) -> str:
        calls.append(name)
        return name

    found = harness.compare(
        {"a": (10, lambda: variant("a")), "b": (20, lambda: variant("b"))}, repeat=2, warm_up=1
    )
    assert calls == ["a", "b"] * 3
    assert [(m.name, m.rows, len(m.wall), m.answer) for m in found] == [
        ("a", 10, 2, "a"),
        ("b", 20, 2, "b"),
    ]


def test_a_report_is_written_with_its_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "OUT", tmp_path / "out")
    measured = Measurement("one", 100, wall=[1.0, 3.0], cpu=[2.0, 4.0], others=[0.0, 0.0])
    missed = Target("ratio", 2.0, 1.5)
    assert not harness.report("title", [measured], [missed], "name")
    written = json.loads((tmp_path / "out" / "name.json").read_text())
    assert written["targets"] == [
        {"name": "ratio", "value": 2.0, "limit": 1.5, "at_most": True, "met": False}
    ]
    rows = list(csv.DictReader((tmp_path / "out" / "name.csv").open()))
    assert [row["cpu"] for row in rows] == ["2.0000", "4.0000"]
    assert str(missed) == "ratio: 2.00 (target ≤ 1.50): MISSED"


@ON_LINUX
def test_the_whole_table_survives_a_part_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "OUT", tmp_path / "out")
    floor = Measurement("floor", 100, wall=[1.0], cpu=[2.0], others=[0.0])
    ours = Measurement("ours", 100, wall=[3.0], cpu=[3.0], others=[0.0])

    def measured(settings: Settings) -> bool:
        assert (settings.rows, settings.repeat) == (100, 1)
        ratio = ours.cpu_median / floor.cpu_median
        promises = [Target("CPU, ours ÷ floor", ratio, 1.2), Target("matches", 7.0, 1.0, False)]
        return harness.report("title", [floor, ours], promises, "one")

    def broken(settings: Settings) -> bool:
        raise ValueError("no such file")

    parts: dict[str, int | None] = {"broken": None, "measured": 100}
    told = whole.run({"broken": broken, "measured": measured}, Settings(tmp_path), parts)
    whole.keep(told, tmp_path)
    kept = [json.loads(line) for line in (tmp_path / "quick.jsonl").read_text().splitlines()]
    assert [(one.get("part"), one.get("failed")) for one in kept[1:3]] == [
        ("broken", "ValueError: no such file"),
        ("measured", None),
    ]
    assert [tuple(one.values()) for one in kept[3:]] == [
        ("the whole table", "broken runs", "ValueError: no such file", "", "", "", False),
        ("one", "CPU, ours ÷ floor", "3.00 s", "2.00 s", "1.50", "≤ 1.20", False),
        ("one", "matches", "7.00", "", "", "≥ 1.00", True),
    ]


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name}: " in listed.lower() for name in command.BENCHMARKS)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["none-such"])
    assert "no benchmark 'none-such'" in capsys.readouterr().err


@pytest.mark.parametrize("published", [True, False])
def test_trips_are_found_below_the_folder_whatever_their_columns_are_called(
    tmp_path: Path, published: bool
) -> None:
    names = (
        ["tripduration", "start station id", "start station latitude", "start station longitude"]
        if published
        else ["duration_s", "start_station_id", "start_lat", "start_lon"]
    )
    trips = pa.table([[60, 90, 120], [7, 7, 9], [40.7] * 3, [-74.0] * 3], names=names)
    (tmp_path / "bikes").mkdir()
    pq.write_table(pa.table({"pickup": [1]}), tmp_path / "trips.parquet")  # of taxis
    if published:
        write_csv(trips, tmp_path / "bikes" / "JC-tripdata.csv")
    else:
        pq.write_table(trips, tmp_path / "bikes" / "trips.parquet")
    found = sharp_data.citi_bike(str(tmp_path), 2)
    assert found.select(["t", "type", "V"]).to_pylist() == [
        {"t": 0, "type": "A", "V": 60_000.0},
        {"t": 1, "type": "A", "V": 90_000.0},
    ]
    with pytest.raises(sharp_data.MissingDataError, match=r"no crimes .* below"):
        sharp_data.crimes(str(tmp_path), 2)


def test_what_the_whole_table_runs_is_there() -> None:
    assert set(whole.PARTS) <= set(command.BENCHMARKS)

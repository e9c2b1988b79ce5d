"""Streams and queries of SHARP §6.1: DS1, DS2, a table shaped like Chicago's crimes, Q1 to Q6.

Positions are latitude X and longitude Y in degrees. The generators add, per row, the unit vector of
the position (px, py, pz) and the cosine of V as an angle on the Earth (v_cos): the great-circle
distance of d and e is at most f.v exactly where the scalar product of their vectors is at least
cos(f.v / r). Haversine (Q3) and the law of cosines (Q4) are two formulas of that one distance, so
both become the scalar product; the radius is in metres, so that V (up to 3,000 km) can tell.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import ensue
from ensue.api import Pattern

RADIUS = 6_371_000.0


def _with_vectors(columns: dict[str, np.ndarray]) -> pa.Table:
    x, y = np.radians(columns["X"]), np.radians(columns["Y"])
    columns["px"], columns["py"] = np.cos(x) * np.cos(y), np.cos(x) * np.sin(y)
    columns["pz"] = np.sin(x)
    columns["v_cos"] = np.cos(np.minimum(columns["V"] / RADIUS, np.pi))
    return pa.table(columns)


def ds1(events: int, seed: int = 0, highest: float = 3e6, drift_at: int | None = None) -> pa.Table:
    """Five uniform attributes; with `drift_at`, the V of D changes as in Figure 15."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list("ABCDEFGHIJ"), events)
    value = rng.uniform(1, highest, events)
    if drift_at is not None:
        is_d = kind == "D"
        before = np.arange(events) < drift_at
        value[is_d & before] = rng.uniform(1e6, 3.5e6, int((is_d & before).sum()))
        value[is_d & ~before] = rng.uniform(1, 2e6, int((is_d & ~before).sum()))
    return _with_vectors(
        {
            "t": np.arange(events), "type": kind, "ID": rng.integers(1, 11, events),
            "X": rng.uniform(-90, 90, events), "Y": rng.uniform(-180, 180, events), "V": value,
        }
    )  # fmt: skip


def ds2(events: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "t": np.arange(events),
            "type": rng.choice(list("ABCDEF"), events),
            "ID": rng.integers(1, 26, events),
            "X": rng.uniform(1, 100, events),
        }
    )


_CHAIN = {
    "b": "V > a.V",
    "d": "b.V + c.V < V",
    "f": "d.px * e.px + d.py * e.py + d.pz * e.pz >= v_cos",
    "i": "d.px * h.px + d.py * h.py + d.pz * h.pz >= v_cos",
}


def chain(
    labels: str, window: int, conditions: dict[str, str] | None = None, partition: bool = True
) -> Pattern:
    """SEQ of the types A, B, ..., anything skipped between.

    SAME [ID] is the partition, or with `partition` False a condition on every event but the first,
    so that all IDs are one stream with a steady load, as in the paper.
    """
    asked = _CHAIN if conditions is None else conditions
    define = {}
    for label in labels:
        parts = [f"type = '{label.upper()}'", *([asked[label]] if label in asked else [])]
        if not partition and label != labels[0]:
            parts.append(f"ID = {labels[0]}.ID")
        define[label] = " AND ".join(parts)
    return _query(ensue.pattern(" ->> ".join(labels)).define(**define), window, partition)


def _query(pattern: Pattern, window: int, partition: bool = True) -> Pattern:
    ids = pattern.measures(ids="collect_list(t)").order_by("t").within(window)
    return ids.partition_by("ID") if partition else ids


def q3_q4(window: int, partition: bool = True) -> dict[str, Pattern]:
    """Q3 and Q4 share A, B, C, D."""
    return {
        "Q3": chain("abcdefg", window, partition=partition),
        "Q4": chain("abcdhij", window, partition=partition),
    }


def offset_queries(window: int, offset: int) -> dict[str, Pattern]:
    """Q3 and Q4 shortened, with `offset` steps of their own before A, B, C (Figure 14)."""
    asked = {"b": "V > a.V", "c": "V > b.V"}
    first, second = "efg"[:offset], "hij"[:offset]
    return {
        "Q3": chain(first + "abcd", window, asked),
        "Q4": chain(second + "abcd", window, asked | {"d": "V > c.V"}),
    }


def kleene(window: int, length: int) -> dict[str, Pattern]:
    """Q1 and Q2: a loop of B, so long that the pattern has `length` events."""
    many = f"b{{{length - 3}}}" if length > 4 else "b"

    def q(last: str, condition: dict[str, str]) -> Pattern:
        define = {label: f"type = '{label.upper()}'" for label in f"ab{last}"}
        for label, text in condition.items():
            define[label] += f" AND {text}"
        text = " ->> ".join(["a", many, *last])
        return _query(ensue.pattern(text).define(**define), window)

    return {
        "Q1": q("cd", {"c": "SUM(b.X) < X"}),
        "Q2": q("ef", {"f": "a.X + SUM(b.X) < e.X + X"}),
    }


# -- row patterns --------------------------------------------------------------------------------

_KINDS = {"A": 0.21, "B": 0.19, "C": 0.12, "D": 0.09, "E": 0.07, "other": 0.32}


def crimes_like(rows: int, seed: int = 0) -> pa.Table:
    """Types and districts as skewed as in Chicago's crimes: few of each make up most rows.

    A = theft, B = battery, C = criminal damage, D = assault, E = burglary; `ID` is the beat, of
    which there are 280, some with a hundred times the crimes of others; X is the hour of the day,
    in minutes, late ones more frequent.
    """
    rng = np.random.default_rng(seed)
    beats = 1 / np.arange(1, 281) ** 1.1
    hour = np.minimum(rng.gamma(6.0, 170.0, rows), 1439.0)
    return pa.table(
        {
            "t": np.arange(rows),
            "ID": rng.choice(280, rows, p=beats / beats.sum()),
            "type": rng.choice(list(_KINDS), rows, p=list(_KINDS.values())),
            "X": hour,
        }
    )


def q5_q6(window: int = 60) -> dict[str, Pattern]:
    """SEQ(A a, B b, NEG(C) c, D d) as row patterns: the first B after A, no C before the end."""

    def q(last: str, **more: str) -> Pattern:
        define = {
            "A": "type = 'A'", "N": "type <> 'B'", "B": "type = 'B'" + more.get("b", ""),
            "M": f"type NOT IN ('C', '{last}')", last: f"type = '{last}'",
        }  # fmt: skip
        pattern = ensue.pattern(f"A N* B M* {last}").define(**define)
        return (
            pattern.measures(ids="collect_list(t)").partition_by("ID").order_by("t")
            .within(f"{window} rows").after_match("to next row")
        )  # fmt: skip

    return {"Q5": q("D", b=" AND X > A.X"), "Q6": q("E")}


# -- real data -----------------------------------------------------------------------------------


def citi_bike(folder: str, rows: int) -> pa.Table:
    """Trips of `*tripdata*.csv`: the type is the hour's letter, the ID the bike's last digit."""
    from pathlib import Path

    from pyarrow import csv

    path = sorted(Path(folder).glob("*tripdata*.csv"))[0]
    table = csv.read_csv(path).slice(0, rows)
    names = {name.lower().replace(" ", "_"): name for name in table.column_names}

    def column(*options: str) -> np.ndarray:
        return table.column(next(names[o] for o in options if o in names)).to_numpy(False)

    station = column("start_station_id").astype("U16")
    codes = np.unique(station, return_inverse=True)[1]
    return _with_vectors(
        {
            "t": np.arange(len(codes)),
            "type": np.array(list("ABCDEFGHIJ"))[codes % 10],
            "ID": codes // 10 % 10 + 1,
            "X": column("start_lat", "start_station_latitude").astype(float),
            "Y": column("start_lng", "start_station_longitude").astype(float),
            "V": column("tripduration", "end_lat").astype(float) * 1000.0,
        }
    )


def crimes(folder: str, rows: int) -> pa.Table:
    """Chicago's `Crimes*.csv` in order of the date."""
    from pathlib import Path

    import pyarrow.compute as pc
    from pyarrow import csv

    path = sorted(Path(folder).glob("*rimes*.csv"))[0]
    table = csv.read_csv(path).slice(0, rows)
    kinds = {"THEFT": "A", "BATTERY": "B", "CRIMINAL DAMAGE": "C", "ASSAULT": "D", "BURGLARY": "E"}
    dates = pc.strptime(table.column("Date"), "%m/%d/%Y %I:%M:%S %p", "s")
    order = pc.sort_indices(dates)
    dates = dates.take(order)
    minutes = pc.add(pc.multiply(pc.hour(dates), 60), pc.minute(dates))
    types = [
        kinds.get(kind, "other") for kind in table.column("Primary Type").take(order).to_pylist()
    ]
    return pa.table(
        {
            "t": np.arange(len(types)),
            "ID": table.column("Beat").take(order).combine_chunks(),
            "type": types,
            "X": minutes.combine_chunks().cast(pa.float64()),
        }
    )

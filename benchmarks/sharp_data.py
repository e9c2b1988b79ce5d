"""Streams and queries of SHARP §6.1: DS1, DS2, a table shaped like Chicago's crimes, Q1 to Q6.

Positions are latitude X and longitude Y in degrees. The generators add, per row, the unit vector of
the position (px, py, pz) and the cosine of V as an angle on the Earth (v_cos): the great-circle
distance of d and e is at most f.v exactly where the scalar product of their vectors is at least
cos(f.v / r). Haversine (Q3) and the law of cosines (Q4) are two formulas of that one distance, so
both become the scalar product; the radius is in metres, so that V (up to 3,000 km) can tell.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import ensue
from ensue.api.pattern import Pattern

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

# Shares of the types in the table of Chicago's crimes of 2022, how much their logarithms vary from
# area to area and go along with that of A, and how each follows the hour (1: as the day).
_KINDS = {"A": 0.231, "B": 0.175, "C": 0.116, "D": 0.089, "E": 0.032, "other": 0.357}
_VARIES = {"A": 0.40, "B": 0.22, "C": 0.22, "D": 0.25, "E": 0.41, "other": 0.12}
_WITH_A = {"A": 1.0, "B": -0.69, "C": -0.64, "D": -0.77, "E": -0.01, "other": -0.61}
_OF_THE_DAY = (
    0.085, 0.032, 0.029, 0.024, 0.020, 0.017, 0.018, 0.026, 0.034, 0.042, 0.042, 0.043,
    0.056, 0.044, 0.046, 0.052, 0.051, 0.053, 0.052, 0.052, 0.050, 0.047, 0.045, 0.040,
)  # fmt: skip
_BY_HOUR = {
    "A": (0.86, 0.77, 0.77, 0.81, 0.90, 0.90, 1.06, 1.05, 1.04, 0.99, 1.08, 1.09,
          1.10, 1.17, 1.19, 1.10, 1.12, 1.17, 1.16, 1.07, 0.95, 0.89, 0.79, 0.68),
    "B": (0.87, 1.38, 1.38, 1.35, 1.13, 1.00, 0.92, 0.94, 0.95, 0.87, 0.93, 0.98,
          0.79, 0.95, 0.94, 1.02, 0.99, 0.96, 0.94, 0.91, 0.98, 0.99, 1.12, 1.31),
    "C": (1.09, 1.34, 1.40, 1.35, 1.41, 1.40, 1.25, 1.21, 1.01, 0.86, 0.81, 0.75,
          0.68, 0.73, 0.76, 0.83, 0.87, 0.96, 1.01, 0.94, 1.02, 1.10, 1.22, 1.17),
    "D": (0.71, 0.82, 0.72, 0.64, 0.74, 0.74, 0.74, 1.06, 1.16, 1.10, 1.20, 1.22,
          0.94, 1.14, 1.13, 1.32, 1.20, 1.16, 1.09, 1.02, 0.96, 0.90, 0.84, 0.93),
    "E": (1.17, 1.12, 1.39, 1.94, 2.40, 2.16, 1.67, 1.30, 1.05, 0.97, 0.92, 0.81,
          0.91, 0.80, 0.94, 0.79, 0.80, 0.85, 0.85, 0.70, 0.68, 0.71, 0.86, 0.89),
    "other": (1.0,) * 24,
}  # fmt: skip
AREAS, PER_DAY, WHOLE_HOURS = 77, 645.0, 0.36
DAY = 1440  # minutes


def crimes_like(rows: int, seed: int = 0) -> pa.Table:
    """A table with the marginals of Chicago's crimes, January to November 2022 (215,551 rows).

    Measured there: A = theft, B = battery, C = criminal damage, D = assault, E = burglary with the
    shares above; 645 rows a day; 77 community areas, whose logarithm of size has a deviation of
    0.82 (the largest has 5.2 % of the rows, the ten largest 34 %); types vary with area and hour as
    above; 36 % of the times are whole hours. Not taken over: that a theft follows a theft in its
    area somewhat more often (0.30 for 0.23), and the seasons.

    `ID` is the area, which has one size and mix for all seeds as the city has; `minute` counts from
    the first day; X is the minute of the day.
    """
    city = np.random.default_rng(2022)
    size = np.exp(0.82 * city.standard_normal(AREAS))
    names = list(_KINDS)
    common = city.standard_normal(AREAS)
    mix = np.empty((AREAS, 24, len(names)))
    for place, name in enumerate(names):
        own = np.sqrt(1 - _WITH_A[name] ** 2) * city.standard_normal(AREAS)
        varied = np.exp(_VARIES[name] * (_WITH_A[name] * common + own))
        mix[:, :, place] = _KINDS[name] * np.outer(varied, _BY_HOUR[name])
    mix /= mix.sum(axis=2, keepdims=True)
    rng = np.random.default_rng(seed)
    day = np.sort(rng.uniform(0, rows / PER_DAY, rows)).astype(np.int64)
    hour = rng.choice(24, rows, p=np.array(_OF_THE_DAY) / sum(_OF_THE_DAY))
    past = np.where(rng.random(rows) < WHOLE_HOURS, 0, rng.integers(0, 60, rows))
    minute = np.sort(day * DAY + hour * 60 + past)
    hour = minute // 60 % 24
    area = rng.choice(AREAS, rows, p=size / size.sum())
    upto = np.cumsum(mix[area, hour], axis=1)
    kind = (rng.random((rows, 1)) > upto[:, :-1]).sum(axis=1)
    return pa.table(
        {
            "t": np.arange(rows), "minute": minute, "ID": area,
            "type": np.array(names)[kind], "X": (minute % DAY).astype(np.float64),
        }
    )  # fmt: skip


def crimes_alike(rows: int, seed: int = 0) -> pa.Table:
    """The table of earlier versions, for comparison: types depend on neither place nor hour."""
    rng = np.random.default_rng(seed)
    kinds = {"A": 0.21, "B": 0.19, "C": 0.12, "D": 0.09, "E": 0.07, "other": 0.32}
    beats = 1 / np.arange(1, 281) ** 1.1
    hour = np.minimum(rng.gamma(6.0, 170.0, rows), 1439.0)
    return pa.table(
        {
            "t": np.arange(rows), "ID": rng.choice(280, rows, p=beats / beats.sum()),
            "type": rng.choice(list(kinds), rows, p=list(kinds.values())), "X": hour,
        }
    )  # fmt: skip


def q5_q6(minutes: int | None = DAY) -> dict[str, Pattern]:
    """SEQ(A a, B b, NEG(C) c, D d) as row patterns: the first B after A, no C before the end.

    A match may take so many minutes, or with None 60 rows, as in earlier versions.
    """

    def q(last: str, **more: str) -> Pattern:
        define = {
            "A": "type = 'A'", "N": "type <> 'B'", "B": "type = 'B'" + more.get("b", ""),
            "M": f"type NOT IN ('C', '{last}')", last: f"type = '{last}'",
        }  # fmt: skip
        pattern = ensue.pattern(f"A N* B M* {last}").define(**define)
        whole = pattern.measures(a="A.t", b="B.t", z=f"{last}.t").partition_by("ID")
        if minutes is None:
            timed = whole.order_by("t").within("60 rows")
        else:
            timed = whole.order_by("minute", "t").within(minutes)
        return timed.after_match("to next row")

    return {"Q5": q("D", b=" AND X > A.X"), "Q6": q("E")}


# -- real data -----------------------------------------------------------------------------------


def _table(folder: str, what: str, *files: str, having: str) -> pa.Table:
    """The first file below the folder with one of these names and that column, as it is."""
    from pyarrow import csv, parquet

    for pattern in files:
        for path in sorted(Path(folder).rglob(pattern)):
            read = parquet.read_table if path.suffix == ".parquet" else csv.read_csv
            table = read(path)
            folded = [name.lower().replace(" ", "_") for name in table.column_names]
            if having in folded:
                return table.rename_columns(folded)
    raise MissingDataError(
        f"no {what} ({' or '.join(files)} with {having}) below {folder}: give --data"
    )


class MissingDataError(Exception):
    """A figure needs data that are not part of the project."""


def has_crimes(folder: str) -> bool:
    try:
        return crimes(folder, 10).num_rows > 0
    except MissingDataError:
        return False


def citi_bike(folder: str, rows: int) -> pa.Table:
    """Trips: the start station's number gives the type (its last digit) and the ID (the next).

    Published files (`*tripdata*.csv`) and a `trips.parquet` differ in the spelling of columns.
    """
    table = _table(
        folder, "Citi Bike trips", "*tripdata*.csv", "trips.parquet", having="start_station_id"
    ).slice(0, rows)

    def column(*options: str) -> np.ndarray:
        name = next(option for option in options if option in table.column_names)
        return table.column(name).to_numpy(False)

    station = column("start_station_id").astype("U16")
    codes = np.unique(station, return_inverse=True)[1]
    return _with_vectors(
        {
            "t": np.arange(len(codes)),
            "type": np.array(list("ABCDEFGHIJ"))[codes % 10],
            "ID": codes // 10 % 10 + 1,
            "X": column("start_lat", "start_station_latitude").astype(float),
            "Y": column("start_lng", "start_lon", "start_station_longitude").astype(float),
            "V": column("tripduration", "duration_s", "end_lat").astype(float) * 1000.0,
        }
    )


def crimes(folder: str, rows: int) -> pa.Table:
    """Chicago's crimes in order of time: `Crimes*.csv` of the city, or a `crimes.parquet`.

    The second has `ts`, `primary_type` and `community_area`; the city's file also has beats, of
    which the area is used as well, so that both give one table.
    """
    import pyarrow.compute as pc

    kinds = {"THEFT": "A", "BATTERY": "B", "CRIMINAL DAMAGE": "C", "ASSAULT": "D", "BURGLARY": "E"}
    found = _table(folder, "crimes", "crimes.parquet", "*rimes*.csv", having="community_area")
    if "ts" in found.column_names:
        times = found.column("ts")
    else:
        times = pc.strptime(found.column("date"), "%m/%d/%Y %I:%M:%S %p", "s")
    table = pa.table(
        {
            "time": times, "kind": found.column("primary_type"),
            "area": found.column("community_area").cast(pa.int32()),
        }
    )  # fmt: skip
    table = table.take(pc.sort_indices(table.column("time"))).slice(0, rows)
    seconds = table.column("time").cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    minute = (seconds - seconds[0] // 86_400 * 86_400) // 60
    return pa.table(
        {
            "t": np.arange(table.num_rows), "minute": minute,
            "ID": table.column("area").combine_chunks().fill_null(0),
            "type": [kinds.get(kind, "other") for kind in table.column("kind").to_pylist()],
            "X": (minute % DAY).astype(np.float64),
        }
    )  # fmt: skip

"""Tables to start from: the demonstration's, and small made ones that look like the real thing.

Each is made from a seed, so that a link to a sample shows everyone the same rows. NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.demo.data import funnel, ticks
from ensue.studio.texts import Typed

_START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000


@dataclass(frozen=True)
class Question:
    title: str
    text: str
    query: Typed


@dataclass(frozen=True)
class Sample:
    id: str
    name: str
    text: str
    make: Callable[[], pa.Table]
    questions: tuple[Question, ...]


@lru_cache(8)
def table(name: str) -> pa.Table:
    return SAMPLES[name].make()


def _table(rows: list[tuple[object, ...]], names: list[str], time: str) -> pa.Table:
    """Rows in order of time, as a log has them."""
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    found = {
        name: pa.array(values).cast(pa.timestamp("us", "UTC")) if name == time else pa.array(values)
        for name, values in columns.items()
    }
    return pa.table(found).sort_by(time)


def logins() -> pa.Table:
    """Sign-ins of 60 accounts over two days; a few accounts are tried until a password fits."""
    random = np.random.default_rng(7)
    rows: list[tuple[object, ...]] = []
    for number in range(60):
        account = f"user{number:02d}"
        time = _START + int(random.integers(0, 12 * _HOUR))
        home = f"10.0.{number}.{int(random.integers(2, 250))}"
        for _ in range(int(random.integers(8, 30))):
            time += int(random.exponential(2 * _HOUR)) + _SECOND
            if number % 9 == 0 and random.random() < 0.15:
                stranger = f"203.0.113.{int(random.integers(1, 250))}"
                for _ in range(int(random.integers(3, 9))):
                    rows.append((account, time, "failed", stranger, "web"))
                    time += int(random.integers(1, 20)) * _SECOND
                if random.random() < 0.6:
                    rows.append((account, time, "success", stranger, "web"))
                    if random.random() < 0.7:
                        change = time + int(random.integers(10, 200)) * _SECOND
                        rows.append((account, change, "password", stranger, "web"))
                continue
            if random.random() < 0.2:
                rows.append((account, time, "failed", home, "app"))
                time += 8 * _SECOND
            rows.append((account, time, "success", home, "app"))
            if random.random() < 0.7:
                away = time + int(random.integers(60, 3_000)) * _SECOND
                rows.append((account, away, "logout", home, "app"))
    return _table(rows, ["account", "ts", "kind", "address", "client"], "ts")


def machines() -> pa.Table:
    """Temperature and vibration of 12 machines, a reading a minute; some heat up, then stop."""
    random = np.random.default_rng(11)
    rows: list[tuple[object, ...]] = []
    for number in range(12):
        heat, trouble = 60.0, 0
        for minute in range(600):
            if trouble == 0 and random.random() < 0.006:
                trouble = int(random.integers(12, 40))
            pull = 0.55 if trouble else 0.12 * (62.0 - heat)
            heat += pull + float(random.normal(0, 0.25))
            shake = 2.0 + (1.8 if trouble else 0.0) + float(random.gamma(2.0, 0.25))
            state = "running"
            if trouble == 1 and heat > 70:
                state, heat = "stopped", 58.0
            trouble = max(0, trouble - 1)
            if random.random() < 0.01:
                continue  # a reading that was lost
            time = _START + minute * _MINUTE + int(random.integers(0, 5)) * _SECOND
            vibration = None if random.random() < 0.02 else round(shake, 2)
            rows.append((f"M{number + 1:02d}", time, round(heat, 2), vibration, state))
    return _table(rows, ["machine", "ts", "temperature", "vibration", "state"], "ts")


def parcels() -> pa.Table:
    """Scans of 400 parcels from the counter to the door; some go back, some get lost."""
    random = np.random.default_rng(23)
    places = ("Aarhus", "Bremen", "Cologne", "Delft", "Essen", "Fulda")
    rows: list[tuple[object, ...]] = []
    for number in range(400):
        parcel = f"P{number:04d}"
        time = _START + int(random.integers(0, 72 * _HOUR))
        place = str(random.choice(places))
        rows.append((parcel, time, "accepted", place, round(float(random.lognormal(0, 0.7)), 2)))
        for _ in range(int(random.integers(1, 4))):
            time += int(random.exponential(7 * _HOUR)) + 20 * _MINUTE
            place = str(random.choice(places))
            rows.append((parcel, time, "sorted", place, None))
            if random.random() < 0.04:
                rows.append((parcel, time + 5 * _MINUTE, "damaged", place, None))
        if random.random() < 0.05:
            continue
        for _ in range(3):
            time += int(random.exponential(4 * _HOUR)) + 30 * _MINUTE
            rows.append((parcel, time, "loaded", place, None))
            time += int(random.exponential(2 * _HOUR)) + 10 * _MINUTE
            if random.random() < 0.8:
                rows.append((parcel, time, "delivered", place, None))
                break
            rows.append((parcel, time, "not at home", place, None))
        else:
            rows.append((parcel, time + _HOUR, "returned", place, None))
    return _table(rows, ["parcel", "ts", "scan", "place", "kilos"], "ts")


def payments() -> pa.Table:
    """Card payments of 80 cards over a week; small trials before a large sum on a few."""
    random = np.random.default_rng(31)
    shops = ("grocer", "fuel", "online", "travel", "cafe")
    rows: list[tuple[object, ...]] = []
    for number in range(80):
        time = _START + int(random.integers(0, 24 * _HOUR))
        for _ in range(int(random.integers(10, 40))):
            time += int(random.exponential(5 * _HOUR)) + _MINUTE
            amount = round(float(random.lognormal(3.0, 0.8)), 2)
            rows.append((f"C{number:03d}", time, amount, str(random.choice(shops)), "DK"))
            if number % 13 == 5 and random.random() < 0.08:
                for _ in range(int(random.integers(2, 5))):
                    time += int(random.integers(20, 400)) * _SECOND
                    small = round(float(random.uniform(0.5, 2.0)), 2)
                    rows.append((f"C{number:03d}", time, small, "online", "BR"))
                time += int(random.integers(60, 1_200)) * _SECOND
                large = round(float(random.uniform(400, 2_500)), 2)
                rows.append((f"C{number:03d}", time, large, "online", "BR"))
    return _table(rows, ["card", "ts", "amount", "shop", "country"], "ts")


def _asked(title: str, text: str, pattern: str, **options: str) -> Question:
    return Question(title, text, Typed("pattern", pattern, {"order_by": "ts", **options}))


SAMPLES: dict[str, Sample] = {
    sample.id: sample
    for sample in (
        Sample(
            "market",
            "Stock ticks",
            "20,000 prices of 40 symbols",
            lambda: ticks(40, 20_000),
            (
                _asked(
                    "Valleys",
                    "At least three falls, then three rises",
                    "A B{3,} C{3,}",
                    define="B: price < PREV(price)\nC: price > PREV(price)",
                    partition_by="symbol",
                    measures="top: A.price\nbottom: LAST(B.price)\nrecovered: LAST(C.price)",
                ),
            ),
        ),
        Sample(
            "shop",
            "Shop visits",
            "20,000 clicks of 200 visitors: views, carts, payments, refunds",
            lambda: funnel(200, 20_000),
            (
                _asked(
                    "Bought in one go",
                    "A view, carts and a payment within an hour",
                    "view cart+ pay",
                    types="kind",
                    partition_by="user_id",
                    within="1 hour",
                    measures="carts: COUNT(cart.*)\ntotal: SUM(cart.amount)\npaid: pay.amount",
                ),
                _asked(
                    "Refund without a word to support",
                    "A refund after a payment, no support between",
                    "pay -> refund",
                    types="kind",
                    partition_by="user_id",
                    within="1 day",
                    without="support: kind = 'support'",
                    measures="paid: pay.amount",
                ),
            ),
        ),
        Sample(
            "logins",
            "Sign-ins",
            "Two days of 60 accounts, a few of them under attack",
            logins,
            (
                _asked(
                    "Guessed password",
                    "Three failures or more, a success from the same address, then a new password",
                    "F{3,} -> S -> P",
                    partition_by="account",
                    define="F: kind = 'failed' AND client = 'web'\n"
                    "S: kind = 'success' AND address = LAST(F.address)\nP: kind = 'password'",
                    within="30 minutes",
                    measures="failures: COUNT(F.*)\nfrom: LAST(S.address)",
                ),
            ),
        ),
        Sample(
            "machines",
            "Machines",
            "Temperature and vibration of 12 machines, each minute",
            machines,
            (
                _asked(
                    "Heats up, then stops",
                    "Six rises or more, ending above 68 degrees, then a stop",
                    "RISE{6,} HOT STOP",
                    partition_by="machine",
                    define="RISE: temperature > PREV(temperature) - 0.4 AND vibration > 3\n"
                    "HOT: temperature > 68\nSTOP: state = 'stopped'",
                    measures="rises: COUNT(RISE.*)\npeak: MAX(HOT.temperature)",
                ),
            ),
        ),
        Sample(
            "parcels",
            "Parcels",
            "Scans of 400 parcels from the counter to the door",
            parcels,
            (
                _asked(
                    "Delivered on the second try",
                    "Loaded, nobody home, loaded again, delivered",
                    "L N L2 D",
                    partition_by="parcel",
                    define="L: scan = 'loaded'\nN: scan = 'not at home'\nL2: scan = 'loaded'\n"
                    "D: scan = 'delivered'",
                    measures="place: LAST(D.place)",
                ),
                _asked(
                    "Delivered within a day",
                    "From the counter to the door",
                    "accepted -> delivered",
                    types="scan",
                    partition_by="parcel",
                    within="1 day",
                ),
            ),
        ),
        Sample(
            "payments",
            "Card payments",
            "A week of 80 cards; stolen ones are tried first",
            payments,
            (
                _asked(
                    "Tried, then used",
                    "Small sums online, then a large one within an hour",
                    "TRIAL{2,} LARGE",
                    partition_by="card",
                    define="TRIAL: amount < 2.5 AND shop = 'online'\n"
                    "LARGE: amount > 100 * LAST(TRIAL.amount)",
                    within="1 hour",
                    measures="trials: COUNT(TRIAL.*)\nsum: LARGE.amount\ncountry: LARGE.country",
                ),
            ),
        ),
    )
}

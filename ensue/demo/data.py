"""Generated events that look like the real thing: shop visits and stock ticks.

Seeded, so that the demonstration, the benchmarks and their published numbers are about the same
rows everywhere. NumPy only and no loop over rows: a million rows take a fraction of a second.
Rows come in order of time over all keys, as a log has them, not sorted by key.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

KINDS = ("view", "search", "cart", "pay", "refund", "support", "logout")
_VIEW, _SEARCH, _CART, _PAY, _REFUND, _SUPPORT, _LOGOUT = range(len(KINDS))

# What comes after what within a visit, as weights; a row per kind. A visit ends by chance, too.
_NEXT = np.array(
    [
        # view search cart pay refund support logout
        [0.50, 0.12, 0.32, 0.00, 0.00, 0.02, 0.04],  # view
        [0.80, 0.15, 0.02, 0.00, 0.00, 0.01, 0.02],  # search
        [0.25, 0.05, 0.35, 0.32, 0.00, 0.01, 0.02],  # cart
        [0.30, 0.05, 0.00, 0.00, 0.15, 0.10, 0.40],  # pay
        [0.20, 0.05, 0.00, 0.00, 0.05, 0.40, 0.30],  # refund
        [0.35, 0.10, 0.00, 0.00, 0.20, 0.10, 0.25],  # support
        [0.85, 0.15, 0.00, 0.00, 0.00, 0.00, 0.00],  # logout: the next visit begins
    ]
)
_LEAVES = 0.03  # chance that a visit ends without a logout
_PAUSE = 45e3  # milliseconds between two clicks, on average
_ABSENCE = 30 * 3600e3  # between two visits
_START = 1_767_225_600_000_000  # 2026-01-01 in microseconds


def funnel(users: int, events: int, seed: int = 0) -> pa.Table:
    """Shop visits: user_id, ts, kind and amount (of carts, payments and refunds; else null).

    Visits mix views, searches and carts; about a third of carts are paid, some payments refunded,
    often after talking to support. Users differ in how active they are; a log may begin in the
    middle of a visit.
    """
    random = np.random.default_rng(seed)
    user, position = _shares(random, users, events)
    kind, visit_ends = _visits(random, events)
    pause = random.exponential(_PAUSE, events)
    pause[visit_ends] = random.exponential(_ABSENCE, int(visit_ends.sum()))
    joined = random.integers(0, 3 * 86_400_000, users)
    pause = np.roll(pause, 1)  # drawn for the time after a row, needed as the time before
    # Whole milliseconds, at least one apart: engines with coarser clocks see the same order.
    waited = _running_sums(np.round(pause).astype(np.int64) + 1, position)
    time = (waited + joined[user]) * 1_000 + _START
    amount = np.round(random.lognormal(3.3, 0.8, events), 2)
    priced = (kind == _CART) | (kind == _PAY) | (kind == _REFUND)
    order = np.argsort(time, kind="stable")
    return pa.table(
        {
            "user_id": pa.array(user[order].astype(np.int64)),
            "ts": _timestamps(time[order]),
            "kind": _named(kind[order], list(KINDS)),
            "amount": pa.array(amount[order], mask=~priced[order]),
        }
    )


def ticks(symbols: int, rows: int, seed: int = 0) -> pa.Table:
    """Stock ticks: symbol, ts, price and volume.

    A price walks at random in whole cents, never below one; falls and rises of several ticks and
    ticks without a change all occur. Times are different for every row.
    """
    random = np.random.default_rng(seed)
    symbol = random.integers(0, symbols, rows)
    time = np.cumsum(random.integers(1, 2_000, rows)) * 1_000 + _START
    grouped = np.argsort(symbol, kind="stable")
    position = _positions(np.bincount(symbol, minlength=symbols))
    start = np.round(random.lognormal(4.0, 0.7, symbols), 2)
    steps = np.round(random.standard_t(4, rows) * 0.12, 2)
    walk = _running_sums(np.round(steps * 100).astype(np.int64), position) / 100
    price = np.empty(rows)
    # Reflected at one cent, so that a walk that falls for long comes back up.
    price[grouped] = np.abs(start[symbol[grouped]] + walk - 0.01) + 0.01
    return pa.table(
        {
            "symbol": _named(symbol, symbol_names(symbols)),
            "ts": _timestamps(time),
            "price": pa.array(np.round(price, 2)),
            "volume": pa.array(random.geometric(0.01, rows) * 100),
        }
    )


def symbol_names(count: int) -> list[str]:
    """AAAA, BAAA, CAAA ...: different for every number below 26⁴, with a number after that."""
    names = []
    for number in range(count):
        letters, rest = "", number
        for _ in range(4):
            rest, letter = divmod(rest, 26)
            letters += chr(ord("A") + letter)
        names.append(letters if not rest else f"{letters}{rest}")
    return names


def _shares(
    random: np.random.Generator, users: int, events: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows grouped by user: the user, and the position among the user's rows."""
    weights = random.gamma(1.2, 1.0, users)
    count = random.multinomial(events, weights / weights.sum()).astype(np.int64)
    return np.repeat(np.arange(users), count), _positions(count)


def _positions(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2 ... within each group of that many rows."""
    first = np.cumsum(count) - count
    return np.arange(int(count.sum())) - np.repeat(first, count)


def _visits(
    random: np.random.Generator, events: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The kinds of that many rows, visit after visit, and whether a row ends its visit.

    All visits of a round advance together, one click at a time, so the loop is as long as the
    longest visit and not as the longest history of a user.
    """
    bounds = np.cumsum(_NEXT, axis=1)
    bounds[:, -1] = 1.0
    kinds: list[NDArray[np.int64]] = []
    while sum(map(len, kinds)) < events:
        visits = events // 8 + 1
        number, current = np.arange(visits), np.full(visits, _LOGOUT)
        owners, steps = [], []
        while len(number):
            drawn = (random.random(len(number))[:, None] >= bounds[current]).sum(axis=1)
            owners.append(number)
            steps.append(drawn)
            goes_on = (drawn != _LOGOUT) & (random.random(len(number)) >= _LEAVES)
            number, current = number[goes_on], drawn[goes_on]
        by_visit = np.argsort(np.concatenate(owners), kind="stable")
        ends = np.append(np.diff(np.concatenate(owners)[by_visit]) > 0, True)
        kinds.append(np.where(ends, -1, 1) * (np.concatenate(steps)[by_visit] + 1))
    signed = np.concatenate([*kinds, np.empty(0, np.int64)])[:events]
    return np.abs(signed) - 1, signed < 0


def _running_sums(values: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums from the start of each group; exact, since the values are whole numbers."""
    total = np.cumsum(values)
    starts = np.flatnonzero(position == 0)
    sizes = np.diff(np.append(starts, len(values)))
    return total - np.repeat(total[starts] - values[starts], sizes)


def _timestamps(microseconds: NDArray[np.int64]) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _named(index: NDArray[np.int64], names: list[str]) -> pa.Array:
    codes = pa.array(index.astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string())).cast(pa.string())

"""How much recall a bound leaves: Q3 and Q4 over DS1, by a policy that has all the time it wants.

    python -m benchmarks.sharp_offline --window 1500 --events 10000

The exact run is laid out as partial matches and their visits (an event asked about). A visit is
worth what comes of it; the worth of a partial match is the sum over its visits, each less a price.
From the end of the patterns to their beginning, the mean worth of a visit is taken by node,
attribute (what the conditions ahead compare with) and time left, on training streams; visits worth
less than the price are left out. Each price gives a point of recall and work on another stream.
With `--by-event` the value of the event is known as well (V, or how far from the equator e and h
are), and only single visits are left out, not what remains of a partial match.
Nothing here is bound to a moving average, and nothing is learned under shedding.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks import sharp_data as data

# Nodes: A, AB, ABC, ABCD, ABCDE, ABCDEF, ABCDH, ABCDHI; the types each waits for.
WAITS = ("B", "C", "D", "EH", "F", "G", "I", "J")
LAST = (5, 7)
FROM_THE_END = (5, 7, 4, 6, 3, 2, 1, 0)
PRICES = (0.003, 0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
_BINS, _AGES, _EVENTS = 24, 12, 8


@dataclass(frozen=True)
class Visits:
    """Partial matches (node, attribute) and visits (of which, leading to which, time left)."""

    node: np.ndarray
    attribute: np.ndarray
    parent: np.ndarray
    of: np.ndarray
    child: np.ndarray  # -1: none
    left: np.ndarray
    event: np.ndarray  # the value of the event

    @property
    def at(self) -> np.ndarray:
        return self.node[self.of]

    @property
    def matching(self) -> np.ndarray:
        """Visits that complete a match: the last events have no condition."""
        return np.isin(self.at, LAST)


def visits(table: pa.Table, window: int) -> Visits:
    """The exact run, partition by partition."""
    kind = np.array(table.column("type").to_pylist())
    key, value = table.column("ID").to_numpy(), table.column("V").to_numpy()
    place = np.stack([table.column(c).to_numpy() for c in ("px", "py", "pz")], 1)
    reach = table.column("v_cos").to_numpy()
    node: list[int] = []
    attribute: list[float] = []
    parent: list[int] = []
    came: list[int] = []
    first: list[int] = []
    of, rows = [], []
    for part in np.unique(key):
        mine = np.flatnonzero(key == part)
        by_kind = {k: mine[kind[mine] == k] for k in "ABCDEFGHIJ"}
        stack: list[tuple[int, int, tuple[int, ...]]] = [(0, -1, (int(a),)) for a in by_kind["A"]]
        while stack:
            at, before, events = stack.pop()
            me = len(node)
            known = 0.0
            if at in (0, 1):
                known = float(value[events[-1]])
            elif at == 2:
                known = float(value[events[1]] + value[events[2]])
            elif at == 3:  # near the poles positions are near each other
                known = abs(float(place[events[3]][2]))
            elif at in (4, 6):
                known = float(place[events[3]] @ place[events[4]])
            for branch, wanted in enumerate(WAITS[at]):
                of_kind = by_kind[wanted]
                begin = np.searchsorted(of_kind, events[-1], "right")
                seen = of_kind[begin : np.searchsorted(of_kind, events[0] + window, "right")]
                of.append(np.full(len(seen), me))
                rows.append(seen)
                fits = seen
                if at in (0, 2):
                    fits = seen[value[seen] > known]
                elif at in (4, 6):
                    fits = seen[known >= reach[seen]]
                if at not in LAST:
                    target = 6 if branch == 1 else at + 1
                    stack += [(target, me, (*events, int(row))) for row in fits]
            node.append(at)
            attribute.append(known)
            parent.append(before)
            came.append(events[-1])
            first.append(events[0])
    asked, row = np.concatenate(of), np.concatenate(rows)
    size = table.num_rows + 1
    order = np.argsort(asked * size + row)
    asked, row = asked[order], row[order]
    above, since, begun = np.array(parent), np.array(came), np.array(first)
    derived = np.flatnonzero(above >= 0)
    child = np.full(len(asked), -1)
    child[np.searchsorted(asked * size + row, above[derived] * size + since[derived])] = derived
    left = 1 - (row - begun[asked]) / window
    event = np.where(np.array(node)[asked] == 3, np.abs(place[row, 2]), value[row])
    return Visits(np.array(node), np.array(attribute), above, asked, child, left, event)


def joined(runs: list[Visits]) -> Visits:
    """Several streams as one."""
    shift = np.cumsum([0, *(len(run.node) for run in runs)])

    def moved(name: str) -> np.ndarray:
        parts = [getattr(run, name) for run in runs]
        return np.concatenate(
            [np.where(p < 0, p, p + s) for p, s in zip(parts, shift, strict=False)]
        )

    def whole(name: str) -> np.ndarray:
        return np.concatenate([getattr(run, name) for run in runs])

    return Visits(
        whole("node"), whole("attribute"), moved("parent"), moved("of"), moved("child"),
        whole("left"), whole("event"),
    )  # fmt: skip


def edges(run: Visits) -> list[np.ndarray]:
    steps = np.arange(1, _BINS) / _BINS
    return [np.quantile(run.attribute[run.node == at], steps) for at in range(len(WAITS))]


def cells(run: Visits, bins: list[np.ndarray]) -> np.ndarray:
    """Node, binned attribute and time left of every visit, as one number."""
    binned = np.zeros(len(run.node), np.int64)
    for at in (0, 1, 2, 3, 4, 6):
        here = run.node == at
        binned[here] = np.searchsorted(bins[at], run.attribute[here])
    age = np.minimum((run.left * _AGES).astype(np.int64), _AGES - 1)
    found: np.ndarray = (run.at * _BINS + binned[run.of]) * _AGES + age
    return found


def event_cells(run: Visits, cell: np.ndarray, like: Visits) -> np.ndarray:
    """Cells that are half as fine, by the binned value of the event; edges are those of `like`."""
    age, rest = cell % _AGES // 2, cell // _AGES
    found: np.ndarray = (rest // _BINS * _BINS + rest % _BINS // 2) * _AGES + age
    event = np.zeros(len(cell), np.int64)
    steps = np.arange(1, _EVENTS) / _EVENTS
    for at in range(len(WAITS)):
        here = run.at == at
        bins = np.quantile(like.event[like.at == at], steps)
        event[here] = np.searchsorted(bins, run.event[here])
    return found * _EVENTS + event


def worthwhile(run: Visits, cell: np.ndarray, price: float) -> np.ndarray:
    """Cells whose visits bring more than they cost."""
    size = len(WAITS) * _BINS * _AGES * _EVENTS
    keep = np.zeros(size, np.bool_)
    worth = np.zeros(len(run.node))
    for at in FROM_THE_END:
        here = run.at == at
        child = run.child[here]
        gain = np.where(child >= 0, worth[child], 0.0) if at not in LAST else np.ones(len(child))
        total = np.bincount(cell[here], gain, size)
        keep |= total > price * np.bincount(cell[here], minlength=size)
        np.add.at(worth, run.of[here], np.where(keep[cell[here]], gain - price, 0.0))
    return keep


def outcome(
    run: Visits, cell: np.ndarray, keep: np.ndarray, single: bool = False
) -> tuple[float, float]:
    """Recall and the share of the work where partial matches go at the first visit left out.

    With `single`, a visit that is left out does not keep a partial match from the next ones.
    """
    gone = np.cumsum(~keep[cell])
    begin = np.searchsorted(run.of, np.arange(len(run.node)))
    before = np.where(begin > 0, gone[np.maximum(begin - 1, 0)], 0)
    open_still = keep[cell] if single else gone == before[run.of]
    alive = run.parent < 0
    done = np.zeros(len(run.of), np.bool_)
    for at in FROM_THE_END[::-1]:
        here = np.flatnonzero((run.at == at) & open_still)
        here = here[alive[run.of[here]]]
        done[here] = True
        child = run.child[here]
        alive[child[child >= 0]] = True
    matching = run.matching
    return float((done & matching).sum() / matching.sum()), float(done.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--streams", type=int, default=5, help="to train on")
    parser.add_argument("--by-event", action="store_true", help="the value of the event is known")
    asked = parser.parse_args()
    seeds = [asked.seed + 1000 * number for number in range(1, asked.streams + 1)]
    train = joined([visits(data.ds1(asked.events, seed), asked.window) for seed in seeds])
    test = visits(data.ds1(asked.events, asked.seed), asked.window)
    bins = edges(train)
    known, unknown = cells(train, bins), cells(test, bins)
    if asked.by_event:
        known, unknown = event_cells(train, known, train), event_cells(test, unknown, train)
    print(f"{len(test.of):,} visits, {int(test.matching.sum()):,} matches")
    for price in PRICES:
        keep = worthwhile(train, known, price)
        recall, work = outcome(test, unknown, keep, asked.by_event)
        seen, used = outcome(train, known, keep, asked.by_event)
        print(
            f"price {price:5.3f}: recall {recall:6.1%} at {work:6.1%} of the work "
            f"(on the training stream {seen:6.1%} at {used:6.1%})"
        )


if __name__ == "__main__":
    main()

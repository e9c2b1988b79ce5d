"""One memory for all keys: the least beneficial events of all go where a budget is passed.

By "fifo" that is the oldest of all, and by "random" any of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from ensue.summary.kernels import select as kernel
from ensue.summary.store import Store


def keep_budget(every: Iterable[Store], budget: int, mode: int, seed: tuple[int, int]) -> bool:
    """Whether events had to go. `mode` is that of the selection; `seed` is for "random"."""
    stores = [store for store in every if store.count]
    over = sum(store.count for store in stores) - budget
    if over <= 0:
        return False
    if mode == kernel.RANDOM:
        ids = np.concatenate([store.ids for store in stores])
        gone = set(np.random.default_rng(seed).choice(ids, over, replace=False).tolist())
        for store in stores:
            for at in np.flatnonzero([i in gone for i in store.ids.tolist()])[::-1]:
                store.remove(int(at))
        return True
    least = [(*_least(store, mode), number) for number, store in enumerate(stores)]
    heapq.heapify(least)
    for _ in range(over):
        _, at, number = heapq.heappop(least)
        store = stores[number]
        store.remove(at)
        if store.count:
            heapq.heappush(least, (*_least(store, mode), number))
    return True


def _least(store: Store, mode: int) -> tuple[float, int]:
    return (float(store.ids[0]), 0) if mode == kernel.FIFO else store.least()

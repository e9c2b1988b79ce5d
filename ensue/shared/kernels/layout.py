"""What the kernels are handed, by name: groups of arrays, and the places of single numbers.

Groups are named tuples, which cost the compiled code nothing. Numbers that the kernels change are
in `meta`, those that the controller sets in `knobs`; both are arrays, by the names below.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

# -- meta: the state of one partition's partial matches ------------------------------------------

FREE, USED, OPEN, RECORDS, FRESH = 0, 1, 2, 3, 4
PHASE, PLACE, RUN, BEFORE, POSITION = 5, 6, 7, 8, 9  # where an interrupted event goes on
WORK, CHAINS, ENTRIES, WRITTEN, SWEPT = 10, 11, 12, 13, 14
SHED, CREATED, CUT, SELECTIONS, CHECKED, SEED, AGED, SELECT_WORK, MOST, STRIDE = (
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
)  # fmt: skip
WINDOWED, TICK = 25, 26
CELL, CELL_NODE = 27, 28  # of the present visit; NO_CELL: of a first event
BEGIN, END = 29, 30  # the rows of the partition at hand
META = 32
NO_CELL, UNCOUNTED = -1, -2  # in place of a cell; the latter: prices are not in use

# -- knobs: what the controller sets ---------------------------------------------------------------

LIMIT_WORK, LIMIT_RECORDS, BY_RATIO, LEARN, CHECK, EXPLORE, FADE_EVERY, FADE = range(8)
# Work alone is bounded and the index of visits is known; the bound itself, without reserve; visits
# are counted for the index.
PRICED, BOUND, COUNTED = 8, 9, 10
KNOBS = 11


class Rows(NamedTuple):
    """A batch of rows."""

    kind: NDArray[np.int32]  # which row-local conditions hold, as a number
    low: NDArray[np.int64]  # [window, row]: the first row inside the window that ends here
    masks: NDArray[np.uint64]  # [window]: patterns with that window
    order: NDArray[np.float64]
    bounds: NDArray[np.float64]  # of gaps between two events
    position: NDArray[np.float64]  # where rows stand in the longest window
    size: float  # of that window
    event_class: NDArray[np.int32]  # binned values that conditions read


class Parts(NamedTuple):
    """The order in which rows come, and which partition each is of."""

    sequence: NDArray[np.int64]
    part: NDArray[np.int64]
    starts: NDArray[np.int64]
    weight: NDArray[np.float64]  # how often an event is of the partition
    reached: NDArray[np.int64]  # the last row of each partition so far
    turns: bool  # partitions take turns, each with its own lists


class Steps(NamedTuple):
    """What the automaton does with each kind of event; see `tables.py`."""

    react_offset: NDArray[np.int64]  # [kind]
    react_node: NDArray[np.int32]  # below 0: no event yet
    react_begin: NDArray[np.int32]  # components
    react_end: NDArray[np.int32]
    component_mask: NDArray[np.uint64]
    guard_offset: NDArray[np.int32]  # [component]
    guard: NDArray[np.int32]
    outcome: NDArray[np.int32]  # [component]: its first outcome
    change_offset: NDArray[np.int32]  # [outcome]
    stay: NDArray[np.uint64]
    change_label: NDArray[np.int64]  # that takes the event; below 0: the events stay as they are
    change_target: NDArray[np.int32]
    change_going: NDArray[np.uint64]
    change_accept: NDArray[np.uint64]
    pending: NDArray[np.uint64]  # [node]: patterns of which it is a match once time has passed
    labels: int  # guards from here on are bounds of gaps
    node_bits: NDArray[np.uint64]
    patient: NDArray[np.bool_]  # [reaction]: a visit changes nothing but by taking the event


class Guards(NamedTuple):
    """Compiled conditions over other events, and the columns that they read."""

    code: NDArray[np.int64]
    offset: NDArray[np.int64]
    updates: NDArray[np.int64]
    applies: NDArray[np.bool_]
    initial_ints: NDArray[np.int64]
    initial_floats: NDArray[np.float64]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    int_nulls: NDArray[np.bool_]
    float_nulls: NDArray[np.bool_]
    int_constants: NDArray[np.int64]
    float_constants: NDArray[np.float64]


class Features(NamedTuple):
    """What tells partial matches of a node apart; see `features.py`."""

    offset: NDArray[np.int64]  # [node]
    chosen: NDArray[np.int32]
    bins: NDArray[np.int64]  # [node]
    code: NDArray[np.int64]
    begin: NDArray[np.int64]  # [feature]
    end: NDArray[np.int64]
    cell: NDArray[np.int32]
    floating: NDArray[np.bool_]
    edges: NDArray[np.float64]
    seen: NDArray[np.int64]
    sample: NDArray[np.float64]
    memorable: NDArray[np.bool_]  # [node]
    read_offset: NDArray[np.int64]
    read: NDArray[np.int32]
    known: NDArray[np.uint64]
    remembered: NDArray[np.int32]
    latest: NDArray[np.float64]
    base: NDArray[np.int64]  # [node]: its first bucket


class Arena(NamedTuple):
    """Records of partial matches; see `arena.py`."""

    node: NDArray[np.int32]
    parent: NDArray[np.int32]
    label: NDArray[np.int32]
    row: NDArray[np.int64]
    first: NDArray[np.int64]
    bits: NDArray[np.uint64]
    references: NDArray[np.int32]
    following: NDArray[np.int32]
    bucket: NDArray[np.int32]
    length: NDArray[np.int32]
    ints: NDArray[np.int64]  # registers
    floats: NDArray[np.float64]


class Lists(NamedTuple):
    """Open partial matches by node."""

    head: NDArray[np.int32]  # [partition * nodes + node]: the first of each list
    waiting: NDArray[np.float64]  # [node]: how many, by the weight of their partition
    recent: NDArray[np.int64]  # the work of the last events


class Found(NamedTuple):
    """Matches: chains of events, and the patterns that each is a match of."""

    chain_end: NDArray[np.int64]
    settled: NDArray[np.int64]
    label: NDArray[np.int32]
    row: NDArray[np.int64]
    pattern: NDArray[np.int32]  # per entry
    chain: NDArray[np.int64]


class Prices(NamedTuple):
    """What visits led to, and what they are worth; see `price.py`."""

    asked: NDArray[np.float32]  # [cell]
    taken: NDArray[np.float32]
    done: NDArray[np.float32]
    owner: NDArray[np.int32]  # [bucket]: its node
    visits: NDArray[np.float32]
    leaving: NDArray[np.float32]
    born: NDArray[np.float32]
    waited: NDArray[np.float32]
    log_cell: NDArray[np.int32]  # [node, sample]
    log_child: NDArray[np.int32]
    logged: NDArray[np.float64]
    events: NDArray[np.float32]  # [node, class]
    pays: NDArray[np.uint8]  # [cell, age]: the level of the highest price that a visit pays
    best: NDArray[np.uint8]  # [bucket, age]
    gain: NDArray[np.float32]  # [cell, age], at no price
    value: NDArray[np.float32]  # [bucket, age], at no price
    levels: NDArray[np.float64]  # visits by level, the rows that they are of, and the last cut
    scale: NDArray[np.float64]
    lost: NDArray[np.float64]  # [node]
    latest: NDArray[np.int64]  # [cell]: the last event that visited
    distinct: NDArray[np.float32]
    first: NDArray[np.int64]  # [node]: its first bucket and its first cell
    width: NDArray[np.int64]
    slot: NDArray[np.int16]  # [node, class]


class Sketch(NamedTuple):
    """What partial matches are worth, and which patterns are above their bound; see `sketch.py`."""

    bucket_seen: NDArray[np.float32]  # pn
    flow: NDArray[np.float64]  # [node, node]: worth handed on
    completed: NDArray[np.float32]  # cn_i
    node_seen: NDArray[np.float64]
    node_completed: NDArray[np.float64]
    weights: NDArray[np.float64]
    rate: NDArray[np.float64]  # [node]: how often an event concerns it
    theta: NDArray[np.float64]
    lost: NDArray[np.float64]
    means: NDArray[np.float64]
    overloaded: NDArray[np.uint64]
    mass: NDArray[np.float32]
    limits: NDArray[np.float64]  # [pattern], where patterns have bounds of their own
    steps: NDArray[np.int64]  # [node]: events that a match still needs at least
    direct: NDArray[np.float64]
    unlived: NDArray[np.float64]
    priority: NDArray[np.float64]  # [node, record]: in place of quality; empty unless given


class Scratch(NamedTuple):
    """Room for one visit."""

    mine: NDArray[np.uint64]
    some: NDArray[np.uint64]
    left: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    cell_ints: NDArray[np.int64]
    cell_floats: NDArray[np.float64]
    cell_nulls: NDArray[np.bool_]


class Handed(NamedTuple):
    """All of it, for a kernel that reads most of the groups."""

    rows: Rows
    parts: Parts
    steps: Steps
    guards: Guards
    features: Features
    arena: Arena
    lists: Lists
    found: Found
    sketch: Sketch
    prices: Prices
    meta: NDArray[np.int64]
    knobs: NDArray[np.float64]
    scratch: Scratch


def new_scratch(words: int, guards: Any, ints: int, floats: int) -> Scratch:
    cells = max(1, guards.cells)
    mine, some, left, spare = (np.zeros(words, np.uint64) for _ in range(4))
    return Scratch(
        mine, some, left, spare, np.zeros(ints, np.int64), np.zeros(floats, np.float64),
        np.zeros(cells, np.int64), np.zeros(cells, np.float64), np.zeros(cells, np.bool_),
    )  # fmt: skip


_Group = TypeVar("_Group", Arena, Lists, Found)


def copied(group: _Group) -> _Group:
    """A group with arrays of its own."""
    return group._replace(**{name: getattr(group, name).copy() for name in group._fields})

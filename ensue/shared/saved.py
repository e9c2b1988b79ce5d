"""State of a workload as bytes: the open partial matches of a partition, and the sketch.

Nodes and states are numbered as they are found, so they are written by what does not depend on
that: the pattern's name and the places of its automaton.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from ensue import errors
from ensue.automaton.share import Union, common_name
from ensue.operator.state import NO_QUERY, Kind, pack, unpack
from ensue.query.stored import Fingerprint
from ensue.shared.engine import Engine
from ensue.shared.kernels import layout as at
from ensue.shared.listing import as_chain, as_pairs
from ensue.shared.open import OpenPartition
from ensue.shared.partials import STORED, Partials

KIND = Kind("shared", version=2, oldest=2)
MODEL = Kind("shared model", version=2, oldest=2)


def partition_bytes(engine: Engine, part: OpenPartition, query: Fingerprint = NO_QUERY) -> bytes:
    partials = part.partials
    used = int(partials.meta[at.USED])
    members = engine.automaton.union.members
    nodes = _named(engine, np.unique(partials.arena.node[:used]).tolist())
    listed = [
        [members[index].name, first, settled, as_pairs(node)]
        for index, first, settled, node in part.waiting
    ]
    told = {
        "nodes": nodes,
        "heads": {str(node): int(partials.lists.head[node]) for node in partials.nodes()},
        "numbers": {members[index].name: count for index, count in part.numbers.items()},
        "waiting": listed,
        "floors": {members[index].name: floor for index, floor in part.floors.items()},
        "labels": _labels(engine.automaton.union),
    }
    arena = {f"arena_{i}": getattr(partials.arena, name)[:used] for i, name in enumerate(STORED)}
    recent = partials.lists.recent
    parts = {"rows": part.table, "meta": partials.meta, "recent": recent, "told": told, **arena}
    return pack(KIND, parts, {"used": used, "base": part.base}, query)


def restore_partition(
    engine: Engine,
    blob: bytes,
    query: Fingerprint = NO_QUERY,
    before: tuple[str, ...] | None = None,
    stayed: Collection[str] = (),
) -> OpenPartition:
    """What is held of a partition. `before` are the patterns that wrote it, where they have
    changed, `stayed` those of them that are the same still (a name may now be another pattern's).
    """
    parts = unpack(KIND, blob, query)
    told = parts.json("told")
    partials = engine.partials()
    used = parts.numbers["used"]
    if used != len(parts.array("arena_0")):
        raise ValueError("as many partial matches as are told")  # before memory is taken for them
    partials.grow(max(partials.capacity, 2 * used))
    members = engine.automaton.union.members
    names = tuple(member.name for member in members) if before is None else before
    same = names if before is None else stayed
    index_of = {member.name: i for i, member in enumerate(members) if member.name in same}
    for index, name in enumerate(STORED):
        values = parts.array(f"arena_{index}")
        if name == "bits":
            values = _moved_bits(values, names, index_of, partials.words)
        getattr(partials.arena, name)[:used] = values
    partials.stale = True
    partials.meta[:], recent = parts.array("meta"), parts.array("recent")
    if recent.shape == partials.lists.recent.shape:
        partials.lists.recent[:] = recent
    else:
        partials.meta[[at.WINDOWED, at.TICK]] = 0  # the moving average begins anew
    _relabel(partials, used, {n: told["labels"].get(n, []) for n in index_of}, engine)
    nodes = {}
    for text, pairs in told["nodes"].items():
        here = sorted(
            (index_of[name], members[index_of[name]].subsets.state_of(places))
            for name, places in pairs
            if name in index_of
        )
        nodes[int(text)] = engine.automaton.node(tuple(here)) if here else -1
    heads = {int(text): record for text, record in told["heads"].items()}
    partials.cover(len(engine.automaton.nodes))
    _relink(partials, nodes, heads)
    for node in partials.nodes():
        engine.automaton.reached(node, _taken(partials, int(partials.lists.head[node])))
    counts = {index_of[n]: count for n, count in told["numbers"].items() if n in index_of}
    waiting = [
        (index_of[name], first, settled, as_chain(pairs))
        for name, first, settled, pairs in told["waiting"]
        if name in index_of
    ]
    floors = {index_of[n]: floor for n, floor in told["floors"].items() if n in index_of}
    return OpenPartition(
        partials, parts.table("rows"), parts.numbers["base"], counts, waiting, floors
    )


def _labels(union: Union) -> dict[str, list[int]]:
    return {member.name: list(member.common) for member in union.members}


def _relabel(partials: Partials, used: int, before: dict[str, list[int]], engine: Engine) -> None:
    """Common labels as the present union numbers them."""
    moved: dict[int, int] = {}
    for member in engine.automaton.union.members:
        for old, new in zip(before.get(member.name, []), member.common, strict=False):
            moved[old] = new
    labels = partials.arena.label
    labels[:used] = [moved.get(int(label), 0) for label in labels[:used]]


def _moved_bits(bits: Any, names: tuple[str, ...], index_of: dict[str, int], words: int) -> Any:
    found = np.zeros((len(bits), words), np.uint64)
    for old, name in enumerate(names):
        new = index_of.get(name)
        if new is None:
            continue
        holds = bits[:, old >> 6] >> np.uint64(old & 63) & np.uint64(1)
        found[:, new >> 6] |= holds << np.uint64(new & 63)
    return found


def _relink(partials: Partials, nodes: dict[int, int], heads: dict[int, int]) -> None:
    """Open records back into the lists of their nodes; those of no pattern are left out."""
    node, bits, following = partials.arena.node, partials.arena.bits, partials.arena.following
    head, count, _recent = partials.lists
    partials.meta[at.OPEN] = 0
    for old, top in heads.items():
        kept, record = [], top
        while record >= 0:
            after = int(following[record])
            if nodes.get(old, -1) >= 0 and bits[record].any():
                kept.append(record)
            record = after
        for open_one in reversed(kept):
            new = nodes[old]
            following[open_one] = head[new]
            head[new] = open_one
            count[new] += 1
            partials.meta[at.OPEN] += 1
    used = int(partials.meta[at.USED])
    node[:used] = [max(0, nodes.get(int(n), 0)) for n in node[:used]]


def _taken(partials: Partials, record: int) -> set[str]:
    """Names of the common labels that a partial match has taken."""
    parent, labels = partials.arena.parent, partials.arena.label
    found = set()
    while record >= 0:
        found.add(common_name(int(labels[record])))
        record = int(parent[record])
    return found


def model_bytes(engine: Engine) -> bytes:
    """What was learned, shared by all keys: the sketch, and what is known of each node."""
    control = engine.controller
    if not control.active:
        return b""
    arrays = {**control.learned(), "edges": engine.bins.edges}
    prices = control.prices.learned() if control.prices.ready else {}
    nodes = range(len(arrays["rate"]))
    told = {
        "nodes": _named(engine, nodes),
        "taken": {node: sorted(engine.automaton.taken_at(node)) for node in nodes},
        "classes": engine.event_classes.told(),
        "prices": list(prices),
    }
    priced = {f"price_{name}": array for name, array in prices.items()}
    parts = {"told": told, **arrays, **priced}
    return pack(MODEL, parts, query=engine.union.plan.fingerprint)


def restore_model(engine: Engine, blob: bytes) -> None:
    """Into an engine that has seen nothing: nodes get the numbers they had."""
    control = engine.controller
    if not blob or not control.active:
        return
    parts = unpack(MODEL, blob, engine.union.plan.fingerprint)
    told = parts.json("told")
    members = engine.automaton.union.members
    index_of = {member.name: index for index, member in enumerate(members)}
    for number, pairs in told["nodes"].items():
        here = tuple(
            sorted((index_of[n], members[index_of[n]].subsets.state_of(p)) for n, p in pairs)
        )
        if engine.automaton.node(here) != int(number):
            raise errors.StateError(
                "the stored state was learned by another workload",
                remedy="restore it with the patterns that wrote it, or begin without it",
            )
    # Buckets are distinguished by what was taken on the way to a node.
    for number, labels in told["taken"].items():
        engine.automaton.reached(int(number), labels)
    control.restore(parts.array)
    engine.bins.restore(parts.array("edges"))
    if told["prices"]:
        engine.event_classes.restore(told["classes"])
        control.restore_prices({name: parts.array(f"price_{name}") for name in told["prices"]})


def _named(engine: Engine, nodes: Iterable[int]) -> dict[str, list[Any]]:
    """Nodes by what does not depend on when they were found."""
    automaton = engine.automaton
    members = automaton.union.members
    return {
        str(node): [
            [members[p].name, sorted(place.number for place in members[p].subsets.sets[state])]
            for p, state in automaton.nodes[node]
        ]
        for node in nodes
    }

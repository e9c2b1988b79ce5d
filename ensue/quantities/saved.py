"""State of quantitative queries as bytes: arrays and tokens as parts of one state, never pickle.

The bytes say whose they are: a fingerprint of the query and of the columns it reads.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.operator.protocol import Key
from ensue.operator.state import Kind, Parts, pack, unpack
from ensue.quantities.general import GeneralConfiguration, Paths
from ensue.quantities.memory import Memory
from ensue.quantities.model import Action, Automaton, Operation
from ensue.quantities.sketch import Sketch, restored, stored
from ensue.quantities.stages import AutomatonQuestion, Question
from ensue.quantities.tokens import Configuration
from ensue.query import stored as stored_query

KIND = Kind("quantify", version=2, oldest=2)


def fingerprint(stage: Question, schema: pa.Schema) -> stored_query.Fingerprint:
    """The same for the same query over columns of the same types."""
    reads = stage.reads()
    columns = [f"{f.name} {f.type}" for f in schema if reads is None or f.name.lower() in reads]
    return stored_query.fingerprint(None, json.dumps(_described(stage)), sorted(columns))


def _described(stage: Question) -> Any:
    if isinstance(stage, AutomatonQuestion):
        return _automaton(stage.automaton)
    return [type(stage).__name__, stage.title(), [_described(part) for part in stage.parts()]]


def _automaton(automaton: Automaton) -> Any:
    steps = [
        [
            type(t).__name__,
            t.source,
            t.target,
            str(getattr(t, "predicate", "")),
            _actions(t.actions),
            _operation(getattr(t, "operation", None)),
            [_automaton(a) for a in getattr(t, "automata", ())],
        ]
        for t in automaton.transitions
    ]
    initial = {s: [repr(v) for v in slots] for s, slots in automaton.initial.items()}
    final = {s: _actions(actions) for s, actions in automaton.final.items()}
    ends = [_operation(automaton.finish), str(automaton.collect or "")]
    return [list(automaton.states), steps, initial, final, ends]


def _actions(actions: Iterable[Action]) -> Any:
    return [[str(a.fold), a.slot, [str(w) for w in a.weights]] for a in actions]


def _operation(operation: Operation | None) -> str:
    return "" if operation is None else str(operation)


def save_memory(memory: Memory, keys: list[Key], query: stored_query.Fingerprint) -> bytes:
    """The state of all places of a memory, which are those of the keys, in turn."""
    parts: dict[str, Any] = {"keys": [_encoded(list(key)) for key in keys]}
    _save(memory, "", parts)
    return pack(KIND, parts, query=query)


def _save(memory: Memory, path: str, parts: dict[str, Any]) -> None:
    if memory.kept is not None:
        parts[f"{path}occupied"] = memory.kept.occupied
        parts[f"{path}bits"] = memory.kept.bits
        parts[f"{path}marks"] = memory.kept.marks
        held = memory.kept.configurations
        if any(c is not None for c in held):
            parts[f"{path}configurations"] = [None if c is None else _tokens(c) for c in held]
        return
    parts[f"{path}numbers"] = memory.numbers
    parts[f"{path}seen"] = memory.seen
    parts[f"{path}open"] = memory.open
    if memory.grouped:
        parts[f"{path}groups"] = [
            [place, [[_encoded(list(key)), at] for key, at in inside.items()]]
            for place, inside in memory.groups.items()
        ]
    for index, inner in enumerate(memory.inner):
        _save(inner, f"{path}{index}/", parts)


def _tokens(configuration: Any) -> Any:
    if isinstance(configuration, GeneralConfiguration) and not configuration.flights:
        return {
            "paths": {
                state: [_encoded(paths.value), _encoded(paths.number), _encoded(paths.nulls)]
                for state, paths in configuration.values.items()
            }
        }
    if not isinstance(configuration, Configuration):
        raise errors.UnsupportedError(
            "a query that runs in linear or exponential space keeps no snapshot",
            remedy="evaluate it on whole tables",
        )
    here = {
        state: [[_encoded(slot) for slot in part] for part in stack]
        for state, stack in configuration.tokens.items()
    }
    below = {
        str(index): [_tokens(c) for c in configurations]
        for index, configurations in configuration.below.items()
    }
    return {"tokens": here, "below": below}


def load_memory(
    empty: Memory, blob: bytes, stage: Question, query: stored_query.Fingerprint
) -> tuple[Memory, list[Key]]:
    """What was saved, and the keys of its places; `empty` is a memory of the query."""
    parts = unpack(KIND, blob, query)
    try:
        keys = [tuple(_decoded(key)) for key in parts.json("keys")]
        _load(empty, "", parts, stage)
    except (KeyError, IndexError, TypeError, ValueError):
        raise errors.StateError(
            "the stored state belongs to another query, or is damaged",
            remedy="restore it with the query that wrote it",
        ) from None
    return empty, keys


def _load(memory: Memory, path: str, parts: Parts, stage: Question) -> None:
    kept = memory.kept
    if kept is not None:
        occupied, bits = parts.array(f"{path}occupied"), parts.array(f"{path}bits")
        if occupied.shape[1:] != kept.occupied.shape[1:] or bits.shape[1:] != kept.bits.shape[1:]:
            raise ValueError("another automaton")
        kept.occupied, kept.bits, kept.marks = occupied, bits, parts.array(f"{path}marks")
        kept.configurations = [None] * len(occupied)
        if f"{path}configurations" in parts:
            kept.configurations = [
                None if held is None else _restored(kept.automaton, held)
                for held in parts.json(f"{path}configurations")
            ]
        count = len(occupied)
        memory.numbers, memory.seen = np.zeros(count, np.int64), np.zeros(count, np.int64)
        memory.open = np.zeros(count, np.bool_)
        return
    memory.numbers = parts.array(f"{path}numbers")
    memory.seen, memory.open = parts.array(f"{path}seen"), parts.array(f"{path}open")
    if memory.grouped:
        memory.groups = {
            place: {tuple(_decoded(key)): at for key, at in inside}
            for place, inside in parts.json(f"{path}groups")
        }
    for index, (inner, part) in enumerate(zip(memory.inner, stage.parts(), strict=True)):
        _load(inner, f"{path}{index}/", parts, part)


def _restored(automaton: Automaton, saved: Any) -> Configuration | GeneralConfiguration:
    if "paths" not in saved:
        return _configuration(Configuration(automaton), saved)
    joined = GeneralConfiguration(automaton)
    joined.values = {state: Paths(*map(_decoded, paths)) for state, paths in saved["paths"].items()}
    return joined


def _configuration(configuration: Configuration, saved: Any) -> Configuration:
    configuration.tokens = {
        state: tuple(tuple(_decoded(slot) for slot in part) for part in stack)
        for state, stack in saved["tokens"].items()
    }
    for index, configurations in configuration.below.items():
        for inner, held in zip(configurations, saved["below"][str(index)], strict=True):
            _configuration(inner, held)
    return configuration


# A value as JSON that keeps its type: its class, how it is written, and how it is read. A datetime
# is a date too, and comes first.
_CODES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "decimal": (Decimal, str, Decimal),
    "time": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "span": (
        dt.timedelta,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: dt.timedelta(*parts),
    ),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "sketch": (Sketch, stored, restored),
    "list": (list, lambda v: [_encoded(i) for i in v], lambda v: [_decoded(i) for i in v]),
    "tuple": (tuple, lambda v: [_encoded(i) for i in v], lambda v: tuple(map(_decoded, v))),
    "dict": (
        dict,
        lambda v: [[_encoded(key), _encoded(item)] for key, item in v.items()],
        lambda v: {_decoded(key): _decoded(item) for key, item in v},
    ),
}


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.generic):
        return _encoded(value.item())
    for name, (kind, write, _) in _CODES.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise errors.StateError(
        f"a value of type {type(value).__name__} cannot be stored",
        remedy="fold numbers, text, times or tuples of them",
    )


def _decoded(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    ((kind, value),) = stored.items()
    return _CODES[kind][2](value)

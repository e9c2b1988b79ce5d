"""State of quantitative queries as bytes: arrays and tokens in one Arrow table, never pickle."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.evaluate.quantify.sketch import Sketch
from ensue.evaluate.quantify.stages import (
    AutomatonStage,
    Groups,
    Joined,
    Memory,
    Pipe,
    Stage,
)
from ensue.evaluate.quantify.tokens import Configuration
from ensue.evaluate.quantify.windows import Windows
from ensue.evaluate.state import from_bytes, to_bytes

KIND = "quantify"


def save_memory(memory: Memory, places: dict[Any, int]) -> bytes:
    entries: list[tuple[str, str, str, bytes]] = []
    _entry(entries, "places", [[_encoded(list(key)), place] for key, place in places.items()])
    _save(memory, "", entries)
    table = pa.table(
        {
            "name": [e[0] for e in entries],
            "type": [e[1] for e in entries],
            "shape": [e[2] for e in entries],
            "data": pa.array([e[3] for e in entries], pa.binary()),
        }
    )
    return to_bytes(KIND, table, {})


def _entry(entries: list[tuple[str, str, str, bytes]], name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        shape = json.dumps(value.shape)
        entries.append((name, value.dtype.str, shape, np.ascontiguousarray(value).tobytes()))
    else:
        entries.append((name, "json", "", json.dumps(value).encode()))


def _save(memory: Memory, path: str, entries: list[tuple[str, str, str, bytes]]) -> None:
    _entry(entries, f"{path}numbers", memory.numbers)
    _entry(entries, f"{path}open", memory.open)
    keys = [[place, _encoded(list(key)), at] for (place, key), at in memory.keys.items()]
    _entry(entries, f"{path}keys", keys)
    if memory.kept is not None:
        _entry(entries, f"{path}occupied", memory.kept.occupied)
        _entry(entries, f"{path}bits", memory.kept.bits)
        _entry(entries, f"{path}marks", memory.kept.marks)
        held = [None if c is None else _tokens(c) for c in memory.kept.configurations]
        _entry(entries, f"{path}configurations", held)
    for index, inner in enumerate(memory.inner):
        _save(inner, f"{path}{index}/", entries)


def _tokens(configuration: Any) -> Any:
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


def load_memory(memory: Memory, blob: bytes, stage: Stage) -> dict[Any, int]:
    table, _ = from_bytes(KIND, blob)
    entries: dict[str, Any] = {}
    for row in table.to_pylist():
        if row["type"] == "json":
            entries[row["name"]] = json.loads(row["data"])
        else:
            values = np.frombuffer(row["data"], np.dtype(row["type"]))
            entries[row["name"]] = values.reshape(json.loads(row["shape"])).copy()
    try:
        _load(memory, "", entries, stage)
        return {tuple(_decoded(key)): place for key, place in entries["places"]}
    except (KeyError, IndexError, TypeError, ValueError):
        raise errors.StateError(
            "the stored state belongs to another query",
            remedy="restore it with the query that wrote it",
        ) from None


def _load(memory: Memory, path: str, entries: dict[str, Any], stage: Stage) -> None:
    memory.numbers = entries[f"{path}numbers"]
    memory.open = entries[f"{path}open"]
    memory.keys = {(place, tuple(_decoded(key))): at for place, key, at in entries[f"{path}keys"]}
    if memory.kept is not None:
        kept = memory.kept
        occupied, bits = entries[f"{path}occupied"], entries[f"{path}bits"]
        if occupied.shape[1:] != kept.occupied.shape[1:] or bits.shape[1:] != kept.bits.shape[1:]:
            raise ValueError("another automaton")
        kept.occupied, kept.bits, kept.marks = occupied, bits, entries[f"{path}marks"]
        assert isinstance(stage, AutomatonStage)
        kept.configurations = [
            None if saved is None else _configuration(Configuration(stage.automaton), saved)
            for saved in entries[f"{path}configurations"]
        ]
    for index, inner in enumerate(memory.inner):
        _load(inner, f"{path}{index}/", entries, _stages(stage)[index])


def _stages(stage: Stage) -> list[Stage]:
    match stage:
        case Pipe():
            return [stage.first, stage.second]
        case Windows() | Groups():
            return [stage.inner]
        case Joined():
            return list(stage.parts)
        case _:
            return []


def _configuration(configuration: Configuration, saved: Any) -> Configuration:
    configuration.tokens = {
        state: tuple(tuple(_decoded(slot) for slot in part) for part in stack)
        for state, stack in saved["tokens"].items()
    }
    for index, configurations in configuration.below.items():
        for inner, held in zip(configurations, saved["below"][str(index)], strict=True):
            _configuration(inner, held)
    return configuration


def _encoded(value: Any) -> Any:
    """A value as JSON that keeps its type."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": value.hex()}
        case Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"time": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case list() | tuple():
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [_encoded(item) for item in value]}
        case Sketch():
            sides = [[list(i) for i in s.items()] for s in (value.positive, value.negative)]
            return {"sketch": [value.error, value.count, value.zeros, *sides]}
        case np.generic():
            return _encoded(value.item())
        case _:
            raise errors.StateError(
                f"a value of type {type(value).__name__} cannot be stored",
                remedy="fold numbers, text, times or tuples of them",
            )


def _decoded(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    ((kind, value),) = stored.items()
    match kind:
        case "int":
            return int(value)
        case "float":
            return float.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "time":
            return dt.datetime.fromisoformat(value)
        case "date":
            return dt.date.fromisoformat(value)
        case "list":
            return [_decoded(item) for item in value]
        case "tuple":
            return tuple(_decoded(item) for item in value)
        case "sketch":
            error, count, zeros, positive, negative = value
            sides = [{int(k): int(v) for k, v in side} for side in (positive, negative)]
            return Sketch(error, count, zeros, *sides)
        case _:
            raise ValueError(kind)

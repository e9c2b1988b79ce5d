"""Stored states: examples of the contract tests, halfway through, as the code of their time wrote
them.

A file of `stored/` holds what one example saved, and is never written again. `python -m
tests.state.stored` writes those examples that hold a kind of state in a version of which there is
no file yet; run it when a kind of state, or a version of one, is new.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import ensue
from ensue.operator import state
from ensue.operator.protocol import Snapshot
from ensue.shared.evaluator import SharedEvaluator
from tests.contract import definitions as by
from tests.contract import drivers as d
from tests.contract import test_operators as contract

FOLDER = Path(__file__).parent / "stored"
FIRST, CUT = 7, 9  # rows before the time is told, and before the state is saved
Named = tuple[str, int]  # a kind of state and its version


class SharesUnderBudget(d.Shares):
    def __init__(self) -> None:
        super().__init__(SharedEvaluator)
        self._budget = contract.AMPLE


EXAMPLES: dict[str, d.Driver] = {
    **contract.EXAMPLES,
    "matcher that settles": d.Answers(
        lambda: by.PAIR.matcher(speculation=math.inf, settle=0), ensue.restore, by.pairs
    ),
    "shared under a budget": SharesUnderBudget(),
}


def halfway(driver: d.Driver) -> tuple[d.Saved, d.Found]:
    """What is saved, and what was put out before."""
    held = driver.make()
    found = driver.feed(held, by.ROWS.slice(0, FIRST))
    found += driver.mark(held, FIRST - 1)
    found += driver.feed(held, by.ROWS.slice(FIRST, CUT - FIRST))
    return driver.save(held), found


# -- files ----------------------------------------------------------------------------------------


def write(path: Path, example: str, saved: d.Saved) -> None:
    entries: list[tuple[str, bytes]] = [("", saved)] if isinstance(saved, bytes) else []
    if isinstance(saved, Snapshot):
        entries = [(json.dumps(key), blob) for key, blob in saved.keys.items()]
        entries.append(("shared", saved.shared))
    table = pa.table({"of": [of for of, _ in entries], "state": [blob for _, blob in entries]})
    table = table.replace_schema_metadata({"example": example})
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(path), table.schema, options=packed) as writer:
        writer.write_table(table)


def read(path: Path) -> tuple[str, d.Saved]:
    """The name of the example, and what it saved."""
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    example = table.schema.metadata[b"example"].decode()
    blobs = dict(zip(table["of"].to_pylist(), table["state"].to_pylist(), strict=True))
    if "" in blobs:
        return example, blobs[""]
    shared = blobs.pop("shared")
    return example, Snapshot({tuple(json.loads(of)): blob for of, blob in blobs.items()}, shared)


# -- what is in them ------------------------------------------------------------------------------


def blobs_of(saved: d.Saved) -> list[bytes]:
    if isinstance(saved, bytes):
        return [saved]
    return [blob for blob in (*saved.keys.values(), saved.shared) if blob]


def inside(blob: bytes) -> Iterator[tuple[Named, bytes]]:
    """A state and all states inside it."""
    reader, header = state._opened(blob)
    yield (header["kind"], header["version"]), blob
    for inner in _candidates(reader.read_all()):
        if inner:
            yield from inside(inner)


def _candidates(table: pa.Table) -> Iterator[bytes]:
    if table.column_names == ["name", "type", "shape", "data"] and table.num_rows:
        for row in table.to_pylist():
            if row["type"] == "table":
                yield from _candidates(pa.ipc.open_stream(row["data"]).read_all())
            elif row["type"] == "state":
                yield row["data"]
            elif row["type"] == "states":
                ends = np.cumsum(row["shape"]).tolist()
                yield from (row["data"][a:b] for a, b in zip([0, *ends], ends, strict=False))
        return
    for column in table.columns:
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            yield from filter(_is_state, column.to_pylist())


def _is_state(blob: bytes) -> bool:
    try:
        return bool(state.kind_of(blob))
    except ensue.errors.StateError:
        return False


def named(saved: d.Saved) -> dict[Named, bytes]:
    """The kinds of state in what was saved, each with one that is of it."""
    return {name: blob for whole in blobs_of(saved) for name, blob in inside(whole)}


def stored() -> list[Path]:
    return sorted(FOLDER.glob("*.arrow"))


def main() -> None:
    known = {name for path in stored() for name in named(read(path)[1])}
    fresh = {example: halfway(driver)[0] for example, driver in EXAMPLES.items()}
    while missing := {e: set(named(saved)) - known for e, saved in fresh.items()}:
        example = max(missing, key=lambda name: len(missing[name]))
        if not missing[example]:
            return
        slug = re.sub(r"\W+", "_", example)
        number = len(list(FOLDER.glob(f"{slug}_[0-9].arrow"))) + 1
        write(FOLDER / f"{slug}_{number}.arrow", example, fresh[example])
        known |= missing[example]
        print(f"{slug}_{number}", *sorted(f"{kind} {v}" for kind, v in missing[example]), sep=", ")


if __name__ == "__main__":
    main()

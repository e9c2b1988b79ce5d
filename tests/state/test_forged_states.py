"""A state that is not what Ensue writes, under a checksum that is right, gives a StateError.

Some changes are states as good as the one before: those load.
"""

from __future__ import annotations

import random
import resource
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue.missing import tracks
from ensue.operator import state
from tests.contract import drivers as d
from tests.contract.drivers import Saved
from tests.state.forged import forged
from tests.state.stored import EXAMPLES, read, stored

CASES = 15
MOST = 2**20  # kilobytes of memory that all of them may take


def load(driver: d.Driver, saved: Saved) -> Any:
    """As users and Spark's lanes do; what is only ever part of those, as they do with it."""
    entry = isinstance(driver, d.Answers | d.InLane) and not isinstance(driver, d.Cleans)
    with nullcontext() if entry else state.restoring():
        return driver.load(saved)


def _one_forged(saved: Saved, chance: random.Random) -> Saved:
    if isinstance(saved, bytes):
        return forged(saved, chance)
    keys, shared = dict(saved.keys), saved.shared
    chosen = chance.choice([*keys, *(["shared"] if shared else [])])
    if chosen == "shared":
        return type(saved)(keys, forged(shared, chance))
    return type(saved)({**keys, chosen: forged(keys[chosen], chance)}, shared)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("path", stored(), ids=lambda path: path.stem)
def test_a_forged_state_is_refused_or_a_state(path: Path) -> None:
    example, saved = read(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for case in range(CASES):
        given = _one_forged(saved, random.Random(f"{path.stem}{case}"))
        try:
            load(EXAMPLES[example], given)
        except errors.StateError as problem:
            refused += 1
            assert problem.remedy
    assert refused > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST


KIND = tracks.KIND  # of any room


@pytest.mark.parametrize(
    ("type", "shape"),
    [("<i8", [2**62]), ("<i8", [2**40, 2**40]), ("|V1073741824", [1]), ("|O", [1]), ("junk", [1])],
)
def test_a_length_that_is_not_there_takes_no_memory(type: str, shape: list[int]) -> None:
    row = {"name": "a", "type": type, "shape": shape, "data": np.zeros(4, np.int64).tobytes()}
    table = pa.Table.from_pylist([row], state._SCHEMA_OF_PARTS)
    header = state.to_bytes(KIND, table)
    with pytest.raises(errors.StateError, match="damaged"):
        state.unpack(KIND, header).array("a")


def test_rows_without_bytes_are_counted() -> None:
    kept = pa.table({"nothing": pa.nulls(state._NO_BYTES)})
    assert state.from_bytes(KIND, state.to_bytes(KIND, kept))[0].num_rows == state._NO_BYTES
    with pytest.raises(errors.StateError, match="damaged"):
        more = pa.table({"nothing": pa.nulls(state._NO_BYTES + 1)})
        state.from_bytes(KIND, state.to_bytes(KIND, more))


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (errors.QueryError("it is twice"), "does not hold what Ensue writes: it is twice"),
        (KeyError("told"), "is not Ensue's, or is damaged"),
        (RecursionError(), "is not Ensue's, or is damaged"),
    ],
)
def test_what_is_raised_inside_is_the_cause(raised: Exception, shown: str) -> None:
    with pytest.raises(errors.StateError, match=shown) as caught, state.restoring():
        raise raised
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [errors.LimitError("too many"), MemoryError()])
def test_what_speaks_of_this_machine_is_not_the_states_fault(raised: Exception) -> None:
    with pytest.raises(type(raised)), state.restoring():
        raise raised

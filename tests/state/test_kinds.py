"""Every kind of state is stored, goes on to the right answer, and is refused where it is damaged.

Kinds are found, not listed: one that is new fails here until `python -m tests.state.stored` has
written it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue.operator import state
from ensue.operator.state import KINDS, Kind
from ensue.query.stored import Fingerprint
from tests.contract import definitions as by
from tests.contract.discovery import classes
from tests.contract.drivers import Saved
from tests.state.damage import damaged
from tests.state.stored import CUT, EXAMPLES, Named, blobs_of, halfway, named, read, stored

list(classes())  # imports every module, and so declares every kind
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
each_file = pytest.mark.parametrize("path", stored(), ids=lambda path: path.stem)


@cache
def known() -> dict[Named, bytes]:
    """A state of each kind and version."""
    found: dict[Named, bytes] = {}
    for path in stored():
        found |= named(read(path)[1])
    return found


def of(kind: Kind) -> bytes:
    return known()[kind.name, kind.version]


def outermost(saved: Saved) -> set[str]:
    return {state.kind_of(blob) for blob in blobs_of(saved)}


def own_query(blob: bytes) -> Fingerprint:
    return Fingerprint(state._opened(blob)[1]["query"])


@each_kind
def test_every_kind_is_stored_in_the_version_that_is_written(kind: Kind) -> None:
    assert (kind.name, kind.version) in known(), "run python -m tests.state.stored"


@each_file
def test_what_was_stored_goes_on_to_the_right_answer(path: Path) -> None:
    example, saved = read(path)
    driver = EXAMPLES[example]
    refused = [f"of kind {outer!r}, version 1; expected" for outer in outermost(saved) - set(KINDS)]
    refused += [
        f"of kind {name!r} is of version {version}; this Ensue reads version {KINDS[name].readable}"
        for name, version in named(saved)
        if name in KINDS and version < KINDS[name].oldest
    ]
    if refused:
        with pytest.raises(errors.StateError) as caught:
            driver.load(saved)
        assert any(told in caught.value.problem for told in refused)
        return
    _, found = halfway(driver)
    held = driver.load(saved)
    found += driver.feed(held, by.ROWS.slice(CUT))
    found += driver.end(held)
    told = map(driver.shown, driver.read(held, found))
    assert by.canonical(told) == by.canonical(driver.wanted(by.ROWS)) != []


@each_kind
def test_a_flipped_bit_or_a_lost_end_is_found(kind: Kind) -> None:
    blob = of(kind)
    query = own_query(blob)
    state.from_bytes(kind, blob, query)
    made = damaged(blob, kind.name, cuts=20, flips=40)
    for given in [*made, b"", b"junk", b"ensue sum:1234"]:
        with pytest.raises(errors.StateError, match="damaged") as caught:
            state.from_bytes(kind, given, query)
        assert "start afresh" in caught.value.remedy


@each_kind
def test_another_kind_version_or_query_is_refused_by_name(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = of(kind)
    for other in KINDS.values():
        if other is not kind:
            with pytest.raises(errors.StateError) as caught:
                state.from_bytes(other, blob, own_query(blob))
            assert f"of kind {kind.name!r}" in caught.value.problem
            assert f"expected {other.name!r}" in caught.value.problem
    with pytest.raises(errors.StateError, match="belongs to another query"):
        state.from_bytes(kind, blob, Fingerprint("another"))
    monkeypatch.setattr(state, "KINDS", {})
    newer = Kind(kind.name, kind.version + 1)
    with pytest.raises(errors.StateError) as caught:
        state.from_bytes(kind, state.to_bytes(newer, pa.table({"x": [1]})))
    assert f"of kind {kind.name!r} is of version {kind.version + 1}" in caught.value.problem
    assert f"reads version {kind.readable}" in caught.value.problem
    assert "the version of Ensue that wrote it, or a later one" in caught.value.remedy


def test_two_kinds_of_one_name_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="two kinds of state are named 'matcher'"):
        Kind("matcher", version=9)


@pytest.mark.parametrize("version", [1, 2])
def test_parts_are_read_as_what_they_were_written_as(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "KINDS", {})
    kind, query = Kind("new", version), Fingerprint("now", "earlier")
    given: dict[str, Any] = {"told": {"a": [1]}, "none": [], "inner": b"x", "few": (b"", b"y")}
    parts = state.unpack(kind, state.pack(kind, given, {"n": 3}, query), query)
    assert list(parts) == list(given) and "more" not in parts
    assert parts.numbers == {"n": 3}
    assert parts.json("told") == {"a": [1]} and parts.json("none") == []
    assert parts.state("inner") == b"x" and parts.states("few") == [b"", b"y"]
    for read_as in (parts.table, parts.schema, parts.state, parts.states, parts.array):
        with pytest.raises(errors.StateError, match="damaged"):
            read_as("told")
    with pytest.raises(errors.StateError, match="damaged"):
        parts.json("more")

"""Many keys in one call against each key by itself: counts, sums, ranges, readings by value."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue.summary.exact import measure
from ensue.summary.limbs import limbs_of
from ensue.summary.reading import scaled
from ensue.summary.together import answers_together, plain_readings, value_readings
from tests import oracle_summary as oracle
from tests.unit.test_summary_counters import PATTERNS, machine_of, mask_of

KINDS: dict[str, Any] = {
    "int": (pa.int64(), lambda c: c.choice([-(2**63), -5, 0, 7, 2**63 - 1])),
    "small": (pa.int16(), lambda c: c.randint(-9, 9)),
    "unsigned": (pa.uint64(), lambda c: c.choice([0, 1, 2**64 - 1])),
    "float": (pa.float64(), lambda c: c.choice([0.1, -0.3, 1e9, 2.0**-40, 0.0, -7.5])),
    "decimal": (
        pa.decimal128(38, 4),
        lambda c: c.choice([Decimal("-0.0001"), Decimal(10) ** 33, Decimal("-1e33"), Decimal(3)]),
    ),
}


def drawn(text: str, chance: random.Random) -> Any:
    """Keys, times, masks and values of a few keys, and a machine for them."""
    machine = machine_of(text)
    valued = frozenset(i for i in range(len(machine.automaton.labels)) if chance.random() < 0.7)
    machine = machine_of(text, valued=valued)
    known = "".join(machine.automaton.labels) + "x"
    starts, times, masks = [0], [], []
    for _ in range(4):
        time = 0
        for _ in range(chance.randint(1, 9)):
            time += chance.choice([0, 1, 2])
            times.append(time)
            masks.append(mask_of(machine, chance.choice(known) + chance.choice("xx" + known)))
        starts.append(len(times))
    return machine, np.array(starts), np.array(times), np.array(masks, np.int64)


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("text", PATTERNS)
def test_keys_together_are_keys_alone(text: str, kind: str | None) -> None:
    for seed in range(3):
        chance = random.Random(f"{text}{kind}{seed}")
        machine, starts, times, masks = drawn(text, chance)
        classes = np.array([machine.class_of(int(m)) for m in masks], np.int64)
        window = chance.choice([1, 3, 100])
        wanted = np.array([True, False, True, True])
        column, values = None, None
        if kind is not None:
            data_type, draw = KINDS[kind]
            column = pa.array([draw(chance) for _ in times], data_type)
            parts = limbs_of(column)
            assert parts is not None
            values = column, parts
        found = answers_together(
            machine, plain_readings(starts, classes), starts, wanted, times, window, values
        )
        assert sorted(found) == [0, 2, 3]
        for key, given in found.items():
            rows = [i for i in range(starts[key], starts[key + 1]) if classes[i] >= 0]
            scale = scaled(
                None if column is None else column.take(pa.array(rows, pa.int64())), len(rows)
            )
            exact = measure(
                machine,
                [int(times[i]) for i in rows],
                [int(classes[i]) for i in rows],
                scale.integers,
                window,
                shares=True,
            )
            assert given.count == exact.count
            if column is None:
                continue
            taking = [
                v for v, u in zip(scale.integers, exact.used, strict=True) if u & machine.valued
            ]
            answer = given.as_dict(True)
            assert answer["sum"] == scale.back(exact.total)
            assert answer["min"] == (scale.back(min(taking)) if taking else None)
            assert answer["max"] == (scale.back(max(taking)) if taking else None)


@pytest.mark.parametrize("text", ["a b c", "a b* c*", "a (b | c)* d", "(a | b)* c"])
def test_readings_by_value(text: str) -> None:
    for seed in range(8):
        chance = random.Random(f"{text}{seed}")
        machine, starts, times, masks = drawn(text, chance)
        groups = np.array([chance.randint(-1, 2) for _ in times])
        keyed = mask_of(machine, "bc")
        masks = np.where(groups < 0, masks & ~keyed, masks)
        wanted = np.array([True, True, False, True])
        readings = value_readings(machine, starts, wanted, masks, groups, keyed)
        values = pa.array([chance.randint(-5, 5) for _ in times])
        parts = limbs_of(values)
        assert parts is not None
        found = answers_together(machine, readings, starts, wanted, times, 4, (values, parts))
        assert sorted(found) == [0, 1, 3]
        labels = machine.automaton.labels
        for key, given in found.items():
            rows = range(starts[key], starts[key + 1])
            events = [
                (int(times[i]), "".join(x for b, x in enumerate(labels) if masks[i] >> b & 1), 0)
                for i in rows
            ]
            matches = [
                match
                for match in oracle.matches(text, events, 4)
                if len({groups[rows[i]] for i, label in match if label in "bc"}) <= 1
            ]
            assert given.count == len(matches)
            taking = [
                values[rows[i]].as_py()
                for match in matches
                for i, label in match
                if labels.index(label) in machine.valued
            ]
            assert given.total == sum(taking)
            assert given.least == min(taking, default=None)
            assert given.greatest == max(taking, default=None)


def test_limbs_are_the_values() -> None:
    for data_type, draw in KINDS.values():
        chance = random.Random(1)
        column = pa.array([*(draw(chance) for _ in range(30)), None], data_type)
        parts = limbs_of(column)
        assert parts is not None
        for row, value in enumerate(column.to_pylist()):
            size = int.from_bytes(parts.magnitude[row].tobytes(), "little")
            assert parts.scale.back(-size if parts.negative[row] else size) == (value or 0)
    assert limbs_of(pa.array([1e-300, 1e300])) is None


def test_long_kleene_sums_are_exact() -> None:
    machine = machine_of("a b* c", valued=frozenset(range(3)))
    letters = "a" + "b" * 400 + "c"
    classes = np.array([machine.class_of(mask_of(machine, x)) for x in letters], np.int64)
    column = pa.array([1, *([2**62] * 400), -3])
    parts = limbs_of(column)
    assert parts is not None
    starts = np.array([0, len(letters)])
    found = answers_together(
        machine,
        plain_readings(starts, classes),
        starts,
        np.array([True]),
        np.arange(len(letters)),
        1_000,
        (column, parts),
    )
    assert found[0].count == 2**400
    assert found[0].total == 2**400 * (1 - 3) + 400 * 2**62 * 2**399

"""Rows almost in order are put in order without a sort, and equal hashes are found without one."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.kernels.order import has_equal, index_by_group, put_in_order
from ensue.operator import arrange


@pytest.mark.parametrize("disorder", [0, 1, 5, 200])
def test_as_numpy_sorts(disorder: int) -> None:
    chance = np.random.default_rng(disorder)
    for rows in (1, 2, 3, 50, 200):
        groups = chance.integers(0, 5, rows)
        times = np.arange(rows) + chance.integers(0, disorder + 1, rows)
        keys = [times // 3, chance.integers(0, 3, rows)]
        expected = np.lexsort((*reversed(keys), groups))
        assert (arrange.sort_index(groups, keys) == expected).all()
        index = index_by_group(groups, 5)
        assert (index == np.argsort(groups, kind="stable")).all()
        assert put_in_order(index, groups, np.stack(keys), rows * rows)
        assert (index == expected).all()


def test_too_many_moves_are_left_to_a_sort() -> None:
    keys = [np.arange(100)[::-1].copy(), np.zeros(100, np.int64)]
    groups = np.zeros(100, np.int64)
    assert not put_in_order(np.arange(100), groups, np.stack(keys), 50)
    assert (arrange.sort_index(groups, keys) == np.arange(100)[::-1]).all()


def test_groups_far_apart() -> None:
    groups, keys = np.array([10**15, 0, 7]), [np.array([1, 2, 3]), np.array([1, 1, 1])]
    assert arrange.sort_index(groups, keys).tolist() == [1, 2, 0]


def test_equal_hashes() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert not has_equal(np.zeros(0, np.int64))
    assert not has_equal(np.array([0, 1, -1, least, most, 16, 32, 48]))
    assert has_equal(np.array([0, 1, 0]))
    assert has_equal(np.array([least, 5, least]))
    chance = np.random.default_rng(1)
    for span in (20, 200, 2000):
        values = chance.integers(-span, span, 40)
        assert has_equal(values) == (len(np.unique(values)) < 40)

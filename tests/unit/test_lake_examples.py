"""The examples over lakes, on real tables, where their packages are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import lake_delta, lake_iceberg


def test_the_change_feed_of_a_delta_table(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    assert lake_delta.main(tmp_path) > 50


def test_iceberg_in_and_out(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    assert lake_iceberg.main(tmp_path) > 50

"""`ensue.tune`, what `explain` says of settings, and `ensue doctor`."""

from __future__ import annotations

import platform
from typing import Any

import pytest
from typer.testing import CliRunner

import ensue
from ensue.cli import app
from ensue.run.spark import tune as tuning

CHANGED = (tuning.BYTES, tuning.PARTITIONS, tuning.STORE)


@pytest.fixture
def session(spark: Any) -> Any:
    """A session whose settings the test may change."""
    own = spark.newSession()
    own.conf.set(tuning.PARTITIONS, "200")
    return own


def test_tune_says_and_sets(session: Any) -> None:
    before = {name: session.conf.get(name) for name in CHANGED}
    told = ensue.tune(session)
    assert {s.name for s in told.settings if not s.good} == set(CHANGED)
    assert {name: session.conf.get(name) for name in CHANGED} == before
    assert f"! {tuning.PARTITIONS} = 200, better 2: " in str(told)
    assert {e.python for e in told.executors} == {platform.python_version()}
    assert {e.ensue for e in told.executors} == {ensue.__version__}
    assert all(e.java[:2] in ("17", "21") for e in told.executors)
    after = ensue.tune(session, apply=True)
    assert len(after.applied) == 3 and all(s.good for s in after.settings)
    assert session.conf.get(tuning.PARTITIONS) == "2"
    assert session.conf.get(tuning.STORE).endswith("RocksDBStateStoreProvider")
    assert ensue.tune(session, apply=True).applied == ()


def test_explain_names_what_matters(session: Any) -> None:
    rows = session.range(3).selectExpr("id AS t", "id AS x")
    for text in ("A B+", "A -> B"):
        query = ensue.pattern(text).define(B="x > 1").order_by("t")
        told = query.explain(rows)
        assert f"! {tuning.BYTES} = " in told
        assert tuning.STORE not in told  # of streams
        assert set(query.explain().splitlines()) <= set(told.splitlines())
        assert tuning.BYTES not in query.explain()
    stream = session.readStream.format("rate").load().selectExpr("timestamp AS t", "value AS x")
    assert f"! {tuning.STORE} = " in query.explain(stream)


def test_doctor(spark: Any) -> None:
    result = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    assert result.exit_code == 0
    for words in (
        f"Ensue {ensue.__version__}",
        "Python 3.",
        "Java",
        "kernels compiled",
        "Settings",
    ):
        assert words in result.stdout
    assert f"Spark {spark.version}" in result.stdout

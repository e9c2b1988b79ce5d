"""Compiling is told where it takes long, and `ensue warm` does it before anybody waits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from ensue import errors, progress
from ensue.kernels import warm
from ensue.rows import warm as rows
from ensue.warm import PARTS
from ensue.warm import warm as warm_all


@pytest.fixture(autouse=True)
def nothing_compiled_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm.TOLD, "_kernels", [])


compiles = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@compiles
def test_a_slow_first_use_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "PATIENCE", 0.01)

    def first_use() -> None:
        kernels("ensue.announced")[0](1)
        time.sleep(0.2)

    warm.announced(first_use)()
    assert "compiling its kernels, once per machine" in capsys.readouterr().err
    warm.announced(lambda: time.sleep(0.2))()  # as long, and nothing is compiled
    assert capsys.readouterr().err == ""


def test_a_quick_one_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    warm.announced(lambda: None)()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_it_really_runs_both_engines() -> None:
    rows.warm_up.__wrapped__(guarded=False)
    rows.warm_up.__wrapped__(guarded=True)


def kernels(module: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """One that calls another, freshly made."""

    def inner(x: Any) -> Any:
        return x + 1

    def outer(x: Any) -> Any:
        return called(x) * 2

    inner.__module__ = outer.__module__ = module
    called: Any = numba.njit(inner)
    return numba.njit(outer), called


@compiles
def test_every_long_compile_is_told_with_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "PATIENCE", 0.0)
    outer, inner = kernels("ensue.rows.kernels.made")
    outer(1)
    outer(2)
    outer(1.0)
    inner(1)
    kernels("mine")[0](1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # two types; the callee was compiled for its caller
    for line in lines:
        assert line.startswith("ensue: compiled ensue.rows.kernels.made.kernels.<locals>.outer in ")


@compiles
def test_short_ones_are_told_when_they_add_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "PATIENCE", float("inf"))
    for number in range(4):
        kernels(f"ensue.made{number}")[0](1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(warm, "PATIENCE", 0.0)
    kernels("ensue.made4")[0](1)
    assert "outer and 2 more in " in capsys.readouterr().err
    monkeypatch.setenv(progress.SETTING, "off")
    kernels("ensue.made5")[0](1)
    assert capsys.readouterr().err == ""


def test_child_processes_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not warm._is_child()
    worker = pytest.importorskip("pyspark.errors")
    monkeypatch.setitem(sys.modules, "__main__", worker)
    assert warm._is_child()


@compiles
def test_the_command_compiles_what_is_missing_and_shares_it(tmp_path: Path) -> None:
    def lines(cache: str, *more: str, **setting: str) -> list[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)} | setting
        done = subprocess.run(
            [sys.executable, "-m", "ensue.cli", "warm", "streams", *more],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    first, second = lines("one")
    count = int(first.split()[0])
    assert count > 3 and second.startswith(f"{count} of ")
    folder = tmp_path / "shared"
    again = lines("one", "--share", str(folder))
    assert again[0].startswith("0 kernels compiled in ")
    name, _, value = again[-1].strip().partition("=")
    assert (name, value) == ("ENSUE_KERNELS", str(folder))
    elsewhere = lines("two", ENSUE_KERNELS=str(folder))
    assert elsewhere[0].startswith("0 kernels compiled in ")
    assert elsewhere[1].startswith("0 of ")  # its own cache is as empty as it was


def test_parts_are_called_by_name() -> None:
    with pytest.raises(errors.QueryError, match=r"no part 'row'(.|\n)*parts are: rows, events"):
        warm_all(["row"])
    assert warm_all(["streams", "graphs"]).compiled >= 0
    assert len(PARTS) == 9

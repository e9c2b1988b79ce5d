"""The first call says what it is doing where it takes long."""

from __future__ import annotations

import time

import pytest

from ensue.kernels import warm
from ensue.rows import warm as rows


def test_a_slow_first_use_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "PATIENCE", 0.01)
    warm.announced(lambda: time.sleep(0.2))()
    assert "compiling its kernels, once per machine" in capsys.readouterr().err


def test_a_quick_one_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    warm.announced(lambda: None)()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_it_really_runs_both_engines() -> None:
    rows._run(guarded=False)
    rows._run(guarded=True)

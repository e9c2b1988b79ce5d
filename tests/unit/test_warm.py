"""The first call says what it is doing where it takes long."""

from __future__ import annotations

import time

import pytest

from ensue.rows import warm


def test_a_slow_first_use_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "_PATIENCE", 0.01)
    monkeypatch.setattr(warm, "_run", lambda guarded: time.sleep(0.2))
    warm.warm_up.__wrapped__()
    assert "compiling its kernels, once per machine" in capsys.readouterr().err


def test_a_quick_one_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "_run", lambda guarded: None)
    warm.warm_up.__wrapped__()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_it_really_runs_both_engines() -> None:
    warm._run(guarded=False)
    warm._run(guarded=True)

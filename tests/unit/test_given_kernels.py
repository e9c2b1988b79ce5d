"""Which folders of compiled kernels are trusted, and what is done about the others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensue import errors
from ensue.kernels import given


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    given.given.cache_clear()
    yield
    given.given.cache_clear()


class Context:
    def codegen(self) -> Context:
        return self


class NumbaCache:
    """What `load` asks of Numba's cache of a kernel."""

    def __init__(self) -> None:
        self._py_func, self._impl, self.signature, self.args = hashlib.sha256, self, self, (1,)

    def _index_key(self, sig: object, codegen: object) -> object:
        return sig

    def rebuild(self, context: object, content: object) -> object:
        return self if content == "machine code" else None


@pytest.fixture
def shared(tmp_path: Path) -> given.Given:
    code = tmp_path / "code"
    code.write_bytes(b"\x80\x04\x8c\x0cmachine code\x94.")
    function = hashlib.sha256
    return given.share(tmp_path / "kernels", [(function, (1,), code)])


def loaded() -> bool:
    given.given.cache_clear()
    return given.load(NumbaCache(), (1,), Context()) is not None


def test_a_folder_of_the_user_alone(shared: given.Given, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not loaded()  # not set
    setting = given.setting(shared).partition("=")[2]
    assert setting == str(shared.folder.parent)
    monkeypatch.setenv(given.SETTING, setting)
    assert loaded()
    assert given.load(NumbaCache(), (2,), Context()) is None  # other types
    told = given.given()
    assert told is not None and told.describe().startswith("1 compiled forms given by ENSUE_KERNE")
    monkeypatch.setattr(given.numba, "__version__", "0.1")
    assert not loaded()


@pytest.mark.parametrize("part", ["", "..", "../.."])
def test_a_folder_that_others_can_write(
    shared: given.Given, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = (shared.folder / part).resolve()
    mode = place.stat().st_mode
    monkeypatch.setenv(given.SETTING, str(shared.folder.parent))
    place.chmod(0o777)
    with pytest.warns(errors.KernelsWarning, match=f"others can write to {place}; remove that"):
        assert not loaded()
    # What they wrote is not vouched for, and what is put there now is used by its digest.
    code = shared.folder.parent.parent / "code"
    again = given.share(shared.folder.parent, [(hashlib.sha256, (1,), code)])
    pinned = given.setting(again).partition("=")[2]
    assert "@" in pinned and len(again.sums) == 1
    monkeypatch.setenv(given.SETTING, pinned)
    assert loaded()
    place.chmod(mode)


def test_a_folder_of_another(shared: given.Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(given.SETTING, str(shared.folder.parent))
    if os.getuid() == 0:
        os.chown(shared.folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(errors.KernelsWarning, match="belongs to another user"):
        assert not loaded()


def test_files_that_are_not_on_the_list(
    shared: given.Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, digest = next(iter(shared.sums.items()))
    monkeypatch.setenv(given.SETTING, str(shared.folder.parent))
    (shared.folder / name).write_bytes(b"\x80\x04\x8c\x0cmachine codE\x94.")
    with pytest.warns(errors.KernelsWarning, match="not the file on the list; the kernel is comp"):
        assert not loaded()
    (shared.folder / name).unlink()
    with pytest.warns(errors.KernelsWarning, match="not the file on the list"):
        assert not loaded()
    monkeypatch.setenv(given.SETTING, f"{shared.folder.parent}@{digest}")
    with pytest.warns(errors.KernelsWarning, match="is not the list that the setting names"):
        assert not loaded()
    monkeypatch.setenv(given.SETTING, str(shared.folder / "nowhere"))
    with pytest.warns(errors.KernelsWarning, match="there is no folder"):
        assert not loaded()


def test_another_version_of_ensue_finds_nothing(
    shared: given.Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(given.SETTING, str(shared.folder.parent))
    monkeypatch.setattr(given, "_PACKAGE", Path(__file__).parent)
    assert not loaded()

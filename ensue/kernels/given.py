"""Kernels that another machine compiled: the folder that ENSUE_KERNELS names.

Numba keeps what it compiles for one user of one machine. A file here is one kernel, for one list of
types; its name holds a digest of these and of the processor, the Python, the Numba and the sources
of Ensue, so that machines of several kinds share a folder, and what does not fit is never opened.

The files are code. So they are read only where nobody but this user and root can write to the
folder, or to one above it, or where the setting names the digest of the list of files; and each
file has to be the one on the list.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import re
import stat
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numba

from ensue.errors import KernelsWarning

SETTING = "ENSUE_KERNELS"
SUMS = "SHA256SUMS"  # lines as `sha256sum` writes them
_PACKAGE = Path(__file__).parents[1]
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_PINNED = re.compile(r"(.+)@([0-9a-f]{64})")


@dataclass(frozen=True)
class Given:
    """What the folder has for this version of Ensue, or why it is not used."""

    folder: Path
    sums: Mapping[str, str]  # the SHA-256 of each file, by its name
    refusal: str | None = None

    def describe(self) -> str:
        if self.refusal is not None:
            return f"the kernels of {SETTING} are not used: {self.refusal}"
        return f"{len(self.sums)} compiled forms given by {SETTING}, in {self.folder}"


@cache
def given() -> Given | None:
    """What the setting names; None where it is not set."""
    text = os.environ.get(SETTING)
    if not text:
        return None
    pinned = _PINNED.fullmatch(text)
    folder = _of_version(Path(pinned[1] if pinned else text))
    found = _looked_up(folder, pinned[2] if pinned else None)
    if found.refusal is not None:
        warnings.warn(found.describe(), KernelsWarning, stacklevel=2)
    return found


def _looked_up(folder: Path, pin: str | None) -> Given:
    if not folder.parent.is_dir():
        return Given(folder, {}, f"there is no folder {folder.parent}")
    listed = (folder / SUMS).resolve()
    if not listed.exists():
        return Given(folder, {})
    try:
        content = listed.read_bytes()
        if pin is None:
            refusal = open_to_others(listed)
        else:
            other = hashlib.sha256(content).hexdigest() != pin
            refusal = f"{listed} is not the list that the setting names" if other else None
    except OSError as problem:
        refusal = str(problem)
    return Given(folder, {} if refusal else _sums(content), refusal)


def open_to_others(place: Path) -> str | None:
    """Who else can change what is there; None where only this user and root can."""
    if not hasattr(os, "getuid"):
        rest = f"name the list: FOLDER@digest of {SUMS}"
        return f"this platform does not tell who can write to it; {rest}"
    for part in (place, *place.parents):
        found = part.stat()
        if found.st_uid not in (0, os.getuid()):
            return f"{part} belongs to another user"
        # Of a folder like /tmp nobody can rename what belongs to others.
        kept = found.st_mode & stat.S_ISVTX and part not in (place, place.parent)
        if found.st_mode & _OTHERS and not kept:
            return (
                f"others can write to {part}; remove that permission (chmod go-w), "
                f"or name the list: FOLDER@digest of {SUMS}"
            )
    return None


def load(numba_cache: Any, sig: Any, target_context: Any) -> Any:
    """A kernel out of the folder, where it has that one; numba_cache is the kernel's own."""
    here = given()
    if here is None or not here.sums:
        return None
    key = numba_cache._index_key(sig, target_context.codegen())
    name = file_name(numba_cache._py_func, key)
    expected = here.sums.get(name)
    if expected is None:
        return None
    try:
        content = (here.folder / name).read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != expected:
        text = f"{here.folder / name} is not the file on the list; the kernel is compiled here"
        warnings.warn(text, KernelsWarning, stacklevel=2)
        return None
    found = numba_cache._impl.rebuild(target_context, pickle.loads(content))
    # Types of one name may differ.
    return found if found.signature.args == tuple(getattr(sig, "args", sig)) else None


def file_name(function: Any, key: Any) -> str:
    """The name for a kernel with this key of Numba's index: types, processor, bytecode."""
    text = f"{platform.python_implementation()} {platform.python_version()} {numba.__version__} "
    digest = hashlib.sha256((text + str(key)).encode()).hexdigest()
    return f"{function.__module__}.{function.__qualname__}-{digest[:32]}.nbc"


def share(folder: Path, compiled: Iterable[tuple[Any, Any, Path]]) -> Given:
    """Put kernels there, beside those that it has: each a function, Numba's key and its file."""
    folder.mkdir(parents=True, exist_ok=True)
    place = _of_version(folder)
    place.mkdir(mode=0o755, exist_ok=True)
    listed = place / SUMS
    # What others may have put there is not vouched for.
    kept = listed.exists() and open_to_others(listed) is None
    sums = dict(_sums(listed.read_bytes())) if kept else {}
    for function, key, file in compiled:
        content = file.read_bytes()
        name = file_name(function, key)
        sums[name] = hashlib.sha256(content).hexdigest()
        _write(place / name, content)
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    _write(listed, lines.encode())
    return Given(place, sums, open_to_others(listed))


def setting(shared: Given) -> str:
    """The setting that uses what `share` wrote: with the digest of the list where it needs one."""
    folder = str(shared.folder.parent)
    if shared.refusal is None:
        return f"{SETTING}={folder}"
    return f"{SETTING}={folder}@{hashlib.sha256((shared.folder / SUMS).read_bytes()).hexdigest()}"


def _of_version(folder: Path) -> Path:
    """The folder inside for kernels of these sources: one has those that it calls in it."""
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(source.relative_to(_PACKAGE)).encode() + b"\0")
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return folder.resolve() / f"ensue-{digest.hexdigest()[:16]}"


def _sums(content: bytes) -> dict[str, str]:
    lines = (line.split("  ", 1) for line in content.decode(errors="replace").splitlines())
    return {line[1]: line[0] for line in lines if len(line) == 2 and "/" not in line[1]}


def _write(place: Path, content: bytes) -> None:
    """In one rename, so that nobody reads half a file."""
    handle, draft = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.chmod(draft, 0o644)
    os.replace(draft, place)

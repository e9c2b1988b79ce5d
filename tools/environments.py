"""Virtual environments for `./dev`: the project's own, one per combination, clean ones.

An environment carries a stamp of what it was made from. It is made when there is none, brought up
to date when the stamp differs, and left alone otherwise. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class DevError(Exception):
    """Stops the command; the text is for the user."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own."""

    folder: Path
    interpreter: str = sys.executable  # the Python that makes it

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def name(self) -> str:
        inside = self.folder.is_relative_to(ROOT)
        return str(self.folder.relative_to(ROOT) if inside else self.folder)

    def prepare(self, packages: Sequence[str], constraints: Path) -> None:
        """Install these, under these constraints, unless that has been done."""
        wanted = _fingerprint(packages, constraints)
        if self._installed() == wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / ".ensue-lock", self.name):
            if self._installed() == wanted:
                return
            self.make()
            say(f"installing {' '.join(packages)} into {self.name} (once; a few minutes)")
            self.pip("install", "--quiet", "-c", str(constraints), *packages)
            self._stamp.write_text(wanted)

    def make(self) -> None:
        if self.python.is_symlink() and not self.python.exists():
            raise DevError(
                f"the Python behind {self.name} is gone.\n"
                f"What to do: remove {self.name} and try again."
            )
        if self.python.exists() and self.call("-m", "pip", "--version", quiet=True) == 0:
            return
        say(f"making {self.name} with {self.interpreter}")
        command = [self.interpreter, "-m", "venv", str(self.folder)]
        if subprocess.run(command, check=False).returncode != 0:
            raise DevError(
                f"{self.interpreter} could not make a virtual environment (see above).\n"
                "What to do: on Debian and Ubuntu install python3-venv, or name another Python: "
                "PYTHON=/path/to/python3.11 ./dev ..."
            )

    def pip(self, *arguments: str, settings: Mapping[str, str] | None = None) -> None:
        code = self.call("-m", "pip", "--disable-pip-version-check", *arguments, settings=settings)
        if code != 0:
            raise DevError(
                f"pip failed with code {code} (its own message is above); nothing was run.\n"
                "What to do: check the network and pip's settings (`pip config list`), then call "
                "./dev again; it goes on from here."
            )

    def call(
        self,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        quiet: bool = False,
        folder: Path = ROOT,
    ) -> int:
        """Run this environment's Python; its exit code."""
        return self.run([str(self.python), *arguments], settings, quiet=quiet, folder=folder)

    def run(
        self,
        command: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        quiet: bool = False,
        folder: Path = ROOT,
    ) -> int:
        environment = {**os.environ}
        # The environment's own bin first: Spark's workers look for `python3` on PATH.
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{path}"
        environment["VIRTUAL_ENV"] = str(self.folder)
        environment.setdefault("NUMBA_CACHE_DIR", str(self.folder / "numba" / kernels_hash()))
        environment.pop("PYTHONHOME", None)
        environment.update(settings or {})
        sink = subprocess.DEVNULL if quiet else None
        sys.stdout.flush()
        done = subprocess.run(
            list(command), env=environment, stdout=sink, stderr=sink, cwd=folder, check=False
        )
        return done.returncode

    @property
    def _stamp(self) -> Path:
        return self.folder / ".ensue-installed"

    def _installed(self) -> str | None:
        try:
            return self._stamp.read_text() if self.python.exists() else None
        except OSError:
            return None


def _fingerprint(packages: Sequence[str], constraints: Path) -> str:
    # Only what decides the installation: an edited lint rule must not cost a reinstallation.
    settings = project()
    parts = {
        "build-system": settings["build-system"],
        "project": settings["project"],
        "setuptools": settings["tool"]["setuptools"],
        "constraints": constraints.read_text(),
        "packages": list(packages),
        "root": str(ROOT),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    import fcntl  # POSIX only, and the check for that must come first

    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another ./dev is preparing {name}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def kernels_hash() -> str:
    """Names the cache of compiled kernels.

    Numba compiles a kernel anew when its own file changes, not when one that it calls in another
    file does; a cache per state of all of them never holds stale code.
    """
    digest = hashlib.sha256()
    for folder in ("kernels", "aggregate", "guards"):
        for path in sorted((ROOT / "ensue").rglob(f"{folder}/*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def say(text: str) -> None:
    print(f"· {text}", flush=True)

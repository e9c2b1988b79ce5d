"""The project's commands, for `./dev`: environment, tests, checks, benchmarks, documentation.

Needs the standard library only, since it runs before anything is installed. The environment in
`.venv` is made at the first call and again only when what it depends on has changed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".ensue-installed"
EXTRAS = "connect,java,dev"

COMMANDS = {
    "demo": "run the demonstration (arguments go to `ensue demo`)",
    "test": "run the tests; --all: none sampled; other arguments: one pytest with these",
    "lint": "ruff, mypy and import-linter; changes nothing",
    "fix": "let ruff repair and format the code",
    "bench": "run benchmarks: ./dev bench NAME... [options]",
    "docs": "check the examples of the documentation and build it into build/docs",
}


class DevError(Exception):
    """Stops the command; the text is for the user."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev",
        description="Ensue's own commands. The first call makes .venv and installs what is needed.",
        epilog="\n".join(f"  {name:<6} {text}" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="command", help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="passed on")
    given = parser.parse_args(arguments)

    os.chdir(ROOT)
    try:
        prepare_environment()
        return int(globals()[given.command](given.rest))
    except DevError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def prepare_environment() -> None:
    if os.name != "posix":
        raise DevError("./dev runs on Linux and macOS only.")
    wanted = fingerprint()
    if installed() == wanted:
        return
    VENV.mkdir(exist_ok=True)
    with locked(VENV / ".ensue-lock"):
        if installed() == wanted:
            return
        make_venv()
        say(f"installing the project with [{EXTRAS}] into .venv (once; a few minutes)")
        run_pip("install", "--quiet", "-c", "constraints.txt", "-e", f".[{EXTRAS}]")
        STAMP.write_text(wanted)


def fingerprint() -> str:
    # Only what decides the installation: an edited lint rule must not cost a reinstallation.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = {
        "build-system": project["build-system"],
        "project": project["project"],
        "setuptools": project["tool"]["setuptools"],
        "constraints": (ROOT / "constraints.txt").read_text(),
        "extras": EXTRAS,
        "root": str(ROOT),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def installed() -> str | None:
    try:
        return STAMP.read_text() if PYTHON.exists() else None
    except OSError:
        return None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    import fcntl  # POSIX only, and the check for that must come first

    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another ./dev is preparing .venv; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    if PYTHON.is_symlink() and not PYTHON.exists():
        raise DevError("the Python behind .venv is gone.\nWhat to do: remove .venv and try again.")
    if PYTHON.exists() and call([PYTHON, "-m", "pip", "--version"], quiet=True) == 0:
        return
    say(f"making .venv with Python {sys.version.split()[0]}")
    if call([sys.executable, "-m", "venv", VENV]) != 0:
        raise DevError(
            f"{sys.executable} could not make a virtual environment (see above).\n"
            "What to do: on Debian and Ubuntu install python3-venv, or name another Python: "
            "PYTHON=/path/to/python3.11 ./dev ..."
        )


def run_pip(*arguments: str) -> None:
    code = call([PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments])
    if code != 0:
        raise DevError(
            f"pip failed with code {code} (its own message is above); nothing was run.\n"
            "What to do: check the network and pip's settings (`pip config list`), then call "
            "./dev again; it goes on from here."
        )


def demo(rest: list[str]) -> int:
    script = VENV / "bin" / "ensue"
    return call([script] if script.exists() else [PYTHON, "-m", "ensue.cli"], "demo", *rest)


def test(rest: list[str]) -> int:
    everything = rest == ["--all"]
    if rest and not everything:
        return call([PYTHON, "-m", "pytest"], *rest)
    # Each process of the Spark stage has a session of its own. The last stage runs the kernels as
    # plain Python: it finds out-of-range indexing that compiled code would not notice.
    sample = [] if everything else ["--sample", "8"]
    forced = [] if everything else ["--sample-forced", "4"]
    stages = [
        ("everything but Spark", ["tests", "--ignore=tests/spark", "-n", "2", *forced], {}),
        ("Spark", ["tests/spark", "-n", "2"], {}),
        (
            "unit tests without Numba",
            ["tests/unit", "-n", "2", *sample],
            {"NUMBA_DISABLE_JIT": "1"},
        ),
    ]
    stages = [stage for stage in stages if (ROOT / stage[1][0]).is_dir()]
    failed: list[str] = []
    # pytest has the last word of the output, so failures so far are named at each stage's start.
    for number, (name, arguments, settings) in enumerate(stages, 1):
        so_far = f" (failed so far: {', '.join(failed)})" if failed else ""
        say(f"tests {number} of {len(stages)}: {name}{so_far}")
        if call([PYTHON, "-m", "pytest"], *arguments, settings=settings) != 0:
            failed.append(name)
    return 1 if failed or not stages else 0


def lint(rest: list[str]) -> int:
    refuse_arguments("lint", rest)
    steps: list[list[str | Path]] = [
        [PYTHON, "-m", "ruff", "check", "."],
        [PYTHON, "-m", "ruff", "format", "--check", "."],
        [PYTHON, "-m", "mypy", "--strict", "ensue"],
        [VENV / "bin" / "lint-imports"],
    ]
    return run_all(steps)


def fix(rest: list[str]) -> int:
    refuse_arguments("fix", rest)
    steps: list[list[str | Path]] = [
        [PYTHON, "-m", "ruff", "check", "--fix", "."],
        [PYTHON, "-m", "ruff", "format", "."],
    ]
    return run_all(steps)


def bench(rest: list[str]) -> int:
    return call([PYTHON, "-m", "benchmarks"], *rest)


def docs(rest: list[str]) -> int:
    return call([PYTHON, "tools/docs.py"], *rest)


def refuse_arguments(command: str, rest: list[str]) -> None:
    if rest:
        raise DevError(f"`{command}` takes no arguments, but was given: {' '.join(rest)}")


def run_all(steps: Sequence[Sequence[str | Path]]) -> int:
    failed = []
    for step in steps:
        shown = " ".join(str(part) for part in step[1:] if part != "-m") or Path(step[0]).name
        say(shown)
        if call(step) != 0:
            failed.append(shown)
    if failed:
        say(f"failed: {'; '.join(failed)}")
    return 1 if failed else 0


def call(
    command: Sequence[str | Path],
    *arguments: str,
    settings: dict[str, str] | None = None,
    quiet: bool = False,
) -> int:
    environment = {**os.environ, **(settings or {})}
    # Inside .venv's own bin first: Spark's workers look for `python3` on PATH.
    environment["PATH"] = f"{VENV / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment["VIRTUAL_ENV"] = str(VENV)
    environment.setdefault("NUMBA_CACHE_DIR", str(VENV / "numba" / kernels_hash()))
    environment.pop("PYTHONHOME", None)
    sink = subprocess.DEVNULL if quiet else None
    parts = [str(part) for part in (*command, *arguments)]
    sys.stdout.flush()
    return subprocess.run(parts, env=environment, stdout=sink, stderr=sink, check=False).returncode


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

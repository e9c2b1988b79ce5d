"""The project's commands, for `./dev`: environment, tests, checks, benchmarks, documentation.

Needs the standard library only, since it runs before anything is installed. The environment in
`.venv` is made at the first call and again only when what it depends on has changed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from environments import ROOT, DevError, Environment, say

HOME = Environment(ROOT / ".venv")
EXTRAS = "all,dev"

COMMANDS = {
    "demo": "run the demonstration (arguments go to `ensue demo`)",
    "test": "run the tests; --all: every case of each; other arguments: one pytest with these",
    "lint": "ruff, mypy and import-linter; changes nothing",
    "fix": "let ruff repair and format the code",
    "chaos": "random trials under random trouble: ./dev chaos [--minutes N] [--seed S]",
    "soak": "hours of a stream, with flat memory and time: ./dev soak [--rows N] [--minutes N]",
    "bench": "run benchmarks: ./dev bench NAME... [options]",
    "docs": "check the examples of the documentation and build it into build/docs",
    "matrix": "run the Spark tests on other versions of Spark: ./dev matrix --list",
    "studio-build": "build the studio's page into ensue/studio/page",
    "package": "build wheel and sdist into dist, and try them in clean environments",
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev",
        description="Ensue's own commands. The first call makes .venv and installs what is needed.",
        epilog="\n".join(f"  {name:<12} {text}" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="command", help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="passed on")
    given = parser.parse_args(arguments)

    os.chdir(ROOT)
    try:
        if os.name != "posix":
            raise DevError("./dev runs on Linux and macOS only.")
        # Combinations have environments of their own.
        if given.command != "matrix":
            HOME.prepare(["-e", f".[{EXTRAS}]"], ROOT / "constraints.txt")
        if given.command not in ("matrix", "package"):  # these fill environments of their own
            keep_bytecode()
        return int(globals()[given.command.replace("-", "_")](given.rest))
    except DevError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def keep_bytecode() -> None:
    """Where Python is to write no bytecode beside modules, keep it in the environment.

    Without any, every process of a test run compiles each module that it imports.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(HOME.folder / "bytecode"))


def demo(rest: list[str]) -> int:
    return HOME.call("-m", "ensue.cli", "demo", *rest)


def test(rest: list[str]) -> int:
    everything = rest == ["--all"]
    browser = prepare_studio()
    if rest and not everything:
        return HOME.call("-m", "pytest", *rest, settings=browser)
    # Each process of the Spark stage has a session of its own. The last stage runs the kernels as
    # plain Python: it finds out-of-range indexing that compiled code would not notice.
    sample = [] if everything else ["--sample", "8"]
    part = [] if everything else ["--part", "4"]
    stages = [
        ("everything but Spark", ["tests", "--ignore=tests/spark", "-n", "2", *part], browser),
        ("Spark", ["tests/spark", "-n", "2", *part], {}),
        (
            "unit tests without Numba",
            ["tests/unit", "-n", "2", *sample, *part],
            {"NUMBA_DISABLE_JIT": "1"},
        ),
    ]
    stages = [stage for stage in stages if (ROOT / stage[1][0]).is_dir()]
    failed: list[str] = []
    # pytest has the last word of the output, so failures so far are named at each stage's start.
    for number, (name, arguments, settings) in enumerate(stages, 1):
        so_far = f" (failed so far: {', '.join(failed)})" if failed else ""
        say(f"tests {number} of {len(stages)}: {name}{so_far}")
        if HOME.call("-m", "pytest", *arguments, settings=settings) != 0:
            failed.append(name)
    if chaos([]) != 0:
        failed.append("chaos")
    return 1 if failed or not stages else 0


def prepare_studio() -> dict[str, str]:
    """The page and a browser for its tests, which say why they are left out where there is none."""
    import studio

    try:
        studio.build(HOME)
    except DevError as error:
        print(f"dev: {error}", file=sys.stderr)
    browser = studio.browser(HOME)
    return {} if browser is None else {"ENSUE_BROWSER": str(browser)}


def lint(rest: list[str]) -> int:
    import studio

    refuse_arguments("lint", rest)
    return studio.check(HOME) | run_all(
        [
            ["-m", "ruff", "check", "."],
            ["-m", "ruff", "format", "--check", "."],
            ["-m", "mypy", "--strict", "ensue", "tests/unit/test_typed.py"],
            [str(HOME.folder / "bin" / "lint-imports")],
        ]
    )


def fix(rest: list[str]) -> int:
    refuse_arguments("fix", rest)
    return run_all([["-m", "ruff", "check", "--fix", "."], ["-m", "ruff", "format", "."]])


def bench(rest: list[str]) -> int:
    return HOME.call("-m", "benchmarks", *rest)


def chaos(rest: list[str]) -> int:
    return HOME.call("-m", "tests.chaos", *rest)


def soak(rest: list[str]) -> int:
    return HOME.call("-m", "benchmarks.soak", *rest)


def docs(rest: list[str]) -> int:
    return HOME.call("tools/docs.py", *rest)


def matrix(rest: list[str]) -> int:
    from matrix import main as run

    return run(rest)


def studio_build(rest: list[str]) -> int:
    import studio

    refuse_arguments("studio-build", rest)
    studio.build(HOME, force=True)
    return 0


def package(rest: list[str]) -> int:
    from package import main as run

    import studio

    studio.build(HOME)
    return run(HOME, rest)


def refuse_arguments(command: str, rest: list[str]) -> None:
    if rest:
        raise DevError(f"`{command}` takes no arguments, but was given: {' '.join(rest)}")


def run_all(steps: Sequence[Sequence[str]]) -> int:
    failed = []
    for step in steps:
        shown = " ".join(part.rsplit("/", 1)[-1] for part in step if part != "-m")
        say(shown)
        if HOME.call(*step) != 0:
            failed.append(shown)
    if failed:
        say(f"failed: {'; '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

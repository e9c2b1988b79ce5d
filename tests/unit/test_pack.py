"""Nodes use the kernels of a packed Ensue, and compile none of those again."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numba
import pyarrow as pa
import pytest

import ensue
from ensue.kernel_cache import PACKAGE
from ensue.run.spark import on_executor
from ensue.spark.pack import pack

TABLE = {"t": list(range(40)), "x": [i * 7 % 11 for i in range(40)]}
QUERY = 'ensue.pattern("A B+").define(B="x > PREV(x)").order_by("t")'
# As a worker does: the archive is on the path, and the module came by value.
WORKER = """
import gc, importlib.util, json, sys
archive, module, table = sys.argv[1:]
sys.path.insert(0, archive)
spec = importlib.util.spec_from_file_location("on_executor", module)
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)
guard.unpack()
import ensue, pyarrow as pa
count = QUERY.count(pa.table(json.loads(table)))
from numba.core.dispatcher import Dispatcher
kernels = [k for k in gc.get_objects() if isinstance(k, Dispatcher) and k.stats.cache_path]
hits = sum(sum(k.stats.cache_hits.values()) for k in kernels)
compiled = [k.py_func.__qualname__ for k in kernels if k.stats.cache_misses]
print("TOLD", json.dumps([ensue.__file__, count, hits, compiled]))
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_node_uses_packed_kernels(tmp_path: Path) -> None:
    query = ensue.pattern("A B+").define(B="x > PREV(x)").order_by("t")
    here = query.count(pa.table(TABLE))
    archive = pack(tmp_path / "ensue.zip").path
    home = tmp_path / "home"
    home.mkdir()
    left_out = ("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    given = [str(archive), str(PACKAGE / "run/spark/on_executor.py"), json.dumps(TABLE)]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WORKER.replace("QUERY", QUERY), *given],
        env=environment | {"HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
    assert told, done.stderr
    place, there, hits, compiled = json.loads(told[0].removeprefix("TOLD"))
    assert Path(place).is_relative_to(home / ".cache/ensue/packed")
    assert there == here > 0
    assert hits > 0
    assert compiled == []


def test_a_damaged_archive_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def archive(text: str, digest: str) -> Path:
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}.zip"
        with zipfile.ZipFile(place, "w") as made:
            made.writestr("ensue/__init__.py", text)
            made.comment = on_executor.MARK + f"1.0-{digest}".encode()
        return place

    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(sys, "path", list(sys.path))
    whole = on_executor.content_digest(["ensue/__init__.py"], lambda _: b"x = 1")
    for text, refused in (("x = 2", True), ("x = 1", False)):
        place = archive(text, whole)
        spec = SimpleNamespace(origin=str(place / "ensue" / "__init__.py"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda _, found=spec: found)
        if refused:
            with pytest.raises(Exception, match=r"does not hold what was packed(.|\n)*ensue pack"):
                on_executor.unpack()
            assert not list((cache / "ensue" / "packed").iterdir())
        else:
            on_executor.unpack()
            assert (cache / "ensue" / "packed" / f"1.0-{whole}" / "ensue").is_dir()
    (cache / "ensue").chmod(0o770)  # others may put code there
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert not on_executor.node_folder().is_relative_to(cache)

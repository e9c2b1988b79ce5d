"""A file of Numba's cache that cannot be read is compiled again, and written anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

# All in one process: `again` is the kernel as a new start has it.
SCRIPT = """
import os, pickle, sys
from collections import namedtuple
from pathlib import Path

import made_elsewhere
import ensue.kernels
from ensue.made import double
from numba import njit

Lanes = namedtuple("Lanes", "a")
sys.modules["earlier"] = earlier = type(sys)("earlier")
Lanes.__module__ = "earlier"
earlier.Lanes = Lanes

def again(function=double):
    kernel = njit(cache=True)(function)
    assert kernel(2) == 4 and kernel(2.5) == 5.0
    return sum(kernel.stats.cache_misses.values())

def files(kind, module="made"):
    return sorted(Path(os.environ["NUMBA_CACHE_DIR"]).rglob(f"{module}.double-*.{kind}"))

assert again() == 2 and again() == 0
index, = files("nbi")
whole = index.read_bytes()
version = pickle.dumps(__import__("numba").__version__, protocol=-1)
renamed = version + pickle.dumps(("an old stamp", {Lanes: "x"}))
missing = renamed.replace(b"earlier", b"nowhere")
del earlier.Lanes
for content in (renamed, missing, whole[: len(whole) // 2]):
    index.write_bytes(content)
    assert again() == 2 and again() == 0, content
data = files("nbc")[0]
data.write_bytes(data.read_bytes()[:-1])
assert again() > 0
again()  # what the emptied index had besides
assert again() == 0
one, two = files("nbc")  # as two processes that write at once may leave them
one.write_bytes(two.read_bytes())
assert again() > 0
again()
assert again() == 0

# A folder that cannot be written: the kernel works, and is not kept.
real = os.replace
def full(*given):
    raise OSError(28, "No space left on device")
os.replace = full
index.write_bytes(b"junk")
assert again() == 2
os.replace = real
assert again() == 2 and again() == 0

# Kernels of others are left to Numba.
njit(cache=True)(made_elsewhere.double)(2)
index, = files("nbi", "made_elsewhere")
index.write_bytes(b"junk")
try:
    njit(cache=True)(made_elsewhere.double)(2)
except Exception as problem:
    print(type(problem).__name__)
assert index.read_bytes() == b"junk"
"""


def test_unreadable_files_are_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "made_elsewhere.py").write_text("def double(x):\n    return x + x\n")
    made = tmp_path / "own" / "made.py"
    made.parent.mkdir()
    made.write_text((tmp_path / "made_elsewhere.py").read_text())
    ahead = f"import ensue; ensue.__path__.append({str(made.parent)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", ahead + SCRIPT],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["UnpicklingError"]

"""Where Numba keeps the compiled kernels, and which of them are there.

A kernel is compiled on its first call and kept in files beside its source, in Numba's folder of the
user or in NUMBA_CACHE_DIR. A source stamp in the index says whether they still fit.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
# Decorated by Numba, or by one of those in `kernels/calls.py`.
_CACHED = re.compile(
    r"^@(\w*jit\(.*cache=True|borrowing$|(inner_)?(inlined|allocating)$|inner$)", re.MULTILINE
)


@dataclass(frozen=True)
class Kernel:
    """A function that Numba compiles; `files` are what its cache holds of it."""

    source: Path
    name: str
    folder: Path
    dispatcher: Any = field(compare=False, repr=False)

    def compiled(self) -> Iterator[tuple[Any, Any, Path]]:
        """The function, and Numba's key and file of each compiled form that still fits."""
        kept = self.dispatcher._cache._cache_file
        with suppress(Exception):  # unpickling an index that was cut raises any
            for key, name in kept._load_index().items():
                if (self.folder / name).is_file():
                    yield self.dispatcher.py_func, key, self.folder / name

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.source.stem}.{self.name}-*.nb[ic]"))


def kernels() -> Iterator[Kernel]:
    """Every kernel of Ensue."""
    for source in sorted(PACKAGE.rglob("*.py")):
        if not _CACHED.search(source.read_text(encoding="utf-8")):
            continue
        relative = source.relative_to(PACKAGE.parent).with_suffix("")
        module = importlib.import_module(".".join(relative.parts))
        for value in vars(module).values():
            stats = getattr(value, "stats", None)
            path = getattr(stats, "cache_path", None)
            function = getattr(value, "py_func", None)
            if path is not None and function is not None and function.__module__ == module.__name__:
                yield Kernel(source, function.__qualname__, Path(path), value)


def kernels_line() -> str:
    """How many kernels are compiled for this Python, and where."""
    found = list(kernels())
    compiled = [kernel for kernel in found if kernel.files]
    folders = {str(kernel.folder.parent) for kernel in compiled}
    place = f" below {min(folders, key=len)}" if folders else ""
    return f"{len(compiled)} of {len(found)} kernels compiled{place}"

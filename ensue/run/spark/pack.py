"""`ensue pack`: Ensue in one file, for executors where it is not installed.

    spark-submit --py-files ensue.zip job.py        spark.addArtifacts("ensue.zip", pyfile=True)

The archive is a zip of the package, its compiled kernels (for nodes with this machine's processor;
others compile their own) and what `--with` names. Spark puts it on the path of every worker, where
`on_executor.py` unpacks it once per node: machine code cannot be run from a zip file.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ensue import errors
from ensue.kernel_cache import PACKAGE, Kernel, kernels
from ensue.run.spark.on_executor import MARK, TIMES, content_digest
from ensue.run.spark.ship import own_version

# What a worker of Spark has imported before it sees the archive, or cannot work without.
_THERE = ("numpy", "pandas", "pyarrow", "pyspark", "py4j")
_SINCE = (1980, 1, 1, 0, 0, 0)  # so that equal content gives equal files


@dataclass(frozen=True)
class Packed:
    """What was written."""

    path: Path
    size: int
    kernels: int
    packages: tuple[str, ...]


def pack(path: str | Path, packages: Sequence[str] = (), compiled: bool = True) -> Packed:
    """Write the archive; `packages` go with it, each with what it requires itself."""
    path = Path(path)
    if path.suffix != ".zip":
        raise errors.UnsupportedInputError(
            f"{path} is not the name of a zip file, which Spark wants",
            remedy=f"write {path.with_suffix('.zip')}",
        )
    names = _closure(packages)
    content = dict(_own_files())
    compiled_here = list(kernels()) if compiled else []
    content |= dict(_kernel_files(compiled_here))
    # Kernels without the times of their sources would be of no use to an older Numba.
    times = "".join(
        f"{source.stat().st_mtime_ns} {source.relative_to(PACKAGE.parent)}\n"
        for source in sorted({kernel.source for kernel in compiled_here if kernel.files})
    )
    machine_code = len([name for name in content if name.endswith(".nbi")])
    for name in names:
        content |= dict(_files_of(name))
    entries = {name: source.read_bytes() for name, source in content.items()}
    entries[TIMES] = times.encode()
    digest = content_digest(entries, entries.__getitem__)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for name, data in sorted(entries.items()):
            archive.writestr(_entry(name), data)
        archive.comment = MARK + f"{own_version()}-{digest}".encode()
    return Packed(path, path.stat().st_size, machine_code, names)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _SINCE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _own_files() -> Iterator[tuple[str, Path]]:
    for file in PACKAGE.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(PACKAGE.parent)), file


def _kernel_files(packed: Sequence[Kernel]) -> Iterator[tuple[str, Path]]:
    for kernel in packed:
        folder = kernel.source.parent.relative_to(PACKAGE.parent) / "__pycache__"
        for file in kernel.files:
            yield str(folder / file.name), file


def _closure(packages: Sequence[str]) -> tuple[str, ...]:
    """The packages and what they require, as far as it is installed here."""
    found: dict[str, None] = {}
    waiting = list(packages)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name in _THERE:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            if name in packages:
                raise errors.UnsupportedInputError(
                    f"--with {name}: the package is not installed here",
                    remedy="install it in this environment, or leave it out",
                ) from None
            continue
        found[name] = None
        plain = (text for text in required if "extra ==" not in text)
        waiting += [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in plain]
    return tuple(found)


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    for file in metadata.files(name) or ():
        place = Path(str(file.locate()))
        if ".." not in file.parts and "__pycache__" not in file.parts and place.is_file():
            yield str(file), place

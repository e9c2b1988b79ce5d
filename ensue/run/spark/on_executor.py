"""The first thing that runs in a Python worker of Spark, before anything of Ensue is imported.

Spark pickles functions, and what they refer to by the name of its module. On an executor without
Ensue, or with another version of it, that fails inside Spark, with an error that says neither. So
this module travels by value (`ship.py` registers it with cloudpickle), imports nothing but the
standard library and pyspark, and opens the function proper only once Ensue is there and is the
driver's version.

A packed Ensue (`ensue pack`) arrives as a zip file on the path. Each node unpacks it once, into a
folder named by its content: compiled kernels are kept beside their source, which a zip file cannot.
"""

import gc
import hashlib
import importlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

MARK = b"ensue "  # begins the comment of a packed archive; the digest of its content follows
TIMES = "ensue-times.txt"  # in the archive: when each source of a packed kernel was changed


def mapper(payload: bytes, version: str) -> Callable[[Any], Iterator[Any]]:
    """The pickled function as `mapInArrow` calls it."""

    def on_executor(batches: Any) -> Iterator[Any]:
        yield from told(open_work(payload, version), batches)

    return on_executor


def stepper(payload: bytes, version: str) -> Callable[[Any, Any, Any], Iterator[Any]]:
    """The pickled function as `applyInPandasWithState` calls it."""

    def on_executor(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        yield from told(open_work(payload, version), key, frames, state)

    return on_executor


def told(work: Callable[..., Iterator[Any]], *given: Any) -> Iterator[Any]:
    """Errors of Ensue without its frames: their text says where in the query, and what to do."""
    try:
        yield from work(*given)
    except Exception as problem:
        if type(problem).__module__ != "ensue.errors":
            raise
        raise problem.with_traceback(None) from None


def open_work(payload: bytes, version: str) -> Callable[..., Iterator[Any]]:
    """The function proper, where this worker can run it; what is wrong otherwise."""
    first = "ensue" not in sys.modules
    if first:
        unpack()
        choose_kernel_cache(version)
    place = f"the Python worker {sys.executable} on {platform.node()}"
    try:
        here = importlib.import_module("ensue").__version__
    except ImportError as problem:
        refuse_import(problem, place, version)
    if here != version:
        refuse(
            f"{place} has Ensue {here}, and the driver has {version}",
            f"install ensue=={version} there, or ship the driver's: `ensue pack` writes an archive "
            "for --py-files or spark.addArtifacts(..., pyfile=True)",
        )
    from pyspark.serializers import CloudPickleSerializer

    try:
        serializer: Any = CloudPickleSerializer
        work: Callable[..., Iterator[Any]] = serializer().loads(payload)
    except ImportError as problem:
        refuse_import(problem, place, version)
    if first:
        # Spark collects garbage after each task: 80 ms, unless what was imported is set aside.
        gc.freeze()
    return work


def refuse_import(problem: ImportError, place: str, version: str) -> NoReturn:
    missing = (problem.name or "").partition(".")[0]
    if missing == "ensue":
        refuse(
            f"{place} has no Ensue",
            f"install ensue=={version} there; or ship it: `ensue pack` writes an archive for "
            "--py-files or spark.addArtifacts(..., pyfile=True). On one machine: import ensue "
            "before the Spark session is made, or set PYSPARK_PYTHON to the driver's Python",
        )
    refuse(
        f"{place} has Ensue, but not a package that it needs: {problem}",
        f"install {missing or 'it'} there, or ship it: `ensue pack --with {missing}` writes an "
        "archive for --py-files or spark.addArtifacts(..., pyfile=True)",
    )


def refuse(problem: str, remedy: str) -> NoReturn:
    # The driver knows this class by its name; here there may be no such module.
    kind = type("ExecutorError", (Exception,), {"__module__": "ensue.errors"})
    raise kind(f"{problem}\nWhat to do: {remedy}") from None


def unpack() -> None:
    """Put a packed Ensue into a folder of this node, and that folder first on the path."""
    spec = importlib.util.find_spec("ensue")
    if spec is None or spec.origin is None:
        return
    archive = Path(spec.origin).parent.parent
    if not archive.is_file():
        return
    with zipfile.ZipFile(archive) as packed:
        if not packed.comment.startswith(MARK):
            return
        name = packed.comment.removeprefix(MARK).decode()
        folder = node_folder() / name
        if not folder.is_dir():
            try:
                whole = name.endswith("-" + content_digest(packed.namelist(), packed.read))
            except (zipfile.BadZipFile, zlib.error):
                whole = False
            if not whole:
                refuse(
                    f"{archive} on {platform.node()} does not hold what was packed into it",
                    "write it again with `ensue pack`, and ship that",
                )
            # Several workers may unpack at once: the first to rename wins.
            draft = Path(tempfile.mkdtemp(dir=folder.parent))
            packed.extractall(draft)
            restore_times(draft)
            try:
                draft.rename(folder)
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                if not folder.is_dir():
                    raise
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def content_digest(names: Iterable[str], read: Callable[[str], bytes]) -> str:
    """What the comment of an archive says of its files, machine code among them."""
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + hashlib.sha256(read(name)).digest())
    return digest.hexdigest()[:16]


def restore_times(folder: Path) -> None:
    """Give sources the times they had: Numba before 0.68 knows by them which kernels still fit."""
    times = folder / TIMES
    for line in times.read_text().splitlines() if times.exists() else ():
        nanoseconds, _, name = line.partition(" ")
        os.utime(folder / name, ns=(int(nanoseconds), int(nanoseconds)))


def choose_kernel_cache(version: str) -> None:
    """A folder of this node for compiled kernels, where Numba would find none that it can write.

    So it is in containers without a home: every import of a kernel would fail there.
    """
    spec = importlib.util.find_spec("ensue")
    if spec is None or spec.origin is None or os.environ.get("NUMBA_CACHE_DIR"):
        return
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not any(writable(Path(place)) for place in (os.path.dirname(spec.origin), cache)):
        os.environ["NUMBA_CACHE_DIR"] = str(node_folder().with_name(f"kernels-{version}"))


def writable(folder: Path) -> bool:
    """Whether files can be made there, with the folder itself where it is not there yet."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def node_folder() -> Path:
    """A folder of this user that outlives the application: its cache, or one among temporary files.

    Code is run from it, so nobody else may write there.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = os.path.expanduser("~")
    caches = [given] if os.path.isabs(given) else [os.path.join(home, ".cache")]
    caches.append(os.path.join(tempfile.gettempdir(), f"ensue-{os.getuid()}"))
    for cache in caches:
        folder = Path(cache, "ensue", "packed")
        try:
            for place in (folder.parent.parent, folder.parent, folder):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        found = [place.stat() for place in (folder, folder.parent)]
        alone = all(one.st_uid == os.getuid() and not one.st_mode & 0o022 for one in found)
        if alone and os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="ensue-"))

"""The process that matches: `python -m ensue.studio.worker`, messages as lines on its pipes.

A process of its own, so that a call can be ended whatever it is doing, and a pattern that explodes
takes neither the page nor the notebook with it. It bounds its own memory. Tables come as Arrow
files, which are mapped and not copied.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

TOO_MUCH_MEMORY = 77  # exit status
THREADS = 6
_EVERY = 0.1  # seconds between two lines of progress, and two looks at the memory


class Calls:
    """Runs calls on a session and writes what they answer."""

    def __init__(self, session: Any, out: TextIO) -> None:
        self._session = session
        self._out = out
        self._writes = threading.Lock()
        self._cancelled: set[str] = set()
        self._active: set[str] = set()
        self._compiles = False
        self._pool = ThreadPoolExecutor(THREADS)

    def take(self, message: dict[str, Any]) -> None:
        if message.get("cancel"):
            self._cancelled.add(str(message["id"]))
        else:
            self._pool.submit(self._answer, message)

    def _answer(self, message: dict[str, Any]) -> None:
        name = str(message["id"])
        self._active.add(name)
        if self._compiles:
            self.compiling(True)
        try:
            found = answered(self._session, message, self._say, lambda: name in self._cancelled)
            self._say(found)
        finally:
            self._cancelled.discard(name)
            self._active.discard(name)

    def compiling(self, begun: bool) -> None:
        """Tell all that wait that a kernel is compiled, and that it is done."""
        self._compiles = begun
        text = "compiling, once per machine" if begun else "matching"
        for name in tuple(self._active):
            progress = {"done": 0, "total": None, "text": text, "compiling": begun}
            self._say({"id": name, "progress": progress})

    def _say(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, allow_nan=False)
        with self._writes:
            self._out.write(line + "\n")
            self._out.flush()


def answered(
    session: Any,
    message: dict[str, Any],
    say: Callable[[dict[str, Any]], None],
    is_cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """The last message of a call; progress is said on the way, not too often."""
    from ensue.studio.session import CancelledError, error_message

    name, last = message["id"], 0.0

    def tell(done: int, total: int | None, text: str) -> None:
        nonlocal last
        if is_cancelled():
            raise CancelledError
        now = time.monotonic()
        if now - last >= _EVERY:
            last = now
            say({"id": name, "progress": {"done": done, "total": total, "text": text}})

    try:
        result = session.call(str(message.get("method")), message.get("params") or {}, tell)
        return {"id": name, "result": plain(result)}
    except BaseException as problem:
        return {"id": name, "error": error_message(problem)}


def plain(value: Any) -> Any:
    """JSON has neither NaN nor infinities: null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def listen_to_compiling(tell: Callable[[bool], None]) -> None:
    """Tell when Numba begins to compile, and when it has ended: one call inside another is one."""
    from numba.core import event

    from ensue.kernels.warm import COMPILED

    class Listener(event.Listener):
        depth = 0

        def on_start(self, event: event.Event) -> None:
            self.depth += 1
            if self.depth == 1:
                tell(True)

        def on_end(self, event: event.Event) -> None:
            self.depth -= 1
            if self.depth == 0:
                tell(False)

    event.register(COMPILED, Listener())  # type: ignore[no-untyped-call]


def watch_memory(limit: int) -> None:
    """End the process before the machine has to."""

    def watch() -> None:
        while True:
            if resident() > limit:
                os._exit(TOO_MUCH_MEMORY)
            time.sleep(_EVERY)

    threading.Thread(target=watch, daemon=True).start()


def resident() -> int:
    """Bytes of memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def warm(session: Any) -> None:
    """Load what the first answers need, before they are asked for."""
    for text in ("loaded delivered", "loaded -> delivered"):
        options = {"types": "scan", "partition_by": "parcel", "order_by": "ts"}
        query = {"language": "pattern", "text": text, "options": options}
        about = {"source": "parcels", "query": query}
        for method, more in (("run", {}), ("lanes", {"keys": [0]}), ("keys", {}), ("why", {})):
            session.call(method, {**about, **more})


def main() -> None:
    # Whatever prints goes to standard error, so that the pipe carries messages alone.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # Ctrl+C in the terminal, or in the notebook, is for the one who asks: then the pipe ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("always")
    first = json.loads(sys.stdin.readline())
    watch_memory(int(first["memory"]))

    import pyarrow as pa

    from ensue.studio.session import Session
    from ensue.studio.texts import Typed

    sources = dict(first["files"])
    for name, path in first["tables"].items():
        sources[name] = pa.ipc.open_file(pa.memory_map(path)).read_all()
    query = None if first["query"] is None else Typed.of(first["query"])
    session = Session(sources, query, first["source"])
    calls = Calls(session, out)
    listen_to_compiling(calls.compiling)
    threading.Thread(target=warm, args=(session,), daemon=True).start()
    for line in sys.stdin:
        calls.take(json.loads(line))
    os._exit(0)  # the one who asked is gone


if __name__ == "__main__":
    main()

"""Who answers a call: a process of its own for tables, threads beside the user's Spark.

The desk takes messages from any carrier, hands each to the one who can answer it, and gives back
what comes. A call that is cancelled and does not end at once is ended with its process; the other
calls of that process are asked again of the next one, which is right since no call changes
anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api.tables import is_spark, to_arrow
from ensue.studio.session import Session, error_message
from ensue.studio.streams import session_of, streams
from ensue.studio.texts import Typed
from ensue.studio.worker import TOO_MUCH_MEMORY, answered, plain

MEMORY_SETTING = "ENSUE_STUDIO_MEMORY"  # of the process that matches, in MB
MAX_CALLS = 64  # under way at once
GRACE = 0.4  # seconds in which a cancelled call may end by itself
PATIENCE = 3.0  # and one that nobody waits for any more
_QUICK = frozenset({"hello", "read", "complete", "unshare"})  # answered here, whatever else runs
_TRIES = 2
Message = dict[str, Any]
Deliver = Callable[[Message], None]


@dataclass
class Call:
    message: Message
    deliver: Deliver
    begun: float = field(default_factory=time.monotonic)
    tries: int = 0
    process: subprocess.Popen[str] | None = None
    cancelled: bool = False
    compiling: bool = False

    @property
    def source(self) -> Any:
        """Which source it is about; what is no source has no effect here."""
        params = self.message.get("params")
        name = params.get("source") if isinstance(params, dict) else None
        return name if isinstance(name, str) else None


class Desk:
    """Takes calls. `deliver` is called from other threads, the last time with the result."""

    def __init__(
        self,
        sources: Mapping[str, Any] | None = None,
        query: Typed | None = None,
        source: str | None = None,
    ) -> None:
        given = dict(sources or {})
        self._on_spark = {name: data for name, data in given.items() if is_spark(data)}
        self._rest = {name: data for name, data in given.items() if name not in self._on_spark}
        self._spark = session_of(self._on_spark.values())
        self._query, self._source = query, source or next(iter(given), None)
        self._beside = Session(given, query, self._source)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="ensue-studio")
        self._folder: Path | None = None
        self._lock = threading.RLock()
        self._calls: dict[str, Call] = {}
        self._process: subprocess.Popen[str] | None = None
        self._spare: subprocess.Popen[str] | None = None
        self._closed = False
        self._threads.submit(self._ready)

    def _ready(self) -> None:
        """Start the process before the first call needs it."""
        with self._lock:
            if self._process is None and not self._closed:
                self._process = self._started()

    # -- taking calls ----------------------------------------------------------------------------

    def take(self, message: Message, deliver: Deliver) -> None:
        """Begin a call, or cancel one."""
        name = message.get("id")
        if not isinstance(name, str) or not name or len(name) > 200:
            problem = errors.QueryError("the message has no id", remedy="give a text of its own")
            deliver({"id": None, "error": error_message(problem)})
            return
        if message.get("cancel"):
            self.cancel(name)
            return
        call = Call(message, deliver)
        with self._lock:
            if name in self._calls or len(self._calls) >= MAX_CALLS or self._closed:
                what = f"{MAX_CALLS} calls are under way" if name not in self._calls else "twice"
                taken = errors.LimitError(f"the call {name!r} is not taken: {what}")
                deliver({"id": name, "error": error_message(taken)})
                return
            self._calls[name] = call
        self._threads.submit(self._begin, call)

    def _begin(self, call: Call) -> None:
        method = call.message.get("method")
        try:
            if method == "streams":
                self._done(call, {"id": call.message["id"], "result": plain(streams(self._spark))})
            elif call.source in self._on_spark:
                self._ask_spark(call)
            elif method in _QUICK:
                self._done(
                    call,
                    answered(self._beside, call.message, call.deliver, lambda: call.cancelled),
                )
            else:
                self._send(call)
        except BaseException as problem:
            self._done(call, {"id": call.message["id"], "error": error_message(problem)})

    def _ask_spark(self, call: Call) -> None:
        """Beside the user's session, its jobs tagged so that they can be ended."""
        session, name = self._on_spark[call.source].sparkSession, call.message["id"]
        tag = _tag(name)
        session.addTag(tag)
        try:
            done = answered(self._beside, call.message, call.deliver, lambda: call.cancelled)
        finally:
            session.removeTag(tag)
        self._done(call, done)

    def cancel(self, name: str, grace: float = GRACE) -> None:
        """End a call; one that does not end by itself is ended after the grace."""
        with self._lock:
            call = self._calls.get(name)
            if call is None:
                return
            call.cancelled = True
            process = call.process
            if process is not None:
                _write(process, {"id": name, "cancel": True})
        self._force_after(grace, name, process)

    def _force_after(self, grace: float, name: str, process: subprocess.Popen[str] | None) -> None:
        timer = threading.Timer(grace, self._force, (grace, name, process))
        timer.daemon = True
        timer.start()

    def _force(self, grace: float, name: str, process: subprocess.Popen[str] | None) -> None:
        """End the process of a cancelled call that goes on."""
        with self._lock:
            call = self._calls.get(name)
            if call is None:
                return
            if call.compiling and grace > GRACE:
                # Nobody waits, and nobody cancelled: what is compiled now is needed by the next.
                self._force_after(grace, name, process)
                return
            self._done(call, _refused(name, "Cancelled", "the call was cancelled"))
            if call.source in self._on_spark:
                self._on_spark[call.source].sparkSession.interruptTag(_tag(name))
            elif process is not None:
                # Its reader asks the next one for the calls that are left: no fault of theirs.
                for other in self._calls.values():
                    other.tries -= other.process is process
                process.kill()

    def close(self) -> None:
        """End the process and the files."""
        with self._lock:
            self._closed = True
            ended, self._process, self._spare = [self._process, self._spare], None, None
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            lost = _refused(call.message["id"], "SessionLost", "the studio was closed")
            call.deliver(lost)
        for process in filter(None, ended):
            process.kill()
            process.wait()
        self._threads.shutdown(wait=False)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _done(self, call: Call, message: Message) -> None:
        with self._lock:
            if self._calls.pop(call.message["id"], None) is None:
                return
        call.deliver(message)

    # -- the process -----------------------------------------------------------------------------

    def _send(self, call: Call) -> None:
        with self._lock:
            if self._closed:
                return
            if self._process is None:
                self._process = self._next()
            call.tries += 1
            call.process = self._process
            _write(self._process, call.message)

    def _next(self) -> subprocess.Popen[str]:
        """The process that waits for its turn, or a new one."""
        process = self._spare
        if process is None or process.poll() is not None:
            process = self._started()
        self._spare = None
        return process

    def _prepare(self) -> None:
        """Another process for the day this one has to be ended; once it has answered something."""
        with self._lock:
            if self._spare is None and not self._closed:
                self._spare = self._started()

    def _started(self) -> subprocess.Popen[str]:
        files = {n: str(d) for n, d in self._rest.items() if isinstance(d, (str, Path))}
        first = {
            "memory": memory_limit(),
            "files": files,
            "tables": self._tables(),
            "query": None if self._query is None else self._query.message(),
            "source": self._source if self._source in self._rest else None,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "ensue.studio.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1,
        )
        _write(process, first)
        threading.Thread(target=self._hear, args=(process,), daemon=True).start()
        return process

    def _tables(self) -> dict[str, str]:
        """Tables in memory as files that the process maps; written once."""
        tables = {n: d for n, d in self._rest.items() if not isinstance(d, (str, Path))}
        if not tables:
            return {}
        folder = self._folder
        if folder is None:
            folder = self._folder = Path(tempfile.mkdtemp(prefix="ensue-studio-"))
            for number, data in enumerate(tables.values()):
                table = to_arrow(data)
                path = str(folder / f"{number}.arrow")
                with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
        return {name: str(folder / f"{number}.arrow") for number, name in enumerate(tables)}

    def _hear(self, process: subprocess.Popen[str]) -> None:
        """Give on what a process says; when it has ended, ask the next one."""
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            with self._lock:
                call = self._calls.get(message["id"])
            if call is None:
                continue
            if "progress" in message:
                call.compiling = message["progress"].pop("compiling", False)
                call.deliver(message)
            else:
                self._done(call, message)
                self._prepare()
        status = process.wait()
        with self._lock:
            if self._process is process:
                self._process = None
            if self._closed:
                return
            left = [call for call in self._calls.values() if call.process is process]
        for call in left:
            self._again(call, status)

    def _again(self, call: Call, status: int) -> None:
        name = call.message["id"]
        if call.cancelled:
            self._done(call, _refused(name, "Cancelled", "the call was cancelled"))
        elif status == TOO_MUCH_MEMORY and call.tries >= _TRIES:
            limit = memory_limit() >> 20
            self._done(
                call,
                _refused(
                    name, "LimitError", f"the answer needs more than {limit:,} MB of memory",
                    "bound the pattern with within or a tighter condition, look at fewer rows, or "
                    f"raise {MEMORY_SETTING}",
                ),
            )  # fmt: skip
        elif call.tries >= _TRIES:
            self._done(
                call,
                _refused(
                    name, "SessionLost", "the process that matches ended before it answered",
                    "run it again; what you typed is kept",
                ),
            )  # fmt: skip
        else:
            self._send(call)


def memory_limit() -> int:
    """Bytes that the process may have: what is set, else three fifths of the machine."""
    said = os.environ.get(MEMORY_SETTING, "")
    if said.isdigit() and int(said):
        return int(said) << 20
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 5
    except (ValueError, OSError):
        return 1 << 40


def _refused(name: str, kind: str, message: str, remedy: str = "") -> Message:
    said = {"class": kind, "message": message, "remedy": remedy, "place": None}
    return {"id": name, "error": said}


def _write(process: subprocess.Popen[str], message: Message) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    except (BrokenPipeError, OSError):
        pass  # its reader sees the end, and asks the next one


def _tag(name: str) -> str:
    """A tag of Spark for a call; it has no commas."""
    return "ensue-studio-" + name.replace(",", "_")

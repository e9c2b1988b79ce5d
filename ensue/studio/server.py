"""The studio over HTTP, for this machine only.

It listens on the loopback address. Every call carries a token that only the link has, and comes
from this page: other names in `Host` (a name that was pointed here) and other origins are refused.
What is served as a file is what lay in the page's folder at the start, by exact name. Requests
are bounded, and the page may load nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ensue import errors
from ensue.extras import needed
from ensue.studio.desk import PATIENCE, Desk
from ensue.studio.texts import Typed

PAGE = Path(__file__).parent / "page"
PORT = 8765  # the page's storage belongs to it, so it should stay the same
_PORTS = 20  # tried one after the other
MAX_REQUEST = 1 << 20  # bytes
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".woff2": "font/woff2",
}


class Served:
    """A studio that runs; a context manager that stops it."""

    def __init__(self, desk: Desk, port: int, page: Path | None) -> None:
        uvicorn = needed("uvicorn", "the studio")
        needed("starlette", "the studio")
        self._desk = desk
        self.token = secrets.token_urlsafe(24)
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        app = application(desk, self.token, self.port, page)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="ensue-studio", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    @property
    def url(self) -> str:
        """The link, with the token."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def wait(self) -> None:
        """Until it is stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        self._desk.close()
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()


def serve(
    sources: Mapping[str, Any] | None = None,
    *,
    query: Typed | None = None,
    source: str | None = None,
    port: int | None = None,
    page: Path | None = PAGE,
) -> Served:
    """Start the studio beside this program; `port` 0 takes any, None the usual one or the next."""
    return Served(Desk(sources, query, source), PORT if port is None else port, page)


def built_page() -> Path:
    """The folder of the page, or an error that says how to build it."""
    if not (PAGE / "index.html").exists():
        raise errors.MissingPageError(
            f"the studio's page is not built: {PAGE} has no index.html",
            remedy="install Ensue from a wheel (pip install 'ensue[studio]'), or in a checkout run "
            "./dev studio-build, which brings its own Node",
        )
    return PAGE


def _listening(port: int) -> socket.socket:
    tried = [port] if port != PORT else [*range(PORT, PORT + _PORTS), 0]
    for number in tried:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", number))
            listener.listen()  # who comes before the server is up waits
            return listener
        except OSError:
            listener.close()
    raise errors.UnsupportedError(
        f"the port {port} of this machine is taken", remedy="give another one, or 0 for any"
    )


def application(desk: Desk, token: str, port: int, page: Path | None) -> Any:
    """The ASGI application."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    files = _files(page)
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    def refused(status: int, kind: str, message: str, remedy: str = "") -> Response:
        said = {"class": kind, "message": message, "remedy": remedy, "place": None}
        return JSONResponse({"error": said}, status, HEADERS)

    def forbidden(request: Request) -> Response | None:
        """What is refused before anything is read."""
        host = request.headers.get("host", "")
        if host not in hosts:
            return refused(403, "Forbidden", f"the studio is not at {host[:100]!r}")
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{name}" for name in hosts}:
            return refused(403, "Forbidden", "another origin asks")
        if request.method == "GET":
            return None
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refused(403, "Forbidden", "another site asks")
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return refused(
                401, "BadToken", "the token is missing, or belongs to another studio",
                "open the link that `ensue studio` printed last",
            )  # fmt: skip
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return refused(415, "BadType", "a request must be application/json")
        return None

    async def body(request: Request) -> Any:
        """The message, or the answer that refuses it."""
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > MAX_REQUEST:
                return refused(
                    413, "TooLarge", f"the request has more than {MAX_REQUEST:,} bytes",
                    "shorten the query",
                )  # fmt: skip
            parts.append(part)
        try:
            message = json.loads(b"".join(parts))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("id"), str):
            return refused(400, "BadMessage", "the request is not a message with an id")
        return message

    async def call(request: Request) -> Response:
        message = forbidden(request) or await body(request)
        if isinstance(message, Response):
            return message
        message.pop("cancel", None)
        return StreamingResponse(
            _answers(desk, message), media_type="application/x-ndjson", headers=HEADERS
        )

    async def cancel(request: Request) -> Response:
        message = forbidden(request) or await body(request)
        if isinstance(message, Response):
            return message
        desk.cancel(message["id"])
        return Response(status_code=204, headers=HEADERS)

    async def file(request: Request) -> Response:
        no = forbidden(request)
        if no is not None:
            return no
        found = files.get(request.url.path)
        if found is None:
            return refused(404, "NotFound", "there is no such file")
        data = await asyncio.to_thread(found.read_bytes)
        return Response(data, media_type=_KINDS[found.suffix], headers=HEADERS)

    return Starlette(
        routes=[
            Route("/api/call", call, methods=["POST"]),
            Route("/api/cancel", cancel, methods=["POST"]),
            Route("/{path:path}", file, methods=["GET"]),
        ]
    )


async def _answers(desk: Desk, message: dict[str, Any]) -> AsyncIterator[bytes]:
    """The lines of one call; who goes away cancels it."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    ended = False

    def deliver(answer: dict[str, Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended with the server
            loop.call_soon_threadsafe(lines.put_nowait, answer)

    desk.take(message, deliver)
    try:
        while not ended:
            answer = await lines.get()
            ended = "progress" not in answer
            yield json.dumps(answer, allow_nan=False).encode() + b"\n"
    finally:
        if not ended:
            desk.cancel(message["id"], PATIENCE)


def _files(page: Path | None) -> dict[str, Path]:
    """By address: the files of the page, as they are now."""
    if page is None or not page.is_dir():
        return {}
    found = {
        "/" + path.relative_to(page).as_posix(): path
        for path in sorted(page.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix in _KINDS
    }
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found

"""The studio over HTTP: who is let in, what is served, and calls that end."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.studio import desk, server
from ensue.studio.server import Served, serve
from ensue.studio.worker import TOO_MUCH_MEMORY

QUERY = {"language": "pattern", "text": "A B", "options": {"define": "B: x > PREV(x)"}}
# Every pair, triple, ... of 4,000 rows that fit: nobody lives to see the end of it.
ENDLESS: dict[str, Any] = {
    "language": "pattern",
    "text": "A ->> B ->> C ->> D",
    "options": {"define": "B: x >= A.x\nC: x >= B.x\nD: x >= C.x", "order_by": "x"},
}
TABLE = pa.table({"x": list(range(4_000))})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside") / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>page</h1>")
    (folder / "assets" / "page.js").write_text("1")
    (folder / "notes.txt").write_text("not served")
    (folder.parent / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(folder.parent / "secret.html")
    return folder


@pytest.fixture(scope="module")
def served(page: Path) -> Iterator[Served]:
    with serve({"numbers": TABLE}, port=0, page=page) as running:
        yield running


def request(
    served: Served, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    given = {
        "Authorization": f"Bearer {served.token}", "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }  # fmt: skip
    data = body if isinstance(body, bytes) or body is None else json.dumps(body)
    connection.request(method, path, data, {n: v for n, v in given.items() if v})
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def call(served: Served, name: str, method: str, **params: Any) -> list[dict[str, Any]]:
    message = {"id": name, "method": method, "params": params}
    status, body, _ = request(served, "POST", "/api/call", message)
    assert status == 200
    lines = [json.loads(line) for line in body.splitlines()]
    assert {line["id"] for line in lines} == {name}
    assert all("progress" in line for line in lines[:-1])
    return lines


def test_a_call_is_answered(served: Served) -> None:
    found = call(served, "1", "run", source="numbers", query=QUERY)[-1]["result"]
    assert found["matches"] == ensue.pattern("A B").define(B="x > PREV(x)").count(TABLE)
    hello = call(served, "2", "hello")[-1]["result"]
    assert hello["source"] == "numbers" and hello["sources"][0]["id"] == "numbers"
    wrong = call(served, "3", "run", source="numbers", query={**QUERY, "text": "A (B"})[-1]["error"]
    assert wrong["class"] == "PatternSyntaxError" and wrong["place"]["column"] == 3
    odd = call(served, "4", "run", source="numbers", query=7)[-1]["error"]
    assert odd["class"] == "QueryError"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer ü"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
    ],
)
def test_who_is_not_let_in(served: Served, headers: dict[str, str], status: int) -> None:
    headers = {n: v.encode().decode("latin-1") for n, v in headers.items()}
    for path in ("/api/call", "/api/cancel"):
        given, body, answered = request(served, "POST", path, {"id": "x"}, **headers)
        assert given == status and "class" in json.loads(body)["error"]
        assert "access-control-allow-origin" not in {name.lower() for name in answered}


def test_requests_are_bounded(served: Served) -> None:
    for body, status in ((b"{", 400), (b"[]", 400), (b"{}", 400), (b"[" * 100_000, 400)):
        assert request(served, "POST", "/api/call", body)[0] == status
    large = b'{"id": "1", "x": "' + b"x" * server.MAX_REQUEST + b'"}'
    assert request(served, "POST", "/api/call", large)[0] == 413
    assert request(served, "GET", "/api/call")[0] == 404


def test_files_of_the_page_and_no_others(served: Served) -> None:
    status, body, headers = request(served, "GET", "/", Authorization="")
    assert (status, body) == (200, b"<h1>page</h1>")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "'unsafe-eval'" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert request(served, "GET", "/assets/page.js")[2]["Content-Type"].startswith("text/java")
    for path in (
        *("/notes.txt", "/link.html", "/../secret.html", "/assets/../../secret.html"),
        *("/%2e%2e/secret.html", "/..%2fsecret.html", "//etc/passwd", "/assets", "/assets/"),
    ):
        assert request(served, "GET", path)[0] == 404, path
    assert request(served, "GET", "/", Host="evil.example")[0] == 403
    assert "token" not in body.decode()


def test_a_long_call_is_cancelled_and_the_rest_goes_on(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    message = {"id": "long", "method": "run", "params": {"source": "numbers", "query": ENDLESS}}
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    connection.request("POST", "/api/call", json.dumps(message), headers)
    answer = connection.getresponse()
    while "progress" not in (line := json.loads(answer.readline())):
        pass
    assert line["id"] == "long"
    assert request(served, "POST", "/api/cancel", {"id": "long"})[0] == 204
    *_, last = [json.loads(line) for line in answer.read().splitlines()]
    assert last["error"]["class"] == "Cancelled"
    again = call(served, "after", "run", source="numbers", query=QUERY)[-1]
    assert again["result"]["matches"] > 0
    assert request(served, "POST", "/api/cancel", {"id": "never"})[0] == 204


def test_a_call_that_is_ended_takes_no_other_with_it(served: Served) -> None:
    answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
    waits = served._desk
    for round in range(3):  # more often than a call is asked again of a process that died
        params = {"source": "numbers", "query": ENDLESS}
        waits.take({"id": f"long {round}", "method": "run", "params": params}, answers.put)
        while "progress" not in answers.get():
            pass
        if not round:
            options = {**ENDLESS["options"], "within": "3990"}
            params = {"source": "numbers", "query": {**ENDLESS, "options": options}}
            waits.take({"id": "other", "method": "run", "params": params}, answers.put)
        waits.cancel(f"long {round}")
        while "error" not in (answer := answers.get()):
            pass
        assert (answer["id"], answer["error"]["class"]) == (f"long {round}", "Cancelled")
    assert "other" in waits._calls
    waits.cancel("other")
    assert call(served, "last", "run", source="numbers", query=QUERY)[-1]["result"]["matches"] > 0


def test_a_process_that_dies_is_replaced(served: Served) -> None:
    running = served._desk._process
    assert running is not None
    running.kill()
    assert call(served, "next", "run", source="numbers", query=QUERY)[-1]["result"]["matches"] > 0


def test_a_call_that_nobody_waits_for_may_compile_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # as on a fresh machine
    answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
    waits = desk.Desk({"numbers": TABLE})
    try:
        params = {"source": "numbers", "query": QUERY}
        waits.take({"id": "1", "method": "run", "params": params}, answers.put)
        while "compiling" not in str(answer := answers.get()):
            assert "progress" in answer
        process = waits._process
        waits.cancel("1", desk.GRACE + 0.1)
        while "progress" in (answer := answers.get()):
            pass
        # It ended by itself, and what it compiled is there for the next call.
        assert answer["error"]["class"] == "Cancelled" or "result" in answer
        assert waits._process is process and process is not None and process.poll() is None
    finally:
        waits.close()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(desk.MEMORY_SETTING, "1")
    answers: list[dict[str, Any]] = []
    waits = desk.Desk({"numbers": TABLE})
    try:
        waits.take({"id": "1", "method": "run", "params": {"source": "numbers"}}, answers.append)
        waits.take({"id": 7}, answers.append)
        deadline = time.monotonic() + 120
        while len(answers) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        waits.close()
    told = {a["id"]: a["error"] for a in answers}
    assert told[None]["class"] == "QueryError" and TOO_MUCH_MEMORY
    assert told["1"]["class"] == "LimitError" and desk.MEMORY_SETTING in told["1"]["remedy"]


def test_without_the_page_it_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "PAGE", tmp_path)
    with pytest.raises(ensue.errors.MissingPageError, match="studio-build"):
        server.built_page()
    with pytest.raises(ensue.errors.MissingPageError):
        ensue.pattern("A").studio(TABLE)


def test_two_studios_have_ports_and_tokens_of_their_own(page: Path) -> None:
    with serve(port=server.PORT, page=page) as one, serve(page=page) as other:
        assert one.port != other.port and one.token != other.token
        assert (
            request(other, "POST", "/api/call", {"id": "1"}, Authorization=f"Bearer {one.token}")[0]
            == 401
        )
        with pytest.raises(ensue.errors.UnsupportedError, match="taken"):
            serve(port=other.port + 0 if other.port != server.PORT else one.port, page=page)

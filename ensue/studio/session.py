"""What the studio answers, whoever carries the question: a message in, a result out.

A session knows sources and keeps what it computed of the last queries, by content: every call says
which source and which query it is about, so a page that comes back asks again and is answered. No
web here, and no state that a killed process would lose.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ensue
from ensue import errors
from ensue.progress import listening
from ensue.query.binding import bind
from ensue.studio import compared, details, found, lanes, verdicts
from ensue.studio.answer import Answer
from ensue.studio.arranged import Arranged, arranged
from ensue.studio.complete import FUNCTIONS, complete
from ensue.studio.link import copied, shared
from ensue.studio.on_spark import answer_of
from ensue.studio.parse import parsed
from ensue.studio.reading import read
from ensue.studio.sources import (
    Source,
    columns_of,
    first_query,
    sample_sources,
    source_of,
    suggested,
)
from ensue.studio.texts import LANGUAGES, TextError, Typed, place, spot_of

PROTOCOL = 1
KEPT = 6  # answers, and as many arrangements
Tell = Callable[[int, int | None, str], None]
Params = Mapping[str, Any]


class CancelledError(Exception):
    """The call was ended by the one who asked."""


def quiet(done: int, total: int | None, text: str) -> None:
    """Nobody looks."""


class Session:
    """Sources, and answers about them. Calls may come from several threads."""

    def __init__(
        self,
        sources: Mapping[str, Any] | None = None,
        query: Typed | None = None,
        source: str | None = None,
    ) -> None:
        given = {name: source_of(name, data) for name, data in (sources or {}).items()}
        self._sources = given | sample_sources() | given
        self._query = query
        self._source = source or next(iter(given), None)
        self._lock = threading.RLock()
        self._turns: dict[Any, threading.RLock] = {}
        self._answers: OrderedDict[Any, Answer] = OrderedDict()
        self._arranged: OrderedDict[Any, Arranged] = OrderedDict()
        self._methods: dict[str, Callable[[Params], Any]] = {
            "hello": self._hello,
            "open": self._open,
            "read": self._read,
            "complete": self._complete,
            "copy": self._copy,
            "unshare": lambda p: shared(str(p.get("text", "")), self._sources),
            "run": lambda p: found.run(self.answer(p), _count(p, "limit", 100)),
            "keys": lambda p: found.keys(self.answer(p), p),
            "lanes": self._lanes,
            "row": lambda p: details.row(self.answer(p), p.get("key"), p.get("row")),
            "match": lambda p: details.match(self.answer(p), p.get("key"), p.get("number")),
            "why": lambda p: verdicts.why(self.answer(p), p),
            "funnel": lambda p: verdicts.funnel(self.answer(p)),
            "nearest": lambda p: verdicts.nearest(self.answer(p), _count(p, "n", 20)),
            "trace": lambda p: verdicts.trace(self.answer(p), p),
            "expected": lambda p: verdicts.expected(self.answer(p), p.get("key"), p.get("rows")),
            "compare": self._compare,
            "cost": lambda p: compared.cost(self.answer(p), p.get("budget"), self._tell),
        }
        self._local = threading.local()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self._methods)

    @property
    def sources(self) -> Mapping[str, Source]:
        return self._sources

    def call(self, method: str, params: Any, tell: Tell = quiet) -> Any:
        """The result of one call; mistakes are errors of the library or a TextError."""
        found = self._methods.get(method)
        if found is None:
            raise errors.QueryError(
                f"there is no method {method!r}", remedy="use one of " + ", ".join(self._methods)
            )
        if not isinstance(params, dict):
            raise errors.QueryError("params is not an object", remedy='give {"params": {...}}')
        self._local.tell = tell
        with listening(tell):
            return found(params)

    def _tell(self, done: int, total: int | None, text: str) -> None:
        getattr(self._local, "tell", quiet)(done, total, text)

    # -- what is there ---------------------------------------------------------------------------

    def _hello(self, _: Params) -> dict[str, Any]:
        return {
            "version": ensue.__version__,
            "protocol": PROTOCOL,
            "languages": [
                {"id": name, "name": text, "example": EXAMPLES[name].message()}
                for name, text in LANGUAGES.items()
            ],
            "sources": [source.about() for source in self._sources.values()],
            "query": None if self._query is None else self._query.message(),
            "source": self._source,
            "settings": {
                "max_lanes": lanes.MAX_LANES,
                "max_rows": lanes.MAX_ROWS,
                "max_matches": lanes.MAX_MATCHES,
                "page": found.MAX_PAGE,
            },
            "functions": FUNCTIONS,
            "streams": True,
        }

    def source(self, params: Params) -> Source:
        name = params.get("source")
        if name not in self._sources:
            raise errors.UnsupportedInputError(
                f"there is no source {name!r}",
                remedy="choose one of " + ", ".join(self._sources),
            )
        return self._sources[name]

    def _open(self, params: Params) -> dict[str, Any]:
        source = self.source(params)
        self._tell(0, None, f"reading {source.name}")
        table = source.table
        notes = list(source.notes)
        guess = suggested(table)
        if not table.num_rows:
            notes.append("the table is empty: patterns are read, and nothing can match")
        if not guess["order_by"]:
            notes.append("no column looks like time: rows are taken in the order of the table")
        questions = [
            {"title": q.title, "text": q.text, "query": q.query.message()} for q in source.questions
        ] or [{"title": "A start", "text": "", "query": first_query(table).message()}]
        return {
            "source": source.id,
            "name": source.name,
            "rows": None if source.kind == "spark" else table.num_rows,
            "columns": columns_of(table.schema),
            "suggested": guess,
            "queries": questions,
            "sampled": source.sampled,
            "notes": notes,
        }

    # -- what is typed ---------------------------------------------------------------------------

    def _read(self, params: Params) -> dict[str, Any]:
        typed = Typed.of(params.get("query"))
        schema = self.source(params).schema if params.get("source") else None
        with placed(typed):
            return parsed(typed, schema)

    def _complete(self, params: Params) -> dict[str, Any]:
        typed = Typed.of(params.get("query"))
        schema = self.source(params).schema if params.get("source") else None
        return complete(
            typed, str(params.get("field", "text")), _count(params, "offset", 0), schema
        )

    def _copy(self, params: Params) -> dict[str, Any]:
        typed = Typed.of(params.get("query"))
        with placed(typed):
            answer = (lambda: self.answer(params)) if params.get("as") == "feed" else None
            return {"text": copied(typed, self.source(params), str(params.get("as")), answer)}

    # -- what is found ---------------------------------------------------------------------------

    def answer(self, params: Params, query: str = "query") -> Answer:
        """The answer of the source and query of a call, kept from before where it was asked."""
        typed = Typed.of(params.get(query))
        source = self.source(params)
        name = (source.id, typed.key)
        with self._lock:
            turn = self._turns.setdefault(name, threading.RLock())
        with turn:
            with self._lock:
                if name in self._answers:
                    self._answers.move_to_end(name)
                    return self._answers[name]
            with placed(typed):
                self._tell(0, None, f"reading {source.name}")
                found = self._answered(source, typed)
                self._tell(0, found.table.num_rows, "matching")
                _ = found.listing
            with self._lock:
                _keep(self._answers, name, found)
            return found

    def _answered(self, source: Source, typed: Typed) -> Answer:
        pattern = read(typed)
        if source.kind == "spark":
            return answer_of(pattern, source.given)
        table = source.table
        query = bind(pattern.query, table.column_names)
        name = (source.id, query.partition_by, query.order_by)
        with self._lock:
            rows = self._arranged.get(name)
            if rows is None:
                rows = arranged(query, table)
                _keep(self._arranged, name, rows)
        return Answer(pattern, table, rows)

    def _lanes(self, params: Params) -> dict[str, Any]:
        keys = params.get("keys", [])
        if not isinstance(keys, list):
            raise errors.QueryError("keys is not a list", remedy="give the numbers of keys")
        begin, end = params.get("from"), params.get("to")
        return lanes.lanes(self.answer(params), keys, begin, end, _count(params, "width", 1_000))

    def _compare(self, params: Params) -> dict[str, Any]:
        one, other = self.answer(params, "a"), self.answer(params, "b")
        return compared.compare(one, other, _count(params, "limit", 100))


@contextmanager
def placed(typed: Typed) -> Iterator[None]:
    """Errors that come out are about what was typed, and say where."""
    try:
        yield
    except errors.EnsueError as problem:
        raise PlacedError(problem, place(spot_of(problem, typed), typed)) from None
    except TextError as problem:
        raise PlacedError(problem.problem, place(problem.spot, typed)) from None


class PlacedError(Exception):
    """An error with the place that a message gives it."""

    def __init__(self, problem: errors.EnsueError, where: dict[str, Any] | None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.place = where


def error_message(problem: BaseException) -> dict[str, Any]:
    """What a page learns of what was raised."""
    where = None
    if isinstance(problem, PlacedError):
        problem, where = problem.problem, problem.place
    if isinstance(problem, errors.EnsueError):
        name, said, remedy = type(problem).__name__, problem.problem, problem.remedy
    elif isinstance(problem, CancelledError):
        name, said, remedy = "Cancelled", "the call was cancelled", ""
    elif isinstance(problem, MemoryError):
        name, said = "LimitError", "the answer does not fit into memory"
        remedy = "bound the pattern with within, or look at fewer rows"
    else:
        name, said = "Internal", f"{type(problem).__name__}: {problem}"[:2_000]
        remedy = "please report this with the pattern"
    return {"class": name, "message": said, "remedy": remedy, "place": where}


def _count(params: Params, name: str, default: int) -> int:
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise errors.QueryError(f"{name} is {value!r}, where a number of 0 or more is needed")
    return int(value)


def _keep(kept: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    kept[name] = value
    while len(kept) > KEPT:
        kept.popitem(last=False)


EXAMPLES = {
    "pattern": Typed(
        "pattern",
        "view -> cart+ -> pay",
        {"types": "kind", "partition_by": "user_id", "order_by": "ts", "within": "1 hour"},
    ),
    "sql": Typed(
        "sql",
        "SELECT * FROM events MATCH_RECOGNIZE (\n  PARTITION BY symbol\n  ORDER BY ts\n"
        "  MEASURES LAST(B.price) AS bottom\n  ONE ROW PER MATCH\n"
        "  AFTER MATCH SKIP PAST LAST ROW\n  PATTERN (A B+ C+)\n"
        "  DEFINE B AS price < PREV(price), C AS price > PREV(price)\n)",
    ),
    "python": Typed(
        "python",
        'q = (\n    ensue.pattern("view -> cart+ -> pay", types="kind")\n'
        '    .partition_by("user_id")\n    .order_by("ts")\n    .within("1 hour")\n)\n',
    ),
    "sase": Typed(
        "sase",
        "SEQ(view a, cart+ b[], pay c)\nWHERE [user_id] AND c.amount > 50\nWITHIN 1 hour\n",
        {"types": "kind", "order_by": "ts"},
    ),
}

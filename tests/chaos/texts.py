"""Texts for every parser, bent out of shape: only Ensue's errors may come out.

A text is a valid one, cut into tokens, and changed some times: tokens go, come twice, change places
with those of the parser's other texts, nest, or become extremes. So what comes is nearly right,
which is where parsers break.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import ensue
from ensue import errors, quantify
from ensue.api.automaton_text import read_edit, register_fields
from ensue.front.sql import read_order, read_query
from ensue.front.statement import DIALECTS
from ensue.operator.budget import read_bound
from ensue.query import stored
from ensue.query.duration import parse_duration
from ensue.query.timeout import seconds_of

TABLE = pa.table(
    {"t": range(4), "x": [1, None, 3, 0], "s": ["a", "b", None, "%"], "k": list("ABAB")}
)
EDGES = pa.table({"subject": ["a", "b"], "relation": ["r", "q"], "object": ["b", "a"]})
GRAPH = ensue.graph(EDGES)
FIELDS = register_fields({"n": "bigint"}, {})
_TOKEN = re.compile(r"\s+|\w+|'[^']*'|.", re.DOTALL)
EXTREMES = (
    *("", "0", "-1", "99999999999999999999", "1e999", "NaN", "''", "'", '"', "`", "\\", "\0"),
    *("(", ")", "{", "}", "[", "]", "{0}", "{,}", "{2,1}", "{99999999999}", "*", "+?", "??", "|"),
    *("&", "!", "^", "->", "->>", "$", ";", "--", "/*", "*/", "::", "@", "é", "\u202e", "😀"),
    *("\ud800", "NULL", "PREV(", "CAST(x AS ", "LAST(", "COUNT(*)", "x.x.x", "A.*", "OVER ()"),
    *("(SELECT 1)", "INTERVAL '1'", "1 year", ",", ", ,"),
)


@dataclass(frozen=True)
class Parser:
    name: str
    texts: Sequence[str]
    read: Callable[[str], Any]


def _condition(text: str) -> Any:
    return ensue.pattern("A B+").define(B=text).order_by("t").count(TABLE)


def _measure(text: str) -> Any:
    return ensue.pattern("A B+").order_by("t").measures(m=text).matches(TABLE)


def _path(text: str) -> Any:
    return GRAPH.paths(text, max_hops=3, limit=3)


def _pattern(text: str) -> Any:
    return ensue.pattern(text, types="k").order_by("t").query.variables


CLAUSE = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES LAST(b.x) AS m, "
    "COUNT(*) AS n ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b+ c?) "
    "SUBSET u = (a, b) DEFINE b AS x > PREV(x), c AS x IS NULL)"
)
ORDER = stored.to_json(ensue.pattern("A -> B+", types="k").define(B="x > 1").order_by("t").query)
CONDITIONS = (
    "x > PREV(x) AND s LIKE 'a%' OR NOT x IN (1, 2)",
    "SUM(B.x) < LAST(A.x, 1) + 2",
    "CASE WHEN s RLIKE '^a' THEN x ELSE -x END BETWEEN 0 AND 1.5e1",
    "s = concat('a', CAST(x AS STRING))",
)
FUNCTIONS = (
    "substring(s, 1, 2) = 'a'",
    "round(x / 3, 2) > 0",
    "date_add(DATE'2020-01-31', x) > DATE'2020-02-01'",
    "regexp_replace(s, 'a(b)?', '$1') = ''",
    "lpad(s, 3, 'xy') = upper(s)",
    "split(s, ',')[0] = 'a'",
    "coalesce(nullif(x, 3), greatest(x, 2)) = 2",
    "date_format(TIMESTAMP'2020-01-01', 'yyyy') = s",
    "try_cast(s AS DECIMAL(10, 2)) IS NULL",
    "element_at(array(x, 1), -1) = 1",
)
MEASURES = ("FIRST(A.x) + COUNT(B.*)", "COLLECT_LIST(B.s)", "AVG(x)", "CLASSIFIER()")
SASE = (
    "SEQ(A a, B+ b[], !C c, D d) WHERE [id] AND a.x < b[i].x AND sum(b[..].x) < d.x "
    "STRATEGY next WITHIN 10 minutes RETURN a.x AS first, count(b[]) AS n",
    "SEQ(A a, B+ b[]) WHERE b[i].x > b[i-1].x AND b[1].x = 2 WITHIN 9 seconds",
)
PATTERNS = (
    "A B+ (C | D){2,3}?",
    "A -> !X -> B+ ->> (C | D)?",
    "^ A*? PERMUTE(B, C) {- D -} $",
)
DURATIONS = ("1 hour", "90 s", "1 day 2 hours 3 ms", "0.5 us", "INTERVAL '1:02' HOUR TO MINUTE")
ROWS = CLAUSE.replace("ONE ROW", "ALL ROWS").replace("t MATCH", "t AS q MATCH")


def _budget(text: str) -> Any:
    return read_bound("memory" if "B" in text else "latency", text)


STATEMENTS = (
    f"WITH m AS ({CLAUSE}) SELECT k, count(*) FROM m JOIN t USING (k) GROUP BY k HAVING max(n) > 1",
    f"{CLAUSE} WHERE n > 1 ORDER BY m LIMIT 3",
    "SELECT x, LAST(A.x) OVER w AS m FROM t WINDOW w AS (PARTITION BY k ORDER BY t ROWS BETWEEN "
    "CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS x > A.x)",
)
PREDICATES = ("x > 0 AND s LIKE 'a%'", "x IN (1, 3) OR k = 'A'", "NOT x BETWEEN 1 AND 2")
WEIGHTS = ("x * 2 + 1", "CASE WHEN x > 1 THEN x ELSE 0 END", "abs(x - 3)", "least(x, t)")
ARCS = ("x > n", "k = 'A' AND n IS NULL", "s LIKE 'a%' OR x = n + 1")
EDIT = (
    '{"ensue arcs": 1, "add": {"e": {"source": "p", "target": "q", "when": "x > n"}}, "remove": []}'
)


def _sql(text: str) -> Any:
    return ensue.sql(text, t=TABLE, timeout=60)


def _dialect(text: str) -> Any:
    return ensue.explain(text, dialect=DIALECTS[len(text) % len(DIALECTS)])


def _fenced(text: str) -> Any:
    return ensue.sql(text, t=TABLE, trust="pattern", timeout=60)


def _arc(text: str) -> Any:
    machine = ensue.Automaton({"n": "bigint"}, order_by="t").arc("p", "q", when="x > 0")
    return machine.arc("q", "f", when=text, set={"n": "x"}).final("f").matches(TABLE)


def _register(text: str) -> Any:
    machine = ensue.Automaton({"n": "bigint"}, order_by="t").arc("p", "q", set={"n": text})
    return machine.arc("q", "f", when="x > n").final("f").matches(TABLE)


def _candidate(text: str) -> Any:
    asked = ensue.Question("who made [a]", "a", [text])
    return GRAPH.retrieve(asked, max_hops=3, unknown="error")


PARSERS = (
    Parser("a pattern", PATTERNS, _pattern),
    Parser("SASE", SASE, ensue.sase),
    Parser("SQL", (CLAUSE, ROWS), read_query),
    Parser("an order in SQL", (CLAUSE,), read_order),
    Parser("an order in JSON", (ORDER,), stored.from_json),
    Parser("a path", ("r/^q", "(r|q)+/r{1,3}", "r[x > 1]/!q?", "_*"), _path),
    Parser("a condition", CONDITIONS, _condition),
    Parser("a measure", MEASURES, _measure),
    Parser("a function", FUNCTIONS, _condition),
    Parser("a duration", DURATIONS, parse_duration),
    Parser("a timeout", ("30 s", "1.5 minutes"), seconds_of),
    Parser("a budget", ("50 ms", "50%", "256 MB", "0.5 us"), _budget),
    Parser("a statement", STATEMENTS, _sql),
    Parser("a fenced statement", (CLAUSE, *STATEMENTS[1:]), _fenced),
    Parser("a dialect", STATEMENTS, _dialect),
    Parser("a predicate", PREDICATES, lambda text: quantify.event(text, "x").stream(TABLE)),
    Parser("a weight", WEIGHTS, lambda text: quantify.event("x > 0", text).stream(TABLE)),
    Parser("an arc", ARCS, _arc),
    Parser("a register", ("x + 1", "n + x", "coalesce(n, 0) + 1"), _register),
    Parser("an edit of arcs", (EDIT,), lambda text: read_edit(text, FIELDS)),
    Parser("a candidate", ("r/^q", "(r|q)+/r{1,3}", "_*"), _candidate),
)


def bent(chooser: random.Random, texts: Sequence[str]) -> str:
    """One of the texts, changed."""
    tokens = _TOKEN.findall(chooser.choice(texts))
    for _ in range(chooser.choice((0, 1, 1, 2, 3, 6))):
        if not tokens:
            break
        at = chooser.randrange(len(tokens))
        end = min(len(tokens), at + chooser.choice((1, 1, 2, 5)))
        change = chooser.randrange(7)
        if change == 0:
            del tokens[at:end]
        elif change == 1:
            tokens[at:at] = tokens[at:end] * chooser.choice((1, 2, 40))
        elif change == 2:
            tokens[at] = chooser.choice(EXTREMES)
        elif change == 3:
            tokens.insert(at, chooser.choice(EXTREMES))
        elif change == 4:
            other = _TOKEN.findall(chooser.choice(texts))
            begin = chooser.randrange(len(other))
            tokens[at:end] = other[begin : begin + chooser.choice((1, 3, 8))]
        elif change == 5:
            depth = chooser.choice((1, 3, 60, 1_100))
            tokens[at:end] = [
                "(" * depth,
                *tokens[at:end],
                ")" * chooser.choice((depth, depth - 1)),
            ]
        else:
            place = chooser.randrange(len(tokens[at]) + 1)
            tokens[at] = tokens[at][:place] + chr(chooser.randrange(32, 0x250)) + tokens[at][place:]
    return "".join(tokens)


def refused(parser: Parser, text: str) -> bool:
    """Whether the parser refuses the text; what is raised besides is a finding."""
    try:
        parser.read(text)
    except errors.EnsueError:
        return True
    return False

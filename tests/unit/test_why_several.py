"""Why of workloads and of SQL is that of each pattern."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ensue
from ensue import errors

TABLE = pa.table(
    {
        "user": [user for user in "pqr" for _ in range(6)],
        "ts": [*range(6)] * 3,
        "kind": list("abbcab" + "aabcbc" + "cccaab"),
    }
)
ROWS = ensue.pattern("a b+ c c", types="kind").partition_by("user").order_by("ts")
EVENTS = ensue.pattern("a -> b ->> c -> a", types="kind").partition_by("user").order_by("ts")


def test_a_workload_answers_for_each_pattern() -> None:
    work = ensue.workload(rows=ROWS, events=EVENTS)
    for verb, more in (("why", ("start",)), ("funnel_of_attempts", ()), ("nearest", (2,))):
        found = getattr(work, verb)(TABLE, *more).to_pylist()
        alone = [
            {"pattern": name, **row}
            for name, pattern in work.patterns.items()
            for row in getattr(pattern, verb)(TABLE, *more).to_pylist()
        ]
        assert found == alone
    assert work.trace(TABLE, "rows", "p") == ROWS.trace(TABLE, "p")
    with pytest.raises(errors.QueryError, match="patterns are: rows, events"):
        work.trace(TABLE, "other", "p")


CLAUSE = """MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES {measures} ONE ROW PER MATCH
  PATTERN ({pattern}) DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c')"""


def test_sql() -> None:
    inner = CLAUSE.format(pattern="A B+ C", measures="A.ts AS ts, 'b' AS kind")
    text = f"SELECT user FROM t {inner}"
    (asked,) = ensue.sql([text], why=True, t=TABLE)
    same = ensue.pattern("A B+ C").define(**{n: f"kind = '{n.lower()}'" for n in "ABC"})
    assert asked == same.partition_by("user").order_by("ts").why(TABLE)
    outer = """MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES B.ts AS t ONE ROW PER MATCH
      PATTERN (B B) DEFINE B AS kind = 'b')"""
    both = ensue.sql(
        f"SELECT * FROM (SELECT * FROM t {inner} AS m) {outer} AS n", why=True, t=TABLE
    )
    assert both["pattern"].unique().to_pylist() == ["1: A B+ C", "2: B B"]
    told = both.filter(pc.equal(both["pattern"], "2: B B"))
    assert set(told["reason"].to_pylist()) == {"end"}
    with pytest.raises(errors.QueryError, match="nothing to explain"):
        ensue.sql("SELECT 1 AS x FROM t", why=True, t=TABLE)
    with pytest.raises(errors.UnsupportedError, match="never tried"):
        ensue.sql(text, why=True, budget=ensue.Budget(work=1), t=TABLE)

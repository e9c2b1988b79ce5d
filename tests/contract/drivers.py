"""How each family of operators is driven, and how its answer is read.

All of them are given one small table. A driver says how a new operator is made, how it is given
rows and time, how it is ended, saved and loaded, and how its answer is read: `read` gives all that
was put out, `shown` what the definition (`wanted`, brute force over the rows) speaks of.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from ensue.automaton.plan import atom_name, plan
from ensue.automaton.share import unite
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.cleanse import Cleanse, Released
from ensue.operator.identity import row_hashes
from ensue.operator.protocol import Events, Snapshot, Watermark
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import OrderKey
from ensue.run import local
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import Work
from ensue.sequences.pieces import TotalsInPieces
from ensue.sequences.totals import Finish, Grouping
from ensue.shared.row_turns import ROW
from tests.contract.definitions import (
    PAIR,
    ROWS,
    WITHIN,
    Row,
    both,
    micros,
    moment,
    span,
    themselves,
    totals,
)
from tests.lanes import streams

Found = list[pa.Table]
Saved = bytes | Snapshot


class Driver(ABC):
    """See the module. The flags say which laws a family is held to."""

    ends = True  # `end` completes all partitions
    forgets = True  # and nothing of them is held then
    begins_again = True  # a key that comes again starts afresh
    copies = False  # `copy` gives another that goes on
    any_order = False
    retracts = False
    declares = True  # its capabilities, and refuses what is not among them

    def __init__(self, wanted: Callable[[pa.Table], list[Row]]) -> None:
        self.wanted = wanted

    @abstractmethod
    def make(self) -> Any: ...

    @abstractmethod
    def feed(self, held: Any, rows: pa.Table) -> Found: ...

    def mark(self, held: Any, second: int) -> Found:
        """No row before that second will come."""
        return []

    @abstractmethod
    def end(self, held: Any) -> Found: ...

    def retract(self, held: Any, rows: pa.Table) -> Found:
        return list(held.retract(rows))

    @abstractmethod
    def save(self, held: Any) -> Saved: ...

    @abstractmethod
    def load(self, saved: Any) -> Any: ...

    def read(self, held: Any, found: Found) -> list[Row]:
        return [row for part in found for row in part.to_pylist()]

    def shown(self, row: Row) -> Row:
        return span(row)

    def size(self, held: Any) -> Mapping[str, float]:
        """What it reports to hold: nothing of it is left when all is complete."""
        return {"nbytes": held.nbytes}

    def counted(self, held: Any) -> Mapping[str, int]:
        """What it reports to have seen: `rows`, and `matches` where it counts them."""
        return {"rows": held.metrics.rows, "matches": held.metrics.matches}


class Evaluates(Driver):
    """Evaluators of the operator protocol: ordered rows, partition after partition."""

    def __init__(
        self,
        make: Callable[[], Any],
        pattern: Any,
        wanted: Callable[[pa.Table], list[Row]],
        budget: ensue.Budget | None = None,
        together: bool = False,
        numbered: bool = False,
    ) -> None:
        super().__init__(wanted)
        self._make, self._budget = make, budget
        self._together, self._numbered = together, numbered
        self.copies = hasattr(make(), "copy")
        self._query = rules.check(bind(pattern.query, ROWS.column_names))
        self._plan = plan(self._query)
        self._schema = self._prepared(ROWS.slice(0, 0)).schema

    def _prepared(self, rows: pa.Table) -> pa.Table:
        ready = local.prepare(self._plan, rows)
        if self._numbered:  # by the row's place in the whole table
            ready = ready.append_column(ROW, rows["x"])
        return ready

    def _events(self, rows: pa.Table) -> Events:
        ready, starts = arrange(
            self._prepared(rows), self._query.partition_by, self._query.order_by
        )
        return Events(ready, starts, np.zeros(len(starts) - 1, np.bool_))

    def make(self) -> Any:
        return self.load(None)

    def load(self, saved: Any) -> Any:
        evaluator = self._make()
        evaluator.open(self._plan, self._schema, self._budget, saved)
        return evaluator

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return list(held.insert(self._events(rows)).tables())

    def mark(self, held: Any, second: int) -> Found:
        return list(held.advance(Watermark(micros(second))).tables())

    def retract(self, held: Any, rows: pa.Table) -> Found:
        return list(held.retract(self._events(rows)).tables())

    def end(self, held: Any) -> Found:
        return list(held.end().tables())

    def save(self, held: Any) -> Saved:
        saved = held.snapshot_together() if self._together else held.snapshot()
        assert isinstance(saved, Snapshot)
        return saved

    def read(self, held: Any, found: Found) -> list[Row]:
        return super().read(held, [local.finish(self._plan, part) for part in found])


class Shares(Evaluates):
    """A workload as one: two windows of one pattern."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__(lambda: None, PAIR, both)
        short = PAIR.within("4 seconds")
        named = {"short": short, "pair": PAIR}
        queries = {n: rules.check(bind(p.query, ROWS.column_names)) for n, p in named.items()}
        self._union = unite(queries)
        self._plan = self._union.plan
        self._make = lambda: make(self._union)
        self.copies = hasattr(make, "copy")
        self._schema = self._prepared(ROWS.slice(0, 0)).schema

    def read(self, held: Any, found: Found) -> list[Row]:
        return Driver.read(self, held, found)

    def shown(self, row: Row) -> Row:
        return {**span(row), "pattern": row["pattern"]}


class Adds(Evaluates):
    """Totals in pieces: partials that are added up at the end."""

    def __init__(self, pattern: Any, far: bool = False) -> None:
        asked = pattern.measures(n="count(*)", s="sum(B.x)")
        within = math.inf if far else WITHIN
        super().__init__(lambda: None, asked, lambda rows: totals(rows, within))
        self._grouping = Grouping(("k",))
        self.copies = True

    def load(self, saved: Any) -> Any:
        return TotalsInPieces(self._plan, self._schema, self._grouping, saved)

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return [held.insert(self._events(rows))]

    def mark(self, held: Any, second: int) -> Found:
        return [held.advance(Watermark(micros(second)))]

    def end(self, held: Any) -> Found:
        return [held.end()]

    def read(self, held: Any, found: Found) -> list[Row]:
        return list(Finish(self._plan, self._grouping, self._schema).table(found).to_pylist())

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": int(row[atom_name(0)]), "s": int(row[atom_name(1)])}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {}


class Totals(Evaluates):
    """Totals per group: all of them final when everything has ended."""

    def __init__(self, make: Callable[[], Any], pattern: Any, together: bool = False) -> None:
        asked = pattern.measures(n="count(*)", s="sum(B.x)")
        super().__init__(make, asked, totals, together=together)

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": int(row["n"]), "s": int(row["s"])}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {"rows": held.metrics.rows}


class Keyed(Totals):
    """A summary as lanes drive it: rows with all their columns, an answer per key."""

    def __init__(self, make: Callable[[], Any], wanted: Callable[[pa.Table], list[Row]]) -> None:
        super().__init__(make, PAIR)
        self.wanted = wanted

    def _prepared(self, rows: pa.Table) -> pa.Table:
        return rows

    def read(self, held: Any, found: Found) -> list[Row]:
        return Driver.read(self, held, found)

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": int(row["count"]), "s": int(row["sum"] or 0)}


def as_lanes_get_them(rows: pa.Table) -> pa.Table:
    """With the hidden columns of a stream, where no plan prepares the rows."""
    content = pa.array(row_hashes(rows, rows.column_names).view(np.int64))
    keys = pa.array(row_hashes(rows, ["k"]).view(np.int64))
    return rows.append_column(CONTENT, content).append_column(KEY, keys)


class Staged(Driver):
    """Stages of a lane: rows of any keys, later than all before."""

    declares = False  # the lane corrects rows before its stage sees them

    def __init__(
        self,
        build: Callable[[], tuple[Work, Callable[[pa.Table], pa.Table]]],
        wanted: Callable[[pa.Table], list[Row]],
        shown: Callable[[Row], Row] = span,
    ) -> None:
        super().__init__(wanted)
        self._build, self._shown = build, shown
        self.copies = True

    @cached_property
    def _built(self) -> tuple[Work, Callable[[pa.Table], pa.Table]]:
        """The work, and how rows are prepared; built by a test, since it compiles kernels."""
        return self._build()

    def make(self) -> Any:
        return self._built[0].stage(0)

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return list(held.insert(self._built[1](rows)))

    def mark(self, held: Any, second: int) -> Found:
        return list(held.advance(micros(second)))

    def end(self, held: Any) -> Found:
        return list(held.end())

    def save(self, held: Any) -> Saved:
        saved = held.save()
        assert isinstance(saved, bytes)
        return saved

    def load(self, saved: Any) -> Any:
        made = self.make()
        made.load(saved)
        return made

    def shown(self, row: Row) -> Row:
        return self._shown(row)

    def size(self, held: Any) -> Mapping[str, float]:
        assert all(size > 0 for size in held.sizes().values())
        return {"keys": held.keys, "partials": held.partials, "rows": sum(held.sizes().values())}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {}


class InLane(Staged):
    """A lane with its stage: rows wait for the watermark."""

    begins_again = False  # what comes after the end of a stream is late

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.copies = False

    def make(self) -> Any:
        return Lane(self._built[0], 0)

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return list(held.step([self._built[1](rows)], None))

    def mark(self, held: Any, second: int) -> Found:
        return list(held.step([], micros(second)))

    def end(self, held: Any) -> Found:
        return list(held.step([], held._given, (streams.CLOSE,)))

    def save(self, held: Any) -> Saved:
        saved = held.save(always=True)
        assert isinstance(saved, bytes)
        return saved

    def size(self, held: Any) -> Mapping[str, float]:
        counts = held.counts
        return {"keys": counts.keys, "partials": counts.partials, "pending": counts.pending}


class Answers(Driver):
    """Operators that users hold; `q.matcher()` and the automaton by hand put out changes."""

    any_order = True
    retracts = True

    def __init__(
        self,
        make: Callable[[], Any],
        load: Callable[[bytes], Any],
        wanted: Callable[[pa.Table], list[Row]],
    ) -> None:
        super().__init__(wanted)
        self._make, self._load = make, load

    def make(self) -> Any:
        return self._make()

    def load(self, saved: Any) -> Any:
        return self._load(saved)

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return [held.insert(rows)]

    def mark(self, held: Any, second: int) -> Found:
        return [held.advance(moment(second))]

    def retract(self, held: Any, rows: pa.Table) -> Found:
        return [held.retract(rows)]

    def end(self, held: Any) -> Found:
        return [held.end()]

    def save(self, held: Any) -> Saved:
        saved = held.snapshot()
        assert isinstance(saved, bytes | Snapshot)
        return saved

    def read(self, held: Any, found: Found) -> list[Row]:
        return streams.net(found)

    def size(self, held: Any) -> Mapping[str, float]:
        return {"nbytes": held.nbytes}


class Sums(Answers):
    """A matcher of totals: its changes are those of the groups."""

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": int(row["n"]), "s": int(row["s"])}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {"rows": held.metrics.rows}


class Summarizes(Answers):
    """A summary answers when asked, and is never complete."""

    any_order = retracts = ends = False

    def feed(self, held: Any, rows: pa.Table) -> Found:
        held.insert(rows)
        return []

    def mark(self, held: Any, second: int) -> Found:
        return []

    def end(self, held: Any) -> Found:
        return []

    def read(self, held: Any, found: Found) -> list[Row]:
        return [{"k": key, **answer} for key, answer in held.result().items()]

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": row["count"], "s": row["sum"]}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {"rows": held.metrics.rows}


class Ends(Summarizes):
    """A summary of events in any order: the end of a key gives its answer."""

    any_order = retracts = ends = True

    def mark(self, held: Any, second: int) -> Found:
        held.advance(moment(second))
        return []

    def retract(self, held: Any, rows: pa.Table) -> Found:
        held.retract(rows)
        return []

    def end(self, held: Any) -> Found:
        return [held.end()]

    def read(self, held: Any, found: Found) -> list[Row]:
        return Driver.read(self, held, found)

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "n": int(row["count"]), "s": int(row["sum"] or 0)}


class Lives(Answers):
    """A live workload: rows in order, matches of each pattern out."""

    any_order = retracts = False

    def mark(self, held: Any, second: int) -> Found:
        return []

    def read(self, held: Any, found: Found) -> list[Row]:
        return Driver.read(self, held, found)

    def shown(self, row: Row) -> Row:
        return {**span(row), "pattern": row["pattern"]}


class Quantifies(Answers):
    """Quantitative queries: values of events, or of keys on demand."""

    any_order = retracts = False
    forgets = False  # the arrays wait for other keys

    def __init__(self, quantity: Any, wanted: Callable[[pa.Table], list[Row]], **how: Any) -> None:
        def load(saved: Any) -> Any:
            operator = quantity.operator(ROWS.schema, partition_by="k", **how)
            if saved is not None:
                operator.open(None, ROWS.schema, state=saved)
            return operator

        super().__init__(lambda: load(None), load, wanted)
        self.copies = True

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return list(held.insert(rows).tables())

    def mark(self, held: Any, second: int) -> Found:
        return list(held.advance(Watermark(moment(second))).tables())

    def end(self, held: Any) -> Found:
        return list(held.end().tables())

    def read(self, held: Any, found: Found) -> list[Row]:
        return Driver.read(self, held, found)

    def shown(self, row: Row) -> Row:
        return {n: row[n] for n in ("x", "value") if n in row} | (
            {} if "x" in row else {"k": row["k"]}
        )


class Cleans(Answers):
    """Cleanse puts out the events themselves."""

    def __init__(self, speculation: Any) -> None:
        def make() -> Cleanse:
            return Cleanse(ROWS.schema, ("k",), (OrderKey.of("ts"),), speculation)

        def load(saved: Any) -> Cleanse:
            made = make()
            made.restore(saved)
            return made

        super().__init__(make, load, themselves)

    def feed(self, held: Any, rows: pa.Table) -> Found:
        return self._passed(held.insert(rows))

    def mark(self, held: Any, second: int) -> Found:
        return self._passed(held.advance(moment(second)))

    def retract(self, held: Any, rows: pa.Table) -> Found:
        return self._passed(held.retract(rows))

    def end(self, held: Any) -> Found:
        return [signed(held.end().table, "+")]

    def _passed(self, released: Released) -> Found:
        return [signed(released.withdrawn.table, "-"), signed(released.events.table, "+")]

    def shown(self, row: Row) -> Row:
        return {"k": row["k"], "x": row["x"]}

    def counted(self, held: Any) -> Mapping[str, int]:
        return {"rows": held.counts.rows}


def signed(events: pa.Table, op: str) -> pa.Table:
    """Events as changes."""
    names = pa.array([str(x) for x in events["x"].to_pylist()], pa.string())
    ops = pa.array([op] * events.num_rows, pa.string())
    own = events.select(ROWS.column_names)
    return own.append_column("op", ops).append_column("match_id", names)

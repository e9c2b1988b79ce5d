"""A partition that more rows may come of: its partial matches, and the rows that they may read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.arrange import arrange
from ensue.operator.protocol import Key
from ensue.query.query import Query
from ensue.shared.engine import Engine
from ensue.shared.kernels.layout import OPEN, POSITION
from ensue.shared.listing import Waiting, earlier
from ensue.shared.partials import Partials
from ensue.shared.prepare import Prepared


@dataclass
class OpenPartition:
    """See the module."""

    partials: Partials
    table: pa.Table
    base: int = 0  # number of the first row held, inside its partition
    numbers: dict[int, int] = field(default_factory=dict)  # matches so far, by pattern
    waiting: list[Waiting] = field(default_factory=list)
    floors: dict[int, int] = field(default_factory=dict)  # first start allowed, by pattern
    due: float = -math.inf  # when the first window of a partial match ends; not known at first

    @property
    def busy(self) -> bool:
        """Whether the next rows may complete a match that has begun."""
        return bool(self.partials.meta[OPEN] or self.waiting)

    @property
    def decided(self) -> bool:
        """Whether no row waits for the rows after it."""
        return int(self.partials.meta[POSITION]) == self.table.num_rows

    def check_order(self, key: Key, first: pa.Table, query: Query) -> None:
        """Raises where the first of more rows is earlier than the last one held."""
        if not self.table.num_rows:
            return
        last = self.table.slice(self.table.num_rows - 1)
        names = list(dict.fromkeys(key.column for key in query.order_by))
        both = pa.concat_tables([last.select(names), first.select(names)])
        marked = both.append_column(f"{PREFIX}late", pa.array([False, True]))
        if arrange(marked, (), query.order_by)[0].column(f"{PREFIX}late")[0].as_py():
            where = f" of the partition {key}" if key else ""
            raise errors.DataError(
                f"rows arrive out of order: {both.slice(1).to_pylist()[0]}{where} comes after "
                f"{both.slice(0, 1).to_pylist()[0]}",
                remedy="insert the rows of a partition in the order of order_by(...), or match "
                "all of them at once with matches(...)",
            )

    def trim(self, prepared: Prepared, engine: Engine, plan: Plan) -> None:
        """Rows that no open partial match, waiting match or condition can read are let go."""
        oldest, due = engine.held(prepared, self.partials)
        column = self.table.column(plan.query.order_by[0].column)
        self.due = math.inf if column.null_count == len(column) else due
        position = int(self.partials.meta[POSITION])
        oldest = min(oldest, position, *(first for _, first, _, _ in self.waiting))
        # The last row stays: the next one has to come after it.
        oldest = max(0, min(oldest - plan.lookback, self.table.num_rows - 1))
        if not oldest:
            return
        self.partials.shift_rows(oldest, engine.compiled.guards)
        self.table = self.table.slice(oldest)
        self.base += oldest
        self.waiting = [
            (index, first - oldest, settled - oldest, earlier(node, oldest))
            for index, first, settled, node in self.waiting
        ]
        self.floors = {index: floor - oldest for index, floor in self.floors.items()}

    def copy(self) -> OpenPartition:
        return replace(
            self, partials=self.partials.copy(), numbers=dict(self.numbers),
            waiting=list(self.waiting), floors=dict(self.floors),
        )  # fmt: skip

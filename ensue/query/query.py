"""`Query`: everything that is asked, frozen and hashable, independent of syntax and of data.

Two texts that mean the same give equal queries, whatever front end read them. Evaluators see a
query only through the `Program` compiled from it; runners read the partitioning, the order and
the shape of the output here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.missing import Missing


class Rows(Enum):
    """ROWS PER MATCH."""

    ONE = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"

    @property
    def all_rows(self) -> bool:
        return self is not Rows.ONE


class SkipMode(Enum):
    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"
    TO_FIRST = "TO FIRST"
    TO_LAST = "TO LAST"
    NONE = "NO SKIP"  # event patterns: matches do not exclude each other


@dataclass(frozen=True)
class Skip:
    """AFTER MATCH SKIP; `variable` only with TO FIRST and TO LAST."""

    mode: SkipMode = SkipMode.PAST_LAST_ROW
    variable: str | None = None
    required: bool = False  # event patterns: a target that is missing is an error, not "no skip"


PAST_LAST_ROW = Skip()


class WindowKind(Enum):
    TIME = "time"  # `size` in microseconds of a timestamp order column
    NUMBER = "number"  # `size` in units of a numeric order column
    ROWS = "rows"  # at most `size` rows from first to last


@dataclass(frozen=True)
class Window:
    """WITHIN: a bound on last minus first, right edge included."""

    kind: WindowKind
    size: int | float


@dataclass(frozen=True)
class OrderKey:
    """One ORDER BY column; nulls as Spark places them unless said otherwise."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    @staticmethod
    def of(column: str, descending: bool = False, nulls_first: bool | None = None) -> OrderKey:
        return OrderKey(column, descending, not descending if nulls_first is None else nulls_first)


class Ties(Enum):
    """What to do about rows of a partition that ORDER BY leaves in any order."""

    ERROR = "error"
    WARN = "warn"
    IGNORE = "ignore"


class Unordered(Enum):
    """The word for an order that is left open on purpose.

    Examples:
        >>> log = pa.table({"kind": ["a", "x", "b"]})
        >>> ensue.pattern("a -> b", types="kind").order_by(ensue.UNORDERED).count(log)
        1
    """

    UNORDERED = "UNORDERED"


UNORDERED = Unordered.UNORDERED


@dataclass(frozen=True)
class Measure:
    name: str
    value: c.Condition


@dataclass(frozen=True)
class Query:
    """One pattern query. `measures` None asks for the plain listing of matches."""

    pattern: nodes.Node
    define: tuple[tuple[str, c.Condition], ...] = ()
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partition_by: tuple[str, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    measures: tuple[Measure, ...] | None = None
    rows: Rows = Rows.ONE
    skip: Skip = PAST_LAST_ROW
    within: Window | None = None
    selection: nodes.Policy | None = None  # None: row semantics unless the pattern has arrows
    all_matches: bool = False  # event semantics, even where every joint is strict
    without: tuple[str, ...] = ()  # event patterns: labels of which no event lies inside a match
    # Not in the text of a query, so that stored state of queries without it stays readable.
    missing: Missing | None = field(default=None, repr=False)
    # How the answer is reported, not part of the question: equal queries may differ in it.
    ties: Ties = field(default=Ties.WARN, repr=False, compare=False)

    def mapped(
        self,
        condition: Callable[[c.Condition, str], c.Condition],
        column: Callable[[str, str], str],
    ) -> Query:
        """The query with its conditions and columns changed; both receive their place."""
        define = tuple((name, condition(v, f"DEFINE {name}")) for name, v in self.define)
        measures = tuple(
            Measure(m.name, condition(m.value, f"measure {m.name}")) for m in self.measures or ()
        )
        return replace(
            self,
            define=define,
            measures=None if self.measures is None else measures,
            partition_by=tuple(column(name, "PARTITION BY") for name in self.partition_by),
            order_by=tuple(
                replace(key, column=column(key.column, "ORDER BY")) for key in self.order_by
            ),
        )

    @cached_property  # it is asked for each variable of what may be thousands
    def labels(self) -> tuple[str, ...]:
        """Primary variables in order of appearance."""
        return nodes.labels(self.pattern) + self.without

    @property
    def unseen(self) -> frozenset[str]:
        """Labels whose events are in no match (negated, `until`, `without`)."""
        return nodes.unseen(self.pattern) | frozenset(self.without)

    @property
    def variables(self) -> tuple[str, ...]:
        """Primary and subset variables."""
        return self.labels + tuple(name for name, _ in self.subsets)

    def members(self, variable: str | None) -> tuple[str, ...]:
        """The primary variables that `variable` stands for (None: all)."""
        if variable is None:
            return self.labels
        return dict(self.subsets).get(variable, (variable,))

    def definition(self, label: str) -> c.Condition:
        return self._defined.get(label, c.TRUE)

    @cached_property
    def _defined(self) -> dict[str, c.Condition]:
        return dict(self.define)

    @property
    def row_semantics(self) -> bool:
        """SQL semantics: one match per start row by preference (else all matches)."""
        return (
            not self.all_matches
            and not self.without
            and self.selection in (None, nodes.Policy.STRICT)
            and nodes.is_strict(self.pattern)
        )

    def conditions(self) -> tuple[c.Condition, ...]:
        """All conditions and measures."""
        return tuple(v for _, v in self.define) + tuple(m.value for m in self.measures or ())

"""The words of a pattern: each call returns a new pattern with one more part.

Nothing runs here; what a query does with data is in `pattern.py`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Never, Self

from ensue import errors
from ensue.front import builder
from ensue.operator.notices import Notices
from ensue.query import nodes
from ensue.query.missing import NearlyEverythingMatchesWarning, too_generous
from ensue.query.options import known_options
from ensue.query.query import OrderKey, Unordered


class Wording:
    """The words that patterns and chains of steps share."""

    def __init__(self, draft: builder.Draft) -> None:
        self._draft = draft
        self._notices = Notices()

    def define(self, *unnamed: Never, **conditions: object) -> Self:
        """What each label means, as SQL text or a pyspark Column; without one it is always true.

        Defining a label again replaces its condition.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
            >>> q = ensue.pattern("a b+").define(b="price < PREV(price)").order_by("ts")
            >>> q.count(ticks)
            1
        """
        self._draft.by_name("define", unnamed)
        return self._with(define=self._draft.defined(conditions))

    def subset(self, **subsets: str | list[str] | tuple[str, ...]) -> Self:
        """Union variables: `subset(U="A, B")` or `subset(U=["A", "B"])`.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> both = falls.subset(both="a, down").measures(top="MAX(both.price)")
            >>> both.matches(ticks).to_pylist()
            [{'top': 9}]
        """
        added = []
        for name, members in subsets.items():
            parts = re.split(r"[,\s]+", members.strip()) if isinstance(members, str) else members
            named = tuple(self._draft.variable(m, f"SUBSET {name}") for m in parts)
            added.append((name, named))
        return self._with(subsets=self._draft.subsets + tuple(added))

    @known_options
    def partition_by(self, *columns: str | Sequence[str]) -> Self:
        """One sequence of rows per value of these columns, as arguments or as a list.

        Examples:
            >>> shop = pa.table({"user": [1, 2, 1], "ts": [1, 2, 3], "kind": ["a", "a", "b"]})
            >>> q = ensue.pattern("a -> b", types="kind").partition_by("user").order_by("ts")
            >>> q.matches(shop).column("user").to_pylist()
            [1]
        """
        given = builder.listed(columns)
        return self._with(partition_by=tuple(builder.as_text(c, "partition_by") for c in given))

    @known_options
    def order_by(
        self, *keys: str | OrderKey | Unordered | Sequence[str | OrderKey], ties: str = "warn"
    ) -> Self:
        """Columns, each with an optional direction: `order_by("ts", "seq DESC NULLS LAST")`.

        `ties` says what to do about rows that these columns leave in any order, where that can
        change the answer: "error", "warn" or "ignore". `order_by(ensue.UNORDERED)` takes rows in
        the order of the table, on Spark in any.

        Examples:
            >>> later = pa.table({"ts": [3, 1], "kind": ["b", "a"]})
            >>> ensue.pattern("a -> b", types="kind").order_by("ts").count(later)
            1
            >>> ensue.pattern("b -> a", types="kind").order_by("ts DESC").count(later)
            1
        """
        return self._with(**builder.order(builder.listed(keys), ties))

    @known_options
    def within(self, size: str | int | float | timedelta) -> Self:
        """The longest time from first to last row, edge included: "1 hour", 100, "500 rows".

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.within(2).count(shop), q.within(1).count(shop), q.within("2 rows").count(shop)
            (1, 0, 0)
        """
        return self._with(within=builder.window(size))

    @known_options
    def select(self, policy: str) -> Self:
        """The selection policy of the blank: strict, next or any. A mark (`B+[strict]`) stays.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view pay", types="kind").order_by("ts")
            >>> q.select("strict").count(shop), q.select("next").count(shop)
            (0, 1)
        """
        try:
            return self._with(selection=nodes.Policy(policy.lower()))
        except ValueError:
            raise errors.QueryError(
                f"select({policy!r}) is not a selection policy", remedy="use strict, next or any"
            ) from None

    @known_options
    def after_match(self, text: str, required: bool = False) -> Self:
        """Where matching resumes: "past last row", "to next row", "to first B", "to last B".

        Event patterns start with "no skip". There, a target that matched nothing is no reason to
        skip; with `required` it is an error, as it always is for row patterns.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3], "price": [9, 8, 7]})
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> falls.count(ticks), falls.after_match("to next row").count(ticks)
            (1, 2)
        """
        return self._with(skip=builder.skip(text, self._draft, required))

    @known_options
    def rows_per_match(self, text: str) -> Self:
        """ "one row", "all rows", "all rows omit empty" or "all rows with unmatched".

        Of an event pattern, "all rows" are the events of each match.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> falls.rows_per_match("all rows").matches(ticks).num_rows
            3
        """
        return self._with(rows=builder.rows_per_match(text))

    def measures(self, *unnamed: Never, **values: object) -> Self:
        """Columns of the result, by name, as SQL text over the match.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> falls.measures(low="LAST(down.price)", rows="COUNT(*)").matches(ticks).to_pylist()
            [{'low': 7, 'rows': 3}]
        """
        self._draft.by_name("measures", unnamed)
        said = self._draft.measures or ()
        return self._with(measures=said + builder.expression_texts(values, "measure"))

    def without(self, *unnamed: Never, **conditions: object) -> Self:
        """Events of which none may lie between the first and last event of a match.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "refund", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.count(shop), q.without(refund="kind = 'refund'").count(shop)
            (1, 0)
        """
        self._draft.by_name("without", unnamed)
        given = builder.expression_texts(conditions, "DEFINE")
        for name, _ in given:
            if name in self._draft.labels:
                raise errors.DuplicateNameError(
                    f"without({name}=...): the pattern has a label {name!r}",
                    remedy="choose another name for the forbidden event",
                )
        return self._with(without=self._draft.without + given)

    def allow_missing(
        self,
        k: int | float,
        missing: Mapping[str, int | float] | None = None,
        required: Sequence[str] = (),
        **effort: Any,
    ) -> Self:
        """Also matches that lack events: at most `k`, or weights (`missing`) of `k` in total.

        Events named in `required` must be there. The result also has `errors`, `missing` and
        `missing_at`. Other options say how a budget is spent (docs/missing.md).

        Examples:
            >>> trip = pa.table({"ts": [1, 3], "kind": ["start", "pay"]})
            >>> q = ensue.pattern("start ->> gps ->> pay", types="kind").order_by("ts").within(10)
            >>> q.allow_missing(1).matches(trip).column("missing").to_pylist()
            [['gps']]
        """
        allowed = builder.missing(self._draft, k, missing, required, effort)
        unwise = too_generous(self._draft.pattern, allowed)
        if unwise is not None:
            warnings.warn(unwise, NearlyEverythingMatchesWarning, stacklevel=2)
        return self._with(missing=allowed)

    def _with(self, **changes: Any) -> Self:
        return type(self)(replace(self._draft, **changes))

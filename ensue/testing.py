"""Help for tests of patterns: feed events and watermarks, and check what comes out. No Spark.

    feed = Feed(pattern)
    feed.events('''
        user | ts | kind
        ann  | 1  | view
        ann  | 2  | pay
    ''')
    feed.watermark(10)
    feed.expect("view@1 pay@2")

`expect` takes each match as a text of labels and times, or as a dictionary of the columns that
matter. A failure is an AssertionError that lists what was expected and missing, what came instead,
and what the matcher is waiting for, so that it reads well in pytest or any other runner.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from ensue.api.pattern import Pattern
from ensue.operator.turns import Turns
from ensue.run.branch import MATCH_ID, NEW, OP
from ensue.run.matcher import Matcher

__all__ = ["Feed"]

Row = dict[str, Any]
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


class Feed(Turns):
    """A pattern under test. Options are those of `Pattern.matcher`.

    Examples:
        >>> q = ensue.pattern("view -> pay", types="kind").partition_by("user").order_by("ts")
        >>> feed = ensue.testing.Feed(q)
        >>> _ = feed.events(user="ann", ts=1, kind="view").events(user="ann", ts=2, kind="pay")
        >>> _ = feed.expect_nothing().watermark(3).expect("view@1 pay@2")
    """

    def __init__(self, pattern: Pattern, **options: Any) -> None:
        self.matcher: Matcher = pattern.matcher(**options)
        self._pattern = pattern
        self._new: list[Row] = []
        self._withdrawn: list[Row] = []
        self.matches: list[Row] = []  # reported and not withdrawn

    # -- what happens ----------------------------------------------------------------------------

    def events(self, events: Any = None, **columns: Any) -> Feed:
        """Events as a text table, a list of dictionaries, a table, or one event by its columns.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.end().expect("view@1 pay@2")
        """
        return self._note(self.matcher.insert(_rows(events, columns)))

    def retract(self, events: Any = None, **columns: Any) -> Feed:
        """Retract events, given as for `events`.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.retract(u=1, ts=2, kind="pay").end().expect_nothing()
        """
        return self._note(self.matcher.retract(_rows(events, columns)))

    def watermark(self, time: Any) -> Feed:
        """No event before this time will come.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.watermark(3).expect("view@1 pay@2")
        """
        return self._note(self.matcher.advance(time))

    def end(self, *keys: Any) -> Feed:
        """The stream (or these keys of it) is complete.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.end(1).expect("view@1 pay@2")
        """
        return self._note(self.matcher.end(keys or None))

    def revise(self, **edit: Any) -> Feed:
        """Edit the patterns; see `Matcher.revise`.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").watermark(2)
            >>> _ = feed.revise(add={"back": q}).events(u=1, ts=3, kind="pay").end()
        """
        return self._note(self.matcher.revise(**edit).changes)

    def _note(self, changes: pa.Table) -> Feed:
        for row in changes.to_pylist():
            kept = {name: value for name, value in row.items() if name != OP}
            if row[OP] == NEW:
                self._new.append(kept)
                self.matches.append(kept)
            else:
                self._withdrawn.append(kept)
                self.matches.remove(kept)
        return self

    # -- what must come out ----------------------------------------------------------------------

    def expect(self, *matches: str | Row) -> Feed:
        """Exactly these matches were reported since the last `expect`, in any order.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.end().expect("view@1 pay@2").expect()
        """
        found, self._new = self._new, []
        return self._compare("reported", matches, found)

    def expect_withdrawn(self, *matches: str | Row) -> Feed:
        """Exactly these matches were withdrawn since the last `expect_withdrawn`.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> feed = ensue.testing.Feed(q, speculation=float("inf"), id="ts")
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.retract(u=1, ts=2, kind="pay").expect_withdrawn("view@1 pay@2")
        """
        found, self._withdrawn = self._withdrawn, []
        return self._compare("withdrawn", matches, found)

    def expect_nothing(self) -> Feed:
        """Nothing was reported and nothing withdrawn since the last check.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").end().expect_nothing()
        """
        return self.expect().expect_withdrawn()

    def expect_matches(self, *matches: str | Row) -> Feed:
        """Exactly these matches stand: all that were reported and not withdrawn.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=1, kind="view").events(u=1, ts=2, kind="pay")
            >>> _ = feed.end().expect_matches("view@1 pay@2").expect_matches("view@1 pay@2")
        """
        return self._compare("standing", matches, self.matches)

    def expect_late(self, count: int) -> Feed:
        """That many events arrived after the watermark had passed them.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> _ = feed.events(u=1, ts=5, kind="view").watermark(9)
            >>> _ = feed.events(u=1, ts=4, kind="view").expect_late(1)
        """
        late = self.matcher.metrics.late
        assert late == count, f"expected {count} late events, got {late}\n{self._state()}"
        return self

    def expect_rejected(self, *reasons: str) -> Feed:
        """Exactly these rows were rejected so far, each for a reason that has this text in it.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").partition_by("u").order_by("ts")
            >>> feed = ensue.testing.Feed(q)
            >>> rows = [{"u": 1, "ts": 1, "kind": "view"}, {"u": 1, "ts": None, "kind": "pay"}]
            >>> _ = feed.events(rows)
            >>> _ = feed.expect_rejected("null")
        """
        given = self.matcher.rejected.column("reason").to_pylist()
        left = list(given)
        for reason in reasons:
            fitting = next((text for text in left if reason in text), None)
            assert fitting is not None, f"no row was rejected for {reason!r}; reasons: {given}"
            left.remove(fitting)
        assert not left, f"rows were rejected that were not expected: {left}"
        return self

    def _compare(self, what: str, wanted: tuple[str | Row, ...], found: list[Row]) -> Feed:
        left, missing = list(found), []
        for match in wanted:
            fitting = next((row for row in left if _fits(match, row)), None)
            if fitting is None:
                missing.append(match)
            else:
                left.remove(fitting)
        if not missing and not left:
            return self
        lines = [f"the matches {what} by {self._pattern!r} are not those expected"]
        lines += [f"  expected, but missing: {_shown(match)}" for match in missing]
        lines += [f"  not expected, but {what}: {_shown(row)}" for row in left]
        lines.append(self._state())
        raise AssertionError("\n".join(lines))

    def _state(self) -> str:
        """What the matcher stands at, for the message of a failure."""
        metrics = self.matcher.metrics
        lines = [f"  watermark: {self.matcher.watermark}, events: {metrics.rows}"]
        if metrics.held:
            lines.append(
                f"  {metrics.held} events wait for the watermark: call watermark(...) or end()"
            )
        if metrics.late:
            lines.append(f"  {metrics.late} events were late: {self.matcher.late.to_pylist()}")
        if metrics.rejected:
            lines.append(f"  rejected: {self.matcher.rejected.to_pylist()}")
        return "\n".join(lines)


def _rows(events: Any, columns: Row) -> Any:
    if columns:
        return [columns]
    return _read(events) if isinstance(events, str) else events


def _read(text: str) -> list[Row]:
    """A text table: names and cells between bars, one event per line."""
    header, *lines = [line for line in text.strip().splitlines() if line.strip()]
    names = [name.strip() for name in header.split("|")]
    rows = []
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != len(names):
            raise AssertionError(
                f"the line {line.strip()!r} has {len(cells)} cells; the header has {len(names)}"
            )
        rows.append({name: _cell(cell) for name, cell in zip(names, cells, strict=True)})
    return rows


def _cell(text: str) -> Any:
    if text == "null":
        return None
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if re.search(r"[.eE]", text) else int(text)
    return text.strip("'")


def _fits(wanted: str | Row, row: Row) -> bool:
    if isinstance(wanted, str):
        return wanted.split() == _events(row).split()
    return all(name in row and row[name] == value for name, value in wanted.items())


def _events(row: Row) -> str:
    events = row.get("events")
    if events is None:
        return ""
    return " ".join(f"{event['label']}@{event['time']}".replace(" ", "T") for event in events)


def _shown(match: str | Row) -> str:
    if isinstance(match, str):
        return match
    hidden = {MATCH_ID, "events"} if match.get("events") else {MATCH_ID}
    rest = ", ".join(f"{n}={v!r}" for n, v in match.items() if n not in hidden and v is not None)
    return " ".join(part for part in (_events(match), f"({rest})" if rest else "") if part)

"""Questions: automata, and what stands around them.

An automaton is a question; windows (`windows.py`) and groups (`groups.py`) only cut the input into
more partitions for the question inside; a pipeline (`pipes.py`) feeds the defined values of one to
the next. A question is checked once and bound to each schema it meets (`bound.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.quantities.bound import Bound
from ensue.quantities.checks import Report, check
from ensue.quantities.model import Automaton
from ensue.quantities.run import BoundAutomaton, column_kinds
from ensue.quantities.typing import Types

VALUE = "value"
WINDOW = "window_start"


class Question(ABC):
    """A query that is checked once and bound to each schema it meets."""

    @abstractmethod
    def bind(self, schema: pa.Schema) -> Bound: ...

    @abstractmethod
    def title(self) -> str:
        """What it is, in a line: for pictures, and to tell one query's state from another's."""

    @abstractmethod
    def parts(self) -> tuple[Question, ...]:
        """The questions inside, in the order of their memories."""

    @abstractmethod
    def allowing(self, allow: str | None, assume: str | None) -> Question:
        """The question with a cost accepted, or a declaration made, in all its automata."""

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return [report for part in self.parts() for report in part.reports(schema)]

    def columns(self) -> Collection[str] | None:
        """Columns that it reads beside its parts; None: it may read any."""
        return ()

    def reads(self) -> frozenset[str] | None:
        """Names of the event's columns it reads, in lower case; None: it may read any."""
        names: set[str] = set()
        for some in (self.columns(), *(part.reads() for part in self.parts())):
            if some is None:
                return None
            names |= {name.lower() for name in some}
        return frozenset(names)


class Around(Question):
    """A question that cuts its input into more partitions for the one inside."""

    inner: Question

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return replace(self, inner=self.inner.allowing(allow, assume))  # type: ignore[type-var]

    def parts(self) -> tuple[Question, ...]:
        return (self.inner,)


@dataclass
class AutomatonQuestion(Question):
    automaton: Automaton
    allow: str | None = None
    assume: str | None = None
    compiled: bool = True
    report: Report | None = None  # made before, on what the user wrote
    _reports: dict[Any, Report] = field(default_factory=dict, repr=False)

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        if self.report is not None:
            return [self.report]
        kinds = {} if schema is None else column_kinds(schema)
        used = {name.lower() for name in self.automaton.columns()}
        relevant = {name: kind for name, kind in kinds.items() if name.lower() in used}
        key = tuple(sorted((name, str(kind)) for name, kind in relevant.items()))
        if key not in self._reports:
            self._reports[key] = check(
                self.automaton, relevant, allow=self.allow, assume=self.assume
            )
        return [self._reports[key]]

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return replace(self, allow=allow or self.allow, assume=assume or self.assume, _reports={})

    def columns(self) -> Collection[str] | None:
        return None if self.automaton.reads_python else self.automaton.columns()

    def parts(self) -> tuple[Question, ...]:
        return ()

    def title(self) -> str:
        return self.automaton.name

    def bind(self, schema: pa.Schema) -> Bound:
        try:
            (report,) = self.reports(schema)
        except errors.UndecidedError:
            Types(self.automaton, column_kinds(schema))  # a column that is missing comes first
            raise
        return BoundAutomaton(self.automaton, schema, report, self.compiled)

"""Every error Ensue raises on purpose.

An error says what was given, which rule it breaks, where (line and column of the user's text, or
the row of the data) and what to do next. Each class is one kind of mistake, so that a program can
tell them apart; all derive from `EnsueError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

DOCS = "https://github.com/ensue/ensue/tree/main/docs"  # as in the metadata of the wheel

_LINE = 400  # characters of a line that an error shows


@dataclass(frozen=True)
class Place:
    """A position in text the user wrote; `line` and `column` count from 1."""

    text: str
    line: int
    column: int

    @staticmethod
    def at_offset(text: str, offset: int) -> Place:
        offset = max(0, min(offset, len(text)))
        line = text.count("\n", 0, offset) + 1
        start = text.rfind("\n", 0, offset) + 1
        return Place(text, line, offset - start + 1)

    @property
    def offset(self) -> int:
        """Where in the text, from 0."""
        lines = self.text.split("\n")
        return sum(len(line) + 1 for line in lines[: self.line - 1]) + self.column - 1

    def pointer(self) -> str:
        """The offending line, or the part of a long one, with a caret under the column."""
        lines = self.text.splitlines() or [""]
        shown, at = lines[min(self.line, len(lines)) - 1], self.column - 1
        if len(shown) > _LINE:
            begin = max(0, min(at - _LINE // 2, len(shown) - _LINE))
            part = shown[begin : begin + _LINE]
            ahead, behind = "... " * (begin > 0), " ..." * (begin + _LINE < len(shown))
            shown, at = ahead + part + behind, at - begin + len(ahead)
        return f"  {shown}\n  {' ' * at}^"


class EnsueError(Exception):
    """Base of all. `problem` says what is wrong, `remedy` what to do, `place` where.

    Examples:
        >>> try:
        ...     ensue.pattern("a b+ (c")
        ... except ensue.EnsueError as problem:
        ...     print(problem)
        ...
        line 1, column 6: '(' is never closed
          a b+ (c
               ^
        What to do: close it
    """

    def __init__(self, problem: str, *, remedy: str = "", place: Place | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        self.place = place
        super().__init__(self._message())

    @property
    def line(self) -> int | None:
        """The line of your text where it went wrong, from 1; None where there is no text.

        Examples:
            >>> try:
            ...     ensue.pattern("a b+ )")
            ... except ensue.EnsueError as problem:
            ...     print(problem.line, problem.column)
            ...
            1 6
        """
        return self.place.line if self.place else None

    @property
    def column(self) -> int | None:
        """The column of that line, from 1; None where there is no text.

        Examples:
            >>> try:
            ...     ensue.pattern("a b+ )")
            ... except ensue.EnsueError as problem:
            ...     print(problem.line, problem.column)
            ...
            1 6
        """
        return self.place.column if self.place else None

    def at(self, place: Place) -> Self:
        """The same error at another place.

        Examples:
            >>> from ensue.errors import Place
            >>> wrong = ensue.EnsueError("no such column").at(Place("a = 1", 1, 3))
            >>> print(wrong)
            line 1, column 3: no such column
              a = 1
                ^
        """
        return type(self)(self.problem, remedy=self.remedy, place=place)

    def _message(self) -> str:
        parts = [self.problem]
        if self.place is not None:
            parts[0] = f"line {self.place.line}, column {self.place.column}: {self.problem}"
            parts.append(self.place.pointer())
        if self.remedy:
            parts.append(f"What to do: {self.remedy}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Spark carries a worker's exception to the driver; keyword arguments need this to survive.
        return (_rebuild, (type(self), self.problem, self.remedy, self.place))


def _rebuild(kind: type[EnsueError], problem: str, remedy: str, place: Place | None) -> EnsueError:
    return kind(problem, remedy=remedy, place=place)


class PatternSyntaxError(EnsueError):
    """The pattern text is not well formed."""


class PathSyntaxError(EnsueError):
    """The path expression is not well formed."""


class ConditionSyntaxError(EnsueError):
    """A condition or measure is not well formed SQL."""


class QueryError(EnsueError):
    """The parts of a query do not fit together (a rule of the standard is broken)."""


class MissingOrderError(QueryError):
    """The answer depends on the order of the rows, and the query does not name one."""


class TiesError(EnsueError):
    """Rows share their place in the order, and the query wants an error (`ties="error"`)."""


class UnknownVariableError(QueryError):
    """A pattern variable is used that the pattern does not have."""


class DuplicateNameError(QueryError):
    """Two measures, subsets or definitions of one name."""


class ReservedNameError(QueryError):
    """A name that Ensue or the standard keeps for itself."""


class NavigationError(QueryError):
    """PREV, NEXT, FIRST, LAST or an aggregate used in a way the standard forbids."""


class NondeterministicError(QueryError):
    """A function whose value changes from call to call stands in a condition."""


class UnknownColumnError(EnsueError):
    """A column that the input does not have."""

    @classmethod
    def check(
        cls, wanted: Iterable[str | None], known: Sequence[str], what: str = "the events have"
    ) -> None:
        """Refuse the first name that is not known; None names no column."""
        for name in wanted:
            if name is not None and name not in known:
                problem = f"{what} no column {name!r}"
                raise cls(problem, remedy=f"use one of {', '.join(known)}")


class UnknownLabelError(EnsueError):
    """A path expression names an edge label that the graph does not have."""


class UnknownNodeError(EnsueError):
    """A path should begin or end at a node that the graph does not have."""


class MissingNodeWarning(UserWarning):
    """A path should begin or end at a node that the graph does not have: the answer is empty."""


class CandidateWarning(UserWarning):
    """A candidate expression of a question was read with other labels, or was dropped."""


class BoundWarning(UserWarning):
    """A bound of a budget that could not be met, or not for all rows; the message says why."""


class OrderWarning(UserWarning):
    """Rows were matched in the order in which they happened to be."""


class TiesWarning(UserWarning):
    """Rows share their place in the order, and which comes first can change the answer."""


class KernelsWarning(UserWarning):
    """Compiled kernels of a folder that ENSUE_KERNELS names are not used; the message says why."""


class NothingMatchesWarning(UserWarning):
    """Nothing matches, and nothing can: no row fits a variable that every match has."""


class UnboundedPathsError(EnsueError):
    """Infinitely many paths answer the query: a loop of the expression meets a cycle."""


class ColumnTypeError(EnsueError):
    """An expression whose types do not fit."""


class UnsupportedError(EnsueError):
    """The chosen evaluator or runner declares that it cannot do this."""


class UnsupportedFunctionError(UnsupportedError):
    """A function that Ensue does not compute: in process, or over several rows of a match."""


class UntrustedError(EnsueError):
    """Text under `trust="pattern"`, or an edit of a stream, says more than a pattern may."""


class UnsupportedInputError(UnsupportedError):
    """The input is not a kind of table that Ensue reads."""


class LimitError(EnsueError):
    """A limit with a setting was reached: pattern size, threads, memory."""


class TimeLimitError(LimitError):
    """A run took longer than its `timeout`."""


class SkipTargetError(EnsueError):
    """AFTER MATCH SKIP TO a row that does not exist or is the first of the match."""


class DataError(EnsueError):
    """A value in the data cannot be processed; the message names the row."""


class OverflowDataError(DataError):
    """A sum or count left the range of its type."""


class StateError(EnsueError):
    """Stored state that is damaged, foreign or of an unknown version."""


class CheckpointError(StateError):
    """A stream was started on a checkpoint that another query or setting wrote."""


class WatermarkError(QueryError):
    """A stream whose mode needs a watermark, or another order than the watermark's."""


class UnknownStateError(QueryError):
    """An arc or a name of a state that the automaton does not have."""


class UnknownRegisterError(QueryError):
    """A field that the register of the automaton does not have."""


class UnknownArcError(QueryError):
    """An arc or pattern to be removed that does not exist."""


class NoFinalStateError(QueryError):
    """The automaton has no final state, or a change would remove its last one."""


class LifetimeError(QueryError):
    """A lifetime that is empty, or that reaches back into what has been settled."""


class MissingExtraError(EnsueError, ImportError):
    """A feature whose package is not installed: it belongs to one of Ensue's extras."""


class MissingPageError(EnsueError):
    """The studio's page is built with npm, and this installation does not have it."""


class JavaNotFoundError(EnsueError):
    """No Java that Spark can run on."""


class SparkStartError(EnsueError):
    """A local Spark session did not start; the message ends with what its log says."""


class SparkFailureError(EnsueError):
    """Spark refused a statement or failed to run it; for the command line, which shows no stack."""


class ExecutorError(EnsueError):
    """A Python worker of Spark has no Ensue, another version of it, or lacks a package."""


class AutomatonError(EnsueError):
    """A quantitative query whose automaton is not well formed."""


class EmptyCycleError(AutomatonError):
    """A loop that reads nothing: the value would depend on how often it is taken."""


class AmbiguousError(AutomatonError):
    """An input that a quantitative query can read in two ways; the message shows one."""


class InconsistentError(AutomatonError):
    """Parallel parts of a quantitative query that are not defined on the same inputs."""


class UnsatisfiableError(AutomatonError):
    """A predicate that no event satisfies, or a part of a query that no input reaches."""


class UndecidedError(AutomatonError):
    """A predicate about which the solver cannot decide; a declaration is needed."""


class LawError(AutomatonError):
    """A fold or a collect operation that breaks a law it must keep, on values that are shown."""


class DistributivityError(LawError):
    """A fold that does not distribute over the collect operation."""


class OperationTypeError(ColumnTypeError):
    """An operation of a quantitative query that does not fit its arguments."""

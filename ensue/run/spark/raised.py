"""Errors that workers raised, as Ensue's own classes again.

Spark carries a worker's exception to the driver as text, inside an exception of its own. The text
holds all that an `EnsueError` says, so the error can be made again from it: class, problem, place
and remedy. Where Spark itself cannot compute an expression (a row divides by zero), its exception
becomes the `DataError` that the same row is in process. Actions that Ensue runs do so by
themselves; for those that users run there is `own_errors()`, and `own_error()` for what a stream's
`exception()` gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row

from ensue import errors
from ensue.run.spark.quiet import asking
from ensue.run.spark.watch import watched

_SHOWN_LINES = 12
_RAISED = re.compile(r"(?:^|\s)ensue\.errors\.(\w+): ")
# What Spark writes behind the text of a worker: Java's frames, and headings of its own.
_BEHIND = re.compile(r"\n\s*(?:at [\w.$/<>]+\(|(?:JVM|Driver) stacktrace:|SQLSTATE: |== )")
_PLACED = re.compile(r"line (\d+), column (\d+): (.*)\n  (.*)\n  ( *)\^", re.DOTALL)
_REMEDY = "\nWhat to do: "
_DATA = "22"  # how the SQLSTATE of a data exception begins
# The same in the text of a stream's exception, which has no SQLSTATE of its own; its fragment is
# what the carets below the text point at.
_TOLD = re.compile(
    rf"(\[[A-Z0-9_.]+\] (?:(?!\[[A-Z0-9_]{{4,}}).)*?) SQLSTATE: {_DATA}\w{{3}}", re.DOTALL
)
_POINTED = re.compile(r"== SQL \(line \d+, position \d+\) ==\n(.*)\n( *)(\^+)")


def own_error(problem: BaseException | None) -> errors.EnsueError | None:
    """The error of Ensue that a worker raised, or that a row's values are; None: another's."""
    if problem is None or isinstance(problem, errors.EnsueError):
        return problem
    text = str(problem)
    heads = [head for head in _RAISED.finditer(text) if _class_of(head.group(1)) is not None]
    if not heads:
        return _data_error(problem)
    # A worker's text may stand twice: once as the message, once among the causes.
    body = text[heads[0].end() :]
    behind = _BEHIND.search(body)
    kind = _class_of(heads[0].group(1))
    assert kind is not None
    return _read(kind, (body[: behind.start()] if behind else body).strip())


def _data_error(problem: BaseException) -> errors.DataError | None:
    """What an expression that Spark computes has against a row."""
    if not isinstance(problem, PySparkException) or isinstance(problem, AnalysisException):
        return None
    if isinstance(problem, StreamingQueryException):
        told = _TOLD.search(str(problem))
        if told is None:
            return None
        said = " ".join(told.group(1).split())
        pointed = _POINTED.search(str(problem), told.end())
        fragments = [pointed[1][len(pointed[2]) :][: len(pointed[3])]] if pointed else []
    elif (problem.getSqlState() or "").startswith(_DATA):
        said = str(problem).strip().splitlines()[0].partition(" SQLSTATE: ")[0]
        fragments = [context.fragment() for context in problem.getQueryContext()]
    else:
        return None
    where = f"Spark cannot compute {fragments[0]}" if fragments else "Spark cannot use a row"
    return errors.DataError(
        f"{where}: {said}",
        remedy="guard the expression (nullif, try_cast, IF), or leave such rows out",
    )


def _class_of(name: str) -> type[errors.EnsueError] | None:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, errors.EnsueError) else None


def _read(kind: type[errors.EnsueError], text: str) -> errors.EnsueError:
    problem, _, remedy = text.rpartition(_REMEDY) if _REMEDY in text else (text, "", "")
    placed = _PLACED.fullmatch(problem)
    if placed is None:
        return kind(problem, remedy=remedy)
    line, column = int(placed.group(1)), int(placed.group(2))
    # Of the user's text only the line is known.
    place = errors.Place("\n" * (line - 1) + placed.group(4), line, column)
    return kind(placed.group(3), remedy=remedy, place=place)


@contextmanager
def own_errors() -> Iterator[None]:
    """Actions inside raise Ensue's own errors: `with own_errors(): found.collect()`.

    What pyspark would log of them is not logged: they are raised.
    """
    try:
        with asking():
            yield
    except Exception as problem:
        own = own_error(problem)
        if own is None or own is problem:
            raise
        raise own from None


@contextmanager
def spoken_errors() -> Iterator[None]:
    """As `own_errors`, and errors of Spark by their first lines, for people at a terminal."""
    try:
        with own_errors():
            yield
    except (PySparkException, Py4JError) as problem:
        # Behind the message come a plan, which begins with a quote, and the stack.
        text = re.split(r"\n'|\n+JVM stacktrace:", str(problem), maxsplit=1)[0].strip()
        shown = "\n".join(text.splitlines()[:_SHOWN_LINES])
        missing = re.search(r"TABLE_OR_VIEW_NOT_FOUND\]\s+The table or view (\S+)", text)
        if missing:
            raise errors.SparkFailureError(
                f"the statement reads {missing[1]}, a table that is not there",
                remedy=f"give its file: --table {missing[1].strip('`')}=..., or correct the name",
            ) from None
        analysed = isinstance(problem, AnalysisException)
        remedy = "check the statement and its tables" if analysed else ""
        raise errors.SparkFailureError(f"Spark says: {shown}", remedy=remedy) from None


@contextmanager
def action(df: DataFrame, title: str) -> Iterator[None]:
    """An action that Ensue runs: its own errors, and its progress where somebody looks."""
    if df.isStreaming:
        raise errors.UnsupportedError(
            f"{title} gives one answer, and a stream has no end",
            remedy="write the stream (q.matches(df).writeStream, or q.aggregate(df).writeStream), "
            "or give the rows that have arrived as a batch DataFrame (spark.read)",
        )
    with own_errors(), watched(df.sparkSession, title):
        yield


def count(df: DataFrame) -> int:
    """The number of matches."""
    with action(df, "counting"):
        return df.count()


def first(df: DataFrame) -> Row:
    """The only row of an answer."""
    with action(df, "counting"):
        found = df.first()
    assert found is not None
    return found

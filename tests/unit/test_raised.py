"""Errors of workers come back from Spark's text as they were."""

from __future__ import annotations

import inspect

import pytest

from ensue import errors
from ensue.run.spark.raised import own_error, own_errors

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.EnsueError)
]
PLACE = errors.Place("A B+\nC{2", 2, 4)


def in_spark(problem: errors.EnsueError) -> Exception:
    """The worker's text among Spark's: as an action raises it, as a stream does."""
    text = f"ensue.errors.{type(problem).__name__}: {problem}"
    return Exception(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage "
        "failure: Lost task 0.0 (TID 3): org.apache.spark.api.python.PythonException: Traceback "
        '(most recent call last):\n  File "worker.py", line 1, in main\n    process()\n'
        f"{text}\n\n\tat org.apache.spark.api.python.BasePythonRunner$Reader.next(P.scala:5)"
        f"\n\nDriver stacktrace:\nCaused by: PythonException: {text}\n\tat org.apache.x.y(Z.scala)"
        " SQLSTATE: XXKST"
    )


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_comes_back(kind: type[errors.EnsueError]) -> None:
    for problem in (
        kind("a row is wrong"),
        kind("row 7 is wrong:\n  see above", remedy="mend it, or\nleave it out"),
        kind("the pattern ends early", remedy="write }", place=PLACE),
    ):
        found = own_error(in_spark(problem))
        assert type(found) is kind
        assert str(found) == str(problem)
        assert found is not None
        assert (found.remedy, found.line, found.column) == (
            problem.remedy,
            problem.line,
            problem.column,
        )


def test_other_errors_stay_what_they_are() -> None:
    assert own_error(None) is None
    assert own_error(ValueError("ensue.errors.Nothing: x")) is None
    assert own_error(ValueError("ensue.errors.Place: x")) is None
    own = errors.DataError("row 3")
    assert own_error(own) is own
    with pytest.raises(ValueError, match="plain"), own_errors():
        raise ValueError("plain")
    with pytest.raises(errors.DataError, match="row 3"), own_errors():
        raise in_spark(own)

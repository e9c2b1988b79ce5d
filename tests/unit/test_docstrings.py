"""Every public name has a docstring with an example, and the examples run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import quantify, testing

GIVEN = {"ensue": ensue, "pa": pa, "q": quantify}  # what the examples take as imported
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public_names() -> Iterator[tuple[str, Any]]:
    """Names of `ensue`, `quantify` and `testing`, with the methods and properties of classes."""
    spaces = ((ensue, "ensue"), (quantify, "ensue.quantify"), (testing, "ensue.testing"))
    for space, prefix in spaces:
        for name in space.__all__:
            value = getattr(space, name)
            if isinstance(value, (ModuleType, str)):
                continue  # a module is asked for its own names; a word has no docstring
            yield f"{prefix}.{name}", value
            if inspect.isclass(value):
                yield from _members(f"{prefix}.{name}", value)


def _members(prefix: str, kind: type) -> Iterator[tuple[str, Any]]:
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("ensue."):
            continue
        for name, value in vars(owner).items():
            # Fields of data classes are described where the class is.
            if not name.startswith("_") and (callable(value) or hasattr(value, "__get__")):
                yield f"{prefix}.{name}", inspect.unwrap(getattr(value, "func", value))


NAMES = dict(public_names())


def text_of(value: Any) -> str:
    return inspect.getdoc(value) or ""


def test_every_public_name_is_described_with_an_example() -> None:
    assert len(NAMES) > 120
    assert [name for name, value in NAMES.items() if not text_of(value)] == []
    assert [name for name, value in NAMES.items() if ">>>" not in text_of(value)] == []


@pytest.mark.filterwarnings("ignore")
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    seen: set[str] = set()
    for name, value in NAMES.items():
        text = text_of(value)
        if text in seen:
            continue
        seen.add(text)
        runner.run(doctest.DocTestParser().get_doctest(text, dict(GIVEN), name, None, 0))
    assert runner.failures == 0, capsys.readouterr().out


def test_help_of_the_package_begins_with_an_example() -> None:
    assert ">>>" in text_of(ensue)
    assert all(name in text_of(ensue) for name in ("ensue.pattern", "ensue.sql", "ensue.graph"))

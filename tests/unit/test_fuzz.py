"""Bent texts for every parser: what comes out besides an answer is an error of Ensue.

`./dev chaos` bends many more.
"""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.chaos.texts import PARSERS, Parser, bent, refused


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_only_errors_of_ensue_come_out(parser: Parser, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(parser, bent(random.Random(seed), parser.texts))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_texts_themselves_are_read(parser: Parser) -> None:
    """Else all that is bent would be refused for the same reason."""
    taken = sum(not refused(parser, text) for text in parser.texts)
    assert taken >= len(parser.texts) / 2

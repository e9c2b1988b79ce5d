"""Spec cases of event patterns: steps and events to matches, as data that every runner runs.

A case of `tests/spec/sequences/*.toml`:

    steps = "begin a A ; followedBy b BC oneOrMore allowCombinations ; next ( begin c C ) optional"
    events = "ABBC"          one row per letter: `id` 0, 1, ... and `kind` the letter
    times = [1, 2, 2, 9]     `time` of each event; 0, 1, ... where it is not said
    within = 3               of `time`, right edge included
    after_match = "past last row"
    matches = ["0:a 1:b", ...]     row and label of each event; in no order

A step is a word of FlinkCEP, a name, the letters that fit (* for any) and what is said of it
(`oneOrMore`, `times=2`, `times=1,2`, `timesOrMore=2`, `optional`, `greedy`, `consecutive`,
`allowCombinations`, `until=X`); a group stands in brackets instead of name and letters.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import ensue
from ensue.api.chain import Chain
from ensue.api.pattern import Pattern

FOLDER = Path(__file__).parent / "spec" / "sequences"


class Case:
    def __init__(self, file: str, number: int, data: dict[str, Any]) -> None:
        self.name = f"{file} {number}: {data['steps']}"
        self.data = data

    def __str__(self) -> str:
        return self.name

    @property
    def pattern(self) -> Pattern:
        chain = _chain(self.data["steps"].split())
        if "within" in self.data:
            chain = chain.within(self.data["within"])
        if "after_match" in self.data:
            chain = chain.after_match(self.data["after_match"])
        return chain.order_by("time", "id")

    @property
    def table(self) -> pa.Table:
        letters = list(self.data["events"])
        times = self.data.get("times", range(len(letters)))
        ident = pa.array(range(len(letters)), pa.int64())
        return pa.table({"time": pa.array(times, pa.int64()), "id": ident, "kind": letters})

    @property
    def expected(self) -> list[str]:
        return sorted(self.data["matches"])


@cache
def cases() -> tuple[Case, ...]:
    return tuple(
        Case(path.stem, number, data)
        for path in sorted(FOLDER.glob("*.toml"))
        for number, data in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["case"])
    )


def shown(matches: list[dict[str, Any]]) -> list[str]:
    return sorted(" ".join(f"{e['row']}:{e['label']}" for e in m["events"]) for m in matches)


def _kinds(letters: str) -> str:
    if letters == "*":
        return "true"
    return "kind IN (" + ", ".join(f"'{letter}'" for letter in letters) + ")"


def _snake(word: str) -> str:
    return re.sub("([A-Z])", lambda found: "_" + found[1].lower(), word)


def _chain(words: list[str]) -> Chain:
    chain: Chain | None = None
    while words and words[0] != ")":
        step = words.pop(0)
        if words[0] == "(":
            words.pop(0)
            part: object = _chain(words)
            assert words.pop(0) == ")"
            condition = None
        else:
            part, condition = words.pop(0), _kinds(words.pop(0))
        chain = ensue.begin(part) if chain is None else getattr(chain, _snake(step))(part)
        if condition is not None:
            chain = chain.where(condition)
        while words and words[0] not in (";", ")"):
            name, _, value = words.pop(0).partition("=")
            if name == "until":
                chain = chain.until(_kinds(value))
            else:
                chain = getattr(chain, _snake(name))(*map(int, value.split(",") if value else ()))
        if words and words[0] == ";":
            words.pop(0)
    assert chain is not None
    return chain

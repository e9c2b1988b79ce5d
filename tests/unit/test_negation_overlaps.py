"""Negated steps whose events fit other steps too: random patterns in every engine, and the oracle.

Each label fits a random set of letters, so that an event often fits the negated step and the step
that follows it, or the loop before it. Every way to ask must give the oracle's matches.
`ENSUE_CASES` says how many patterns are tried.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa

import ensue
from ensue.api.pattern import Pattern
from tests import oracle_sequences
from tests.share import some

SEEDS = some(range(int(os.environ.get("ENSUE_CASES", "60"))))
STREAMS = 25  # of one pattern, the partitions of one run
LETTERS = "abcd"


def random_text(draw: random.Random) -> str:
    """A B and C with a negated step or two between them, and loops, groups and optional parts."""
    loop = lambda: draw.choice(["", "", "", "+", "?", "*", "{2}", "{1,2}", "{2,}"])  # noqa: E731
    arrow = lambda: draw.choice([" -> ", " ->> "])  # noqa: E731
    many = draw.choice(["", "+", "{2}", "{1,2}"])
    group = draw.choice([f"(B{arrow()}C)", f"(B?{arrow()}C)", f"(B+{arrow()}C)", f"(B{arrow()}C?)"])
    second = draw.choice(["B" + loop(), "B" + loop(), group + many, "(B | C)", "PERMUTE(B, C)"])
    negated = lambda: draw.choice(["!X", "!X", "!Y"]) + arrow()  # noqa: E731
    text = "A" + draw.choice(["", "", "+", "{1,2}", "{2}"]) + arrow()
    places = draw.choice([(True, False), (False, True), (True, True)])
    text += (negated() if places[0] else "") + second + arrow()
    return text + (negated() if places[1] else "") + "D" + draw.choice(["", "", "+"])


def random_pattern(draw: random.Random) -> Pattern:
    text = random_text(draw)
    kinds = {
        label: "kind IN (" + ", ".join(map(repr, draw.sample(LETTERS, draw.randint(1, 2)))) + ")"
        for label in "ABCDXY"
        if label in text
    }
    if draw.random() < 0.3:
        label = "X" if "X" in text else "D"
        kinds[label] += " AND x >= LAST(A.x)"
    return ensue.pattern(text).define(**kinds).partition_by("stream").order_by("id")


def random_end(draw: random.Random, pattern: Pattern) -> Pattern:
    """A negated step at the end, which the window proves."""
    text = f"A -> B{draw.choice(['', '+', '{2}', '{1,2}', '?'])} -> !D"
    kinds = {label: dict(pattern._draft.define)[label] for label in "ABD"}
    made = ensue.pattern(text).define(**kinds)
    return made.partition_by("stream").order_by("id").within(3)


def random_rows(draw: random.Random) -> list[list[dict[str, object]]]:
    return [
        [
            {"stream": number, "id": row, "kind": draw.choice(LETTERS), "x": draw.randint(0, 3)}
            for row in range(draw.randint(2, 7))
        ]
        for number in range(STREAMS)
    ]


def listed(matches: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (m["stream"], *((e["label"], e.get("row", e.get("time"))) for e in m["events"]))
        for m in matches.to_pylist()
    )


def expected(pattern: Pattern, rows: list[list[dict[str, object]]]) -> list[tuple[object, ...]]:
    return sorted(
        (number, *pairs)
        for number, stream in enumerate(rows)
        for pairs in oracle_sequences.matches(pattern.query, stream)
    )


def test_every_engine_gives_the_matches_of_the_definition() -> None:
    overlapping = 0
    for seed in SEEDS:
        draw = random.Random(seed)
        pattern, rows = random_pattern(draw), random_rows(draw)
        table = pa.Table.from_pylist([row for stream in rows for row in stream])
        asked = f"seed {seed}: {pattern.query}"
        wanted = expected(pattern, rows)
        overlapping += len(wanted)
        assert listed(pattern.matches(table, as_of="end")) == wanted, asked
        assert pattern.count(table, as_of="end") == len(wanted), asked
        n = pattern.aggregate(table, n="count(*)", as_of="end").column("n").to_pylist()
        assert sum(map(int, n)) == len(wanted), asked
        match seed % 5:
            case 0:
                windowed = pattern.within(3)
                assert listed(windowed.matches(table, as_of="end")) == expected(windowed, rows), (
                    asked
                )
            case 1:
                skipping = pattern.after_match("to next row")  # in plain Python
                assert listed(skipping.matches(table, as_of="end")) == expected(skipping, rows), (
                    asked
                )
            case 2:
                matcher = pattern.matcher()
                changes = [matcher.insert(table), matcher.end()]
                assert listed(pa.concat_tables(changes)) == wanted, asked
            case 3:
                other = pattern.within(4)
                shared = ensue.workload({"one": pattern, "two": pattern}).matches(
                    table, as_of="end"
                )
                for name in ("one", "two"):
                    mine = [m for m in shared.to_pylist() if m["pattern"] == name]
                    assert len(mine) == len(wanted), asked
                assert ensue.workload({"one": other}).matches(table).num_rows == len(
                    expected(other, rows)
                ), asked
            case _:
                final = random_end(draw, pattern)
                assert listed(final.matches(table, as_of="end")) == expected(final, rows), asked
    assert overlapping > len(SEEDS)


def random_group(draw: random.Random) -> Pattern:
    """A group that ends with a negated step, repeated, optional or one of several ways."""
    arrow = lambda: draw.choice([" -> ", " ->> "])  # noqa: E731
    inner = f"B{draw.choice(['', '', '+', '?'])}" if draw.random() < 0.5 else f"B{arrow()}C"
    ends = draw.choice(["!X", "!X", "!X", f"!X{arrow()}!Y"])
    group = f"({inner}{arrow()}{ends})"
    if inner == "B?":
        group = f"(C{arrow()}{inner}{arrow()}{ends})"
    kind = draw.random()
    if kind < 0.6:
        group += draw.choice(["+", "+", "*", "?", "{2}", "{1,2}", "{2,}", ""])
    elif kind < 0.8:
        group = f"({group[1:-1]} | E)" + draw.choice(["", "+", "{1,2}"])
    elif kind < 0.9:
        group = f"PERMUTE({group}, E)"
    else:
        group = f"({group}{arrow()}E?{arrow()}!Y)+"
    text = draw.choice(["", f"A{arrow()}"]) + group
    final = draw.random() < 0.3
    if not final:
        text += f"{arrow()}{draw.choice(['', '', 'C?' + arrow()])}D{draw.choice(['', '', '+'])}"
    kinds = {
        label: "kind IN (" + ", ".join(map(repr, draw.sample(LETTERS, draw.randint(1, 2)))) + ")"
        for label in "ABCDEXY"
        if label in text.replace("PERMUTE", "")
    }
    pattern = ensue.pattern(text).define(**kinds).partition_by("stream").order_by("id")
    return pattern.within(draw.randint(2, 5)) if final or draw.random() < 0.3 else pattern


def check_group(seed: int) -> int:
    draw = random.Random(seed)
    pattern, rows = random_group(draw), random_rows(draw)
    table = pa.Table.from_pylist([row for stream in rows for row in stream])
    asked = f"seed {seed}: {pattern}"
    wanted = expected(pattern, rows)
    assert listed(pattern.matches(table, as_of="end")) == wanted, asked
    assert pattern.count(table, as_of="end") == len(wanted), asked
    return len(wanted)


def test_a_negated_step_at_the_end_of_a_group() -> None:
    assert sum(map(check_group, SEEDS)) > len(SEEDS)

"""The moving pictures of the Explain pages: what the library answers, one event at a time.

Each is a strip of events and, below it, lines of what is known after each of them; every number
comes from a call. SVG animates by itself, so a page needs no script; where nothing moves (in print,
or where motion is switched off) the last step is shown.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

import ensue

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "explain"
BOX, GAP, LEFT, SECONDS = 40, 8, 16, 2.0
FILLS = {"new": "#ffd479", "kept": "#9fd3a8", "gone": "#eeeeee", "": "#dbe7f5"}


@dataclass(frozen=True)
class Step:
    """One picture of the strip: boxes coloured by place, and lines of text below."""

    lines: Sequence[str]
    colours: dict[int, str]


def strip(boxes: Sequence[str], steps: Sequence[Step]) -> str:
    """The strip as an SVG that shows one step after the other, for ever."""
    widest = max(len(line) for step in steps for line in step.lines)
    width = max(LEFT * 2 + len(boxes) * (BOX + GAP), LEFT * 2 + round(widest * 7.3))
    height = 84 + 18 * max(len(step.lines) for step in steps)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        "<style>text{font:13px monospace;fill:#222}.b{text-anchor:middle;font-weight:bold}"
        ".s{opacity:0;animation-iteration-count:infinite;animation-timing-function:step-end;"
        f"animation-duration:{SECONDS * len(steps):g}s}}"
        + "".join(_keyframes(place, len(steps)) for place in range(len(steps)))
        + f"@media (prefers-reduced-motion:reduce),print{{.s{{animation:none}}"
        f".s{len(steps) - 1}{{opacity:1}}}}</style>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
    ]
    for number, step in enumerate(steps):
        parts.append(f'<g class="s s{number}">')
        for place, text in enumerate(boxes):
            fill = FILLS[step.colours.get(place, "")]
            x = LEFT + place * (BOX + GAP)
            parts.append(
                f'<rect x="{x}" y="14" width="{BOX}" height="{BOX}" rx="5" fill="{fill}" '
                'stroke="#888"/>'
                f'<text class="b" x="{x + BOX / 2:g}" y="39">{escape(text)}</text>'
            )
        for row, line in enumerate(step.lines):
            parts.append(
                f'<text x="{LEFT}" y="{82 + 18 * row}" xml:space="preserve">{escape(line)}</text>'
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _keyframes(place: int, count: int) -> str:
    begin, end = 100 * place / count, 100 * (place + 1) / count
    hidden = "0%{opacity:0}" if place else ""
    after = f"{end:.4g}%{{opacity:0}}" if place + 1 < count else ""
    frames = f"@keyframes k{place}{{{hidden}{begin:.4g}%{{opacity:1}}{after}}}"
    return f"{frames}.s{place}{{animation-name:k{place}}}"


def table(kinds: str, **columns: Any) -> pa.Table:
    return pa.table({"t": range(len(kinds)), "kind": list(kinds), **columns})


def rows() -> str:
    """The trace of a row pattern: which ways are alive after each row."""
    prices = [10, 9, 8, 8, 7, 9]
    data = pa.table({"t": range(len(prices)), "price": prices})
    valley = (
        ensue.pattern("A down+ up")
        .define(down="price < PREV(price)", up="price > PREV(price)")
        .order_by("t")
    )
    steps = []
    trace = valley.trace(data).to_pylist()
    for place in range(len(prices)):
        last = place + 1 == len(prices)  # what is settled after the last row is shown with it
        mine = [row for row in trace if row["row"] == place or (last and row["row"] > place)]
        said = [
            f"{row['action']:8} {' '.join(row['matched'] or []) or '-'}"
            for row in mine
            if row["action"] in ("take", "drop", "complete", "match")
        ]
        found = {r for row in mine if row["action"] == "match" for r in row["rows"]}
        colours = {place: "new"} | dict.fromkeys(found, "kept")
        steps.append(Step([f"A down+ up, row {place}: price {prices[place]}", *said[:4]], colours))
    return strip([str(price) for price in prices], steps)


def match_graph() -> str:
    """Counters at the places of a ->> b+ ->> c: matches of each beginning of the pattern."""
    kinds = "abbabcbc"
    data = table(kinds)
    beginnings = ("a", "a ->> b+", "a ->> b+ ->> c")
    counted = {text: ensue.pattern(text, types="kind").order_by("t") for text in beginnings}
    steps = []
    for place in range(len(kinds)):
        seen = data.slice(0, place + 1)
        lines = [f"{text:16}{int(query.count(seen)):>4}" for text, query in counted.items()]
        steps.append(Step(["beginning       ways", *lines], {place: "new"}))
    return strip(kinds, steps)


def missing() -> str:
    """Sets of events that lack at most one, and what they lack."""
    kinds = "obcwcf"
    data = table(kinds)
    names = {"o": "open", "w": "warm", "c": "close", "f": "cold"}
    data = data.set_column(1, "kind", pa.array([names.get(kind, "other") for kind in kinds]))
    exact = ensue.pattern("open ->> warm ->> close ->> cold", types="kind").order_by("t").within(5)
    near = exact.allow_missing(1)
    steps = []
    for place in range(len(kinds)):
        seen = data.slice(0, place + 1)
        found = near.matches(seen).to_pylist()
        last = [
            f"{' '.join(e['label'] for e in row['events'])}"
            + (f"  (lacks {', '.join(row['missing'])})" if row["missing"] else "  (complete)")
            for row in found
        ]
        title = f"open ->> warm ->> close ->> cold, one may be missing: {len(found)} found"
        steps.append(Step([title, *last[-4:]], {place: "new"}))
    return strip([kind if kind in names else "·" for kind in kinds], steps)


def shared() -> str:
    """Two patterns with one beginning: partial matches they share, and each one's matches."""
    kinds = "abaxbcbd"
    data = table(kinds)
    both = {"Q1": "a ->> b ->> c", "Q2": "a ->> b ->> d"}
    count = {
        text: ensue.pattern(text, types="kind").order_by("t")
        for text in ("a ->> b", *both.values())
    }
    steps = []
    for place in range(len(kinds)):
        seen = data.slice(0, place + 1)
        waits = int(count["a ->> b"].count(seen))
        lines = [f"a ->> b, kept once, serves Q1 and Q2: {waits}"]
        lines += [
            f"{name} {text}: {int(count[text].count(seen))} matches" for name, text in both.items()
        ]
        steps.append(Step(lines, {place: "new"}))
    return strip(kinds, steps)


def summaries() -> str:
    """Five places for A B* C: which events stay, and how many matches they have."""
    kinds = "AABCBCABCA"
    query = ensue.pattern("A B* C", types="kind").select("any").order_by("t").within(10)
    small, full = query.summarize(size=5), query.summarize(size=100)
    steps = []
    data = table(kinds)
    for place in range(len(kinds)):
        for summary in (small, full):
            summary.insert(data.slice(place, 1))
        held = set(small.events()["t"].to_pylist())
        colours = {p: "kept" if p in held else "gone" for p in range(place + 1)}
        lines = [
            f"kept: {len(held)} of {place + 1} events",
            f"matches among them: {small.count()} of {full.count()}",
        ]
        steps.append(Step(lines, colours))
    return strip(kinds, steps)


def automata() -> str:
    """Events out of order: what comes out, and what is withdrawn."""
    arrive = [(1, "a"), (3, "b"), (4, "a"), (2, "x"), (6, "b"), (5, "b")]
    pairs = (
        ensue.Automaton(order_by="t", within=10)
        .arc("q0", "q1", when="kind = 'a'")
        .arc("q1", "q2", when="kind = 'b'")
        .final("q2")
    )
    schema = pa.schema({"t": pa.int64(), "kind": pa.string()})
    matcher = pairs.matcher(schema, speculation=math.inf)
    steps = []
    shown: list[str] = []
    for place, (t, kind) in enumerate(arrive):
        changes = matcher.insert(pa.table({"t": [t], "kind": [kind]}, schema)).to_pylist()
        shown += [f"{c['op']} match from {c['first']} to {c['last']}" for c in changes]
        late = "  (late)" if place and t < max(a for a, _ in arrive[:place]) else ""
        steps.append(Step([f"a, then b: {kind} at time {t}{late}", *shown[-4:]], {place: "new"}))
    return strip([f"{kind}{t}" for t, kind in arrive], steps)


def quantities() -> str:
    """The largest block sum, block by block."""
    from ensue import quantify as q

    values = [2, 3, 0, 1, 4, 2, 0, 5, 0]
    data = pa.table({"x": [float(value) for value in values]})
    inner = q.sum("x", over="x > 0")
    largest = q.iter("max", q.split("a", inner, q.event("x <= 0")))
    steps = []
    best = "-"
    for place in range(len(values)):
        given = largest.eval(data.slice(0, place + 1))
        best = f"{given:g}" if given is not None else best
        block = values[: place + 1]
        since = len(block) - 1 - block[::-1].index(0) if 0 in block else -1
        lines = [f"sum of this block: {sum(block[since + 1 :])}", f"largest so far:    {best}"]
        steps.append(Step(lines, {place: "new"} | ({place: "kept"} if values[place] == 0 else {})))
    return strip([str(value) for value in values], steps)


def paths() -> str:
    """The ends of cast/^cast, hop by hop."""
    edges = [("Alien", "cast", "Weaver"), ("Aliens", "cast", "Weaver"), ("Alien", "cast", "Hurt"),
             ("Scandal", "cast", "Hurt"), ("Aliens", "cast", "Henn")]  # fmt: skip
    subject, relation, object_ = (list(part) for part in zip(*edges, strict=True))
    graph = ensue.graph(pa.table({"subject": subject, "relation": relation, "object": object_}))
    names = list(dict.fromkeys([*subject, *object_]))
    steps = [Step(["start: Alien"], {names.index("Alien"): "new"})]
    for path in ("cast", "cast/^cast", "cast/^cast/cast"):
        found = graph.ends(path, start="Alien", semantics="no_return")["end"].to_pylist()
        lines = [f"{path}: {', '.join(sorted(found))}"]
        steps.append(
            Step(lines, {names.index("Alien"): "new"} | {names.index(n): "kept" for n in found})
        )
    return strip([name[:5] for name in names], steps)


DRAWN: dict[str, Callable[[], str]] = {
    "rows": rows,
    "match-graph": match_graph,
    "missing": missing,
    "shared": shared,
    "summaries": summaries,
    "automata": automata,
    "quantities": quantities,
    "paths": paths,
}


def draw(folder: Path = PICTURES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ensue.errors.NothingMatchesWarning)  # of the first steps
        for name, make in DRAWN.items():
            (folder / f"{name}.svg").write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    draw()

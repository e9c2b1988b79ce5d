"""Best effort on MetaQA: answers under bounds (SHARP, Figures 1, 7 and 16).

Each question comes with three candidate paths: the right one and up to two of other question types
that lead somewhere from its topic (some 2 % of the questions have none such, 9 % one), in random
order. Bounds are shares of what the unbounded search of all candidates needs, on average over
questions: in work (extensions of partial paths), in time (embedding is part of it) and in bytes.
*First* is the share of questions whose ranked first answer is a gold one, *recall* the share of
gold answers found, averaged over questions; both of all questions and of those that got an answer.
*Pooled* is recall over answers. The baselines drop at random or by selectivity and rank in the same
way.

*Ceiling* knows the right path of each question and what it costs, and answers the cheapest
questions until the bound is used up: nobody can do much better. *Floor* is the share of the
unbounded time that weighing the candidates takes: a bound on time below it cannot be held.

Nothing was tuned on `graph-budget`, which asks the test questions; `graph-budget-dev` asks others.
"""

from __future__ import annotations

import random
import warnings
from itertools import product
from typing import Any

import numpy as np
from rich.table import Table

import ensue
from benchmarks.graph import MetaQA, path_of
from benchmarks.harness import CONSOLE, Target, say, write_rows
from benchmarks.rows import Settings

SHARES = (10, 20, 30, 50, 70, 90)
STRATEGIES = ("contribution", "random", "selectivity")
# What the labels mean in plain words: a user knows that, and no question was consulted.
LABEL_TEXTS = {
    "directed_by": "director directors direct directed filmmaker filmmakers",
    "written_by": "writer writers wrote write written screenwriter scriptwriter author",
    "starred_actors": "actor actors act acted star starred stars appear appears cast performer",
    "release_year": "year years release released when date dates",
    "in_language": "language languages spoken speak",
    "has_tags": "tag tags described about topics words",
    "has_genre": "genre genres type types kind kinds sort",
}


def candidates(data: MetaQA, several: bool, seed: int = 7) -> list[ensue.Question]:
    """Three candidates per question; or one, drawn from the three as a single guess would be."""
    rng = random.Random(seed)
    kinds: dict[int, set[str]] = {}
    for question in data.questions:
        kinds.setdefault(question["hops"], set()).add(question["qtype"])
    topics = sorted({question["topic"] for question in data.questions})
    ends = data.graph.ends(data.expressions, start=topics, semantics="no_return")
    pairs = ends.group_by(["query", "start"]).aggregate([])
    leading = set(zip(pairs["query"].to_pylist(), pairs["start"].to_pylist(), strict=True))
    asked = []
    for q in data.questions:
        others = [
            kind
            for kind in sorted(kinds[q["hops"]])
            if kind != q["qtype"] and (kind, q["topic"]) in leading
        ]
        drawn = rng.sample(others, min(2, len(others)))
        paths = [path_of(kind) for kind in (q["qtype"], *drawn)]
        rng.shuffle(paths)
        chosen = paths if several else paths[:1]
        asked.append(ensue.Question(q["question"], q["topic"], tuple(chosen)))
    return asked


def scores(found: Any, data: MetaQA) -> dict[str, float]:
    gold = [set(q["answers"]) for q in data.questions]
    answers = found.answers()
    first = [bool(a) and a[0] in g for a, g in zip(answers, gold, strict=True)]
    hits = [len(set(a) & g) for a, g in zip(answers, gold, strict=True)]
    shares = [h / len(g) for h, g in zip(hits, gold, strict=True)]
    answered = max(sum(bool(a) for a in answers), 1)
    return {
        "first": float(np.mean(first)),
        "of answered": sum(first) / answered,
        "recall": float(np.mean(shares)),
        "recall of answered": sum(shares) / answered,
        "pooled": sum(hits) / sum(len(g) for g in gold),
    }


def ceiling(data: MetaQA, bound: float) -> float:
    """The share of questions whose right paths alone fit into so much work, the cheapest first."""
    right = [ensue.Question("", q["topic"], (path_of(q["qtype"]),)) for q in data.questions]
    costs = np.sort(data.graph.retrieve(right).work)
    return float((np.cumsum(costs) <= bound).mean())


def run_budget(settings: Settings) -> bool:
    """graph-budget  best effort on candidate paths of MetaQA's test questions (--data)"""
    return _all(settings, "test")


def run_dev(settings: Settings) -> bool:
    """graph-budget-dev  the same on MetaQA's dev questions (--data)"""
    return _all(settings, "dev")


def _all(settings: Settings, part: str) -> bool:
    met, rows = True, []
    for hops in ((2,), (3,), (1, 2, 3)):
        data = MetaQA.read(settings.folder, hops, part)
        if data is None:
            return True
        met &= _one(data, part, ", ".join(map(str, hops)), rows)
    write_rows("graph-budget" if part == "test" else "graph-budget-dev", rows)
    return met


def _one(data: MetaQA, part: str, hops: str, rows: list[dict[str, Any]]) -> bool:
    graph, asked = data.graph, candidates(data, True)
    words = {k: v for k, v in LABEL_TEXTS.items() if k in graph.labels}
    graph.retrieve(asked[:10], label_texts=words)
    free = graph.retrieve(asked, label_texts=words)
    work, held = float(free.work.mean()), float(free.bytes.mean())
    floor = free.embedding_seconds / (free.embedding_seconds + free.seconds)
    title = f"MetaQA, {part}, {hops} hops: {len(asked):,} questions"
    table = Table(title=title, title_justify="left")
    columns = ("first", "of answered", "recall", "recall of answered", "pooled")
    for column in ("bound", "strategy", *columns, "us/question"):
        table.add_column(column, justify="right")

    def line(kind: str, share: int, strategy: str, found: Any) -> dict[str, float]:
        got = scores(found, data)
        micro, full = (1e6 * (f.seconds + f.embedding_seconds) / len(asked) for f in (found, free))
        bound = kind if share == 100 else f"{kind} {share} %"
        rows.append(
            {"hops": hops, "kind": kind, "share": share, "strategy": strategy}
            | {"micro": micro, "full": full, **got}
        )
        table.add_row(bound, strategy, *(f"{100 * got[k]:.1f} %" for k in columns), f"{micro:.1f}")
        return got

    single = graph.retrieve(candidates(data, False), label_texts=words)
    line("none, one candidate", 100, "contribution", single)
    line("none, no label texts", 100, "contribution", graph.retrieve(asked))
    line("none", 100, "contribution", free)
    best: dict[tuple[str, int, str], dict[str, float]] = {}
    for kind, share in product(("work", "latency", "memory"), SHARES):
        budget = {
            "work": ensue.Budget(work=work * share / 100),
            "latency": ensue.Budget(latency=f"{share}%"),
            "memory": ensue.Budget(memory=f"{max(1, round(held * share / 100))} B"),
        }[kind]
        for strategy in STRATEGIES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ensue.errors.BoundWarning)  # see the floor
                found = graph.retrieve(asked, label_texts=words, budget=budget, strategy=strategy)
            best[kind, share, strategy] = line(kind, share, strategy, found)
    most = {share: ceiling(data, work * len(asked) * share / 100) for share in SHARES}
    CONSOLE.print(table)
    shown = ", ".join(f"{100 * most[share]:.0f} % at {share} %" for share in SHARES)
    say(f"ceiling of recall by work: {shown}; floor of a bound on time: {100 * floor:.0f} %")
    by_work, by_time = (best[kind, 50, "contribution"] for kind in ("work", "latency"))
    targets = [
        Target("first answers right at 50 % of the work", by_work["first"], 0.95, False),
        Target("first answers right at 50 % of the time", by_time["first"], 0.9, False),
        Target("recall at 50 % of the time", by_time["recall"], 0.7, False),
    ]
    for share in SHARES:
        reached = best["work", share, "contribution"]["recall"] / most[share]
        targets.append(Target(f"of the ceiling at {share} % of the work", reached, 0.7, False))
    for kind, share, other in product(("work", "latency"), SHARES, STRATEGIES[1:]):
        ours, theirs = best[kind, share, "contribution"], best[kind, share, other]
        of = "the work" if kind == "work" else "the time"
        for figure in ("recall", "first"):
            name = f"{figure} ahead of {other} at {share} % of {of}"
            targets.append(Target(name, ours[figure] - theirs[figure], 0.0, False))
    for target in targets:
        CONSOLE.print(f"  {target}", style="green" if target.met else "yellow", highlight=False)
    return all(target.met for target in targets)


COMMANDS = {"graph-budget": run_budget, "graph-budget-dev": run_dev}

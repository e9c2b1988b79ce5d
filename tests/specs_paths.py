"""The path cases of tests/spec_paths, as tables and as the oracle's world."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.oracle_paths import World


@dataclass(frozen=True)
class Case:
    name: str
    edges: tuple[tuple[str, str, str], ...]
    expression: str
    paths: tuple[str, ...]
    since: tuple[int, ...] | None
    ages: dict[str, int] | None
    ask: dict[str, Any]  # start, end, semantics, max_hops

    @property
    def table(self) -> pa.Table:
        source, label, target = zip(*self.edges, strict=True)
        columns: dict[str, Any] = {"subject": source, "relation": label, "object": target}
        if self.since is not None:
            columns["since"] = self.since
        return pa.table(columns)

    @property
    def nodes(self) -> pa.Table | None:
        if self.ages is None:
            return None
        return pa.table({"id": list(self.ages), "age": list(self.ages.values())})

    @property
    def world(self) -> World:
        edges = self.edges if self.since is not None else tuple(dict.fromkeys(self.edges))
        columns = tuple(
            {"label": edge[1]} | ({} if self.since is None else {"since": self.since[at]})
            for at, edge in enumerate(edges)
        )
        names = {name for source, _, target in edges for name in (source, target)}
        ages = {name: {"id": name, "age": (self.ages or {}).get(name)} for name in names}
        return World(edges, columns, ages)


def load() -> list[Case]:
    cases = []
    for path in sorted((Path(__file__).parent / "spec_paths").glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["case"]:
            edges = tuple(tuple(part.split()) for part in entry["edges"].split(";"))
            cases.append(
                Case(
                    f"{path.stem}: {entry['name']}",
                    edges,  # type: ignore[arg-type]
                    entry["expression"],
                    tuple(sorted(entry["paths"])),
                    tuple(entry["since"]) if "since" in entry else None,
                    entry.get("ages"),
                    {k: entry[k] for k in ("start", "end", "semantics", "max_hops") if k in entry},
                )
            )
    return cases


def written(nodes: list[Any], labels: list[str]) -> str:
    """A path as the cases write it."""
    parts = [str(nodes[0])]
    for label, node in zip(labels, nodes[1:], strict=True):
        parts += [label, str(node)]
    return " ".join(parts)


def rows(table: pa.Table) -> tuple[str, ...]:
    return tuple(sorted(written(r["nodes"], r["labels"]) for r in table.to_pylist()))

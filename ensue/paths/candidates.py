"""Candidate expressions as they come, often from a language model: read, repaired or dropped alone.

A label that the graph does not have is read as the nearest one, by the embedder, where the two are
alike enough; `film.written_by` and `writtenBy` become `written_by`. The nearest is looked for among
the labels in words, with and without what `label_texts` adds, and the unknown label is compared as
a whole and by its last part. The expression is then trusted that much less. One that cannot be read
or asked is dropped; the others of its question are asked. All of this is reported.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ensue import errors
from ensue.paths.embed import Remembered
from ensue.paths.plan import PathPlan, Planner
from ensue.query.paths import PathQuery

Read = PathQuery | errors.EnsueError  # of an expression's text

UNKNOWN = ("nearest", "drop", "error")
THRESHOLD = 0.35


@dataclass(frozen=True)
class Repair:
    """What became of an expression that could not be asked as given."""

    query: str
    label: str | None  # that the graph does not have
    read_as: str | None  # the label asked instead; None: the expression was dropped
    similarity: float | None
    reason: str


@dataclass
class Candidates:
    """Expressions that can be asked, by their text, and what was done to the others."""

    queries: dict[str, PathQuery]
    trust: dict[str, float]  # of those with labels read as others: how alike these are
    repairs: list[Repair]
    strict: bool  # nothing is dropped: what is wrong is raised

    def drop(self, text: str, problem: errors.EnsueError, label: str | None = None) -> None:
        if self.strict:
            raise problem
        del self.queries[text]
        self.repairs = [repair for repair in self.repairs if repair.query != text]
        self.repairs.append(Repair(text, label, None, None, problem.problem))

    def plan(self, planner: Planner, groups: Sequence[Iterable[str]], endless: bool) -> PathPlan:
        """The plan of all; an expression that fails by itself is dropped.

        `endless`: walks without a bound on hops, which no loop may have.
        """
        try:
            plan = self._plan(planner, groups)
        except errors.EnsueError:
            if not self._dropped_alone(planner):
                raise
            plan = self._plan(planner, groups)
        if not (endless and plan.automaton.cyclic):
            return plan
        alone = frozenset({0})
        for text, query in list(self.queries.items()):
            if planner.plan([query], [alone]).automaton.cyclic:
                self.drop(text, _endless(text))
        return self._plan(planner, groups)

    def asked(self, groups: Sequence[Iterable[str]]) -> list[frozenset[int]]:
        """Per question: the numbers of its expressions that are left."""
        numbers = {text: number for number, text in enumerate(self.queries)}
        return [frozenset(numbers[text] for text in group if text in numbers) for group in groups]

    def report(self) -> pa.Table:
        columns = {
            "query": pa.string(),
            "label": pa.string(),
            "read_as": pa.string(),
            "similarity": pa.float64(),
            "reason": pa.string(),
        }
        rows = [vars(repair) for repair in self.repairs]
        return pa.Table.from_pylist(rows, pa.schema(list(columns.items())))

    def warn(self) -> None:
        if not self.repairs:
            return
        dropped = [repair.query for repair in self.repairs if repair.read_as is None]
        respelled = {repair.query for repair in self.repairs} - set(dropped)
        shown = self.repairs[0]
        warnings.warn(
            f"{len(respelled)} expressions were read with the nearest labels, {len(dropped)} were "
            f"dropped (of {len(self.queries) + len(dropped)}); the first, {shown.query!r}: "
            f"{shown.reason}. See found.repairs for all",
            errors.CandidateWarning,
            stacklevel=7,
        )

    def _plan(self, planner: Planner, groups: Sequence[Iterable[str]]) -> PathPlan:
        return planner.plan(list(self.queries.values()), list(dict.fromkeys(self.asked(groups))))

    def _dropped_alone(self, planner: Planner) -> bool:
        before = len(self.queries)
        for text, query in list(self.queries.items()):
            try:
                planner.plan([query], [frozenset({0})])
            except errors.EnsueError as problem:
                self.drop(text, problem)
        return len(self.queries) < before


def _endless(text: str) -> errors.UnboundedPathsError:
    return errors.UnboundedPathsError(
        f"the candidate expression {text!r} has a loop without a bound",
        remedy='set max_hops, bound the loop as {1,3}, or use semantics="trail" or "simple"',
    )


def read_candidates(
    read: Mapping[str, Read],
    labels: Sequence[str],
    words: Mapping[str, str],
    embedder: Remembered,
    unknown: str,
    threshold: float,
) -> Candidates:
    """The expressions whose labels the graph has, or has near ones of."""
    if unknown not in UNKNOWN:
        raise errors.QueryError(
            f"unknown={unknown!r} is not a setting", remedy="use " + ", ".join(UNKNOWN)
        )
    if not 0 <= threshold <= 1:
        raise errors.QueryError(
            f"threshold={threshold!r} is not a similarity", remedy="give a number from 0 to 1"
        )
    found = Candidates({}, {}, [], unknown == "error")
    known = set(labels)
    foreign = {
        text: [name for name in query.labels() if name not in known]
        for text, query in read.items()
        if isinstance(query, PathQuery)
    }
    near: dict[str, tuple[str, float]] = {}
    if unknown == "nearest":
        near = nearest_labels([n for names in foreign.values() for n in names], words, embedder)
    for text, query in read.items():
        found.queries[text] = query  # type: ignore[assignment]
        if isinstance(query, errors.EnsueError):
            found.drop(text, query)
        elif not found.strict:
            _repaired(found, text, query, foreign[text], near, threshold)
    return found


def _repaired(
    found: Candidates,
    text: str,
    query: PathQuery,
    foreign: Sequence[str],
    near: Mapping[str, tuple[str, float]],
    threshold: float,
) -> None:
    for name in foreign:
        label, similarity = near.get(name, ("", 0.0))
        if not label or similarity < threshold:
            closest = f"; the nearest, {label!r}, is {similarity:.2f} alike" if label else ""
            absent = f"the graph has no edge labelled {name!r}{closest}"
            found.drop(text, errors.UnknownLabelError(absent), name)
            return
        reason = f"{name!r} is read as {label!r}, which is {similarity:.2f} alike"
        found.repairs.append(Repair(text, name, label, similarity, reason))
        found.trust[text] = min(found.trust.get(text, 1.0), similarity)
    if foreign:
        found.queries[text] = query.relabelled({name: near[name][0] for name in foreign})


def nearest_labels(
    names: Iterable[str], words: Mapping[str, str], embedder: Remembered
) -> dict[str, tuple[str, float]]:
    """Per unknown name the nearest label and how alike they are."""
    distinct = list(dict.fromkeys(names))
    if not distinct or not words:
        return {}
    labels = list(words)
    described = embedder.vectors([*(in_words(label) for label in labels), *words.values()])
    spelled = embedder.vectors(
        [*(in_words(name) for name in distinct), *(_last_part(name) for name in distinct)]
    )
    alike = (spelled @ described.T).reshape(2, len(distinct), 2, len(labels)).max(axis=(0, 2))
    best = alike.argmax(axis=1)
    return {
        name: (labels[at], float(min(max(alike[row, at], 0.0), 1.0)))
        for row, (name, at) in enumerate(zip(distinct, best.tolist(), strict=True))
    }


def in_words(label: str) -> str:
    """`film.writtenBy` as `film written By`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", label).strip()


def _last_part(label: str) -> str:
    return in_words(re.split(r"[./:#]", label.rstrip("./:#"))[-1])

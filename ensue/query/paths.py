"""Path queries: a regular expression over edges, as a frozen tree.

The tree reuses `query.nodes`; a label of it is the number of an `EdgeTest`, what one step may
cross. A path is a sequence of edges, each crossed forwards or backwards, whose tests spell a word
of the expression; it is one path however many ways the expression can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.sql import describe

NODE, SOURCE, EDGE = "node", "source", "edge"  # what a condition of a step may read


class Semantics(Enum):
    """Which walks count as paths."""

    WALK = "walk"  # any
    TRAIL = "trail"  # no edge twice
    SIMPLE = "simple"  # no node twice
    NO_RETURN = "no_return"  # does not come back to its start after the first step


@dataclass(frozen=True)
class EdgeTest:
    """One step: an edge whose label is (or, negated, is not) one of `labels`."""

    labels: tuple[str, ...] = ()
    negated: bool = False  # with no labels: any label
    glob: bool = False  # labels are patterns with * and ?
    backward: bool = False  # from the edge's object to its subject
    condition: c.Condition | None = None  # over `edge`, `node` (arrived at) and `source` (left)

    def __str__(self) -> str:
        """What the step crosses, as it is written in an expression."""
        text = "|".join(self.labels)
        if self.negated:
            text = f"!({text})" if text else "."
        text = ("^" if self.backward else "") + text
        return text if self.condition is None else f"{text}[{describe(self.condition)}]"

    def accepts(self, label: str) -> bool:
        if self.glob:
            found = any(fnmatchcase(label, pattern) for pattern in self.labels)
        else:
            found = label in self.labels
        return found != self.negated

    def inverse(self) -> EdgeTest:
        """The same edge crossed the other way; what was arrived at is now left."""
        swapped = None if self.condition is None else c.transform(self.condition, _swap_ends)
        return replace(self, backward=not self.backward, condition=swapped)


def _swap_ends(node: c.Condition) -> c.Condition | None:
    if isinstance(node, c.Column) and node.name in (NODE, SOURCE):
        return replace(node, name=SOURCE if node.name == NODE else NODE)
    return None


@dataclass(frozen=True)
class PathQuery:
    """An expression: `pattern` over labels "0", "1", ... that number the `tests`."""

    pattern: nodes.Node
    tests: tuple[EdgeTest, ...]
    text: str = ""  # as written, for messages; two spellings of one query are equal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathQuery) and (self.pattern, self.tests) == (
            other.pattern,
            other.tests,
        )

    def __hash__(self) -> int:
        return hash((self.pattern, self.tests))

    def inverse(self) -> PathQuery:
        """The query of the same paths read from their ends."""
        return PathQuery(
            mirrored(self.pattern), tuple(test.inverse() for test in self.tests), f"^({self.text})"
        )

    def relabelled(self, others: Mapping[str, str]) -> PathQuery:
        """The query with other labels in place of some; patterns of labels stay."""
        tests = tuple(
            test if test.glob else replace(test, labels=_renamed(test.labels, others))
            for test in self.tests
        )
        return replace(self, tests=tests)

    def labels(self) -> tuple[str, ...]:
        """Every label the expression names, in order; globs left out."""
        named = (name for test in self.tests if not test.glob for name in test.labels)
        return tuple(dict.fromkeys(named))


def _renamed(labels: tuple[str, ...], others: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(others.get(label, label) for label in labels))


def mirrored(node: nodes.Node) -> nodes.Node:
    """The pattern of the reversed words."""
    turned = nodes.rebuilt(node, mirrored)
    if isinstance(turned, nodes.Concatenation):
        return nodes.Concatenation(turned.parts[::-1], turned.gaps[::-1])
    return turned

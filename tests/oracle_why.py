"""Why the starts of a row pattern failed: brute force, from the definitions.

`_walk` goes every way through the pattern from a start row, the preferred first, and notes what it
waited for wherever a row was refused. The attempt is where that was farthest; of several things
waited for there, the one after which the pattern needs the fewest rows, then the first. A loop's
round is passed down, so that a wait knows that it begins round 2 of at least 3; so is what the rest
of the pattern needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ensue.automaton.conditions import is_row_local
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, WindowKind
from tests import oracle
from tests.oracle import _find_matches, _in_window, _Match, _partitions, _skip

# Labels that the rest of the pattern needs, as few as can be, of several ways the preferred one;
# None: it cannot end. Before the first row, after one, and after `$`.
Word = tuple[str, ...]
Need = tuple[Word | None, Word | None, Word | None]
Round = tuple[int, int, int]  # the row it begins at, rounds before it, the least number
Rest = Callable[[_Match], None]
_DONE: Need = ((), (), ())


@dataclass
class _Wait:
    match: _Match
    label: str  # "$" for the end of the partition
    need: Word
    round: Round | None


def _needs(node: nodes.Node, rest: Need) -> Need:
    """What a part and the rest need."""
    match node:
        case nodes.Label(name=name):
            word = None if rest[1] is None else (name, *rest[1])
            return word, word, None
        case nodes.AnchorStart():
            return rest[0], None, None
        case nodes.AnchorEnd():
            return None, rest[2], rest[2]
        case nodes.Concatenation(parts=parts):
            return _need_all(parts, rest)
        case nodes.Permutation(parts=parts):
            return _least([_need_all(order, rest) for order in permutations(parts)])
        case nodes.Alternation(options=options):
            return _least([_needs(option, rest) for option in options])
        case nodes.Exclusion(part=part):
            return _needs(part, rest)
        case nodes.Repetition(part=part, least=least):
            return _need_all((part,) * least, rest)
    return rest


def _need_all(parts: tuple[nodes.Node, ...], rest: Need) -> Need:
    for part in reversed(parts):
        rest = _needs(part, rest)
    return rest


def _least(ways: list[Need]) -> Need:
    first, free, ended = (
        min((word for word in words if word is not None), key=len, default=None)
        for words in zip(*ways, strict=True)
    )
    return first, free, ended


class _Attempt:
    """Every way from one start."""

    def __init__(self, query: Query, partition: list[dict[str, Any]], start: int, number: int):
        self.waits: list[_Wait] = []
        first = _Match(query, partition, start, number)
        self._walk(query.pattern, first, lambda match: None, _DONE, None)
        deepest = max((len(wait.match.steps) for wait in self.waits), default=0)
        there = [wait for wait in self.waits if len(wait.match.steps) == deepest]
        self.wait = min(there, key=lambda wait: len(wait.need), default=None)

    def _walk(
        self, node: nodes.Node, match: _Match, rest: Rest, need: Need, begun: Round | None
    ) -> None:
        match node:
            case nodes.Empty():
                rest(match)
            case nodes.AnchorStart():
                if match.end == 0:
                    rest(match)
            case nodes.AnchorEnd():
                if match.end == len(match.partition):
                    rest(match)
                elif match.steps and need[2] == ():
                    self.waits.append(_Wait(match, "$", (), None))
            case nodes.Label(name=name):
                if need[1] is None:
                    return  # no row may follow, or `^` would have to: the pattern cannot end
                oracle._patience[0] -= 1
                if oracle._patience[0] < 0:
                    raise oracle.TooLongError
                longer = match.extended(name, False)
                inside = match.end < len(match.partition) and _in_window(longer)
                if inside and longer.value(match.query.definition(name)) is True:
                    rest(longer)
                else:
                    here = begun if begun and begun[0] == match.end else None
                    self.waits.append(_Wait(match, name, (name, *need[1]), here))
            case nodes.Concatenation(parts=parts):
                self._all(parts, match, rest, need, begun)
            case nodes.Permutation(parts=parts):
                for order in permutations(parts):
                    self._all(order, match, rest, need, begun)
            case nodes.Alternation(options=options):
                for option in options:
                    self._walk(option, match, rest, need, begun)
            case nodes.Exclusion(part=part):
                self._walk(part, match, rest, need, begun)
            case nodes.Repetition():
                self._repeat(node, 0, match, rest, need, begun)

    def _all(
        self,
        parts: tuple[nodes.Node, ...],
        match: _Match,
        rest: Rest,
        need: Need,
        begun: Round | None,
    ) -> None:
        if not parts:
            rest(match)
            return
        left = parts[1:]
        self._walk(
            parts[0],
            match,
            lambda longer: self._all(left, longer, rest, need, begun),
            _need_all(left, need),
            begun,
        )

    def _repeat(
        self,
        node: nodes.Repetition,
        done: int,
        match: _Match,
        rest: Rest,
        need: Need,
        begun: Round | None,
    ) -> None:
        def once_more() -> None:
            if node.most is not None and done >= node.most:
                return

            def onward(longer: _Match) -> None:
                if done < node.least or longer.end > match.end:
                    self._repeat(node, done + 1, longer, rest, need, begun)

            asked = (match.end, done, node.least) if 0 < done < node.least else begun
            left = (node.part,) * (node.least - done - 1)
            self._walk(node.part, match, onward, _need_all(left, need), asked)

        if done < node.least:
            once_more()
        elif node.greedy:
            once_more()
            rest(match)
        else:
            rest(match)
            once_more()


def _reason(query: Query, wait: _Wait) -> str:
    match = wait.match
    row = match.end
    if not match.steps:
        return "no start"
    if wait.label == "$":
        return "condition"
    if row == len(match.partition):
        return "end"
    longer = match.extended(wait.label, False)
    if not _in_window(longer):
        if query.within is not None and query.within.kind is not WindowKind.ROWS:
            column = query.order_by[0].column
            if None in (match.partition[match.start][column], match.partition[row][column]):
                return "null"
        return "within"
    if wait.round is not None:
        return "repetition"
    definition = query.definition(wait.label)
    if _later(query, match, wait.label, definition):
        return "not adjacent"
    values = [longer.value(part) for part in c.conjuncts(definition)]
    return "condition" if False in values else "null"


def _later(query: Query, match: _Match, label: str, definition: c.Condition) -> bool:
    """A label that reads its own row alone fits a later row of the window."""

    def own(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, c.Navigate) or node.shift or node.offset:
            return None
        current = node.anchor is c.Anchor.LAST and label in query.members(node.variable)
        return node.argument if current else None

    if not is_row_local(c.transform(definition, own)):
        return False
    for row in range(match.end + 1, len(match.partition)):
        filler = match
        while filler.end < row:
            filler = filler.extended("", False)
        there = filler.extended(label, False)
        if _in_window(there) and there.value(definition) is True:
            return True
    return False


def starts(
    query: Query, partition: list[dict[str, Any]], lacks: bool = False
) -> list[dict[str, Any]]:
    """What is to be said of every start row of a partition; with what it `lacks`."""
    matches = _find_matches(query, partition)
    answers: list[dict[str, Any]] = []
    order = query.order_by[0].column
    for row in range(len(partition)):
        answer = {"row": row, "start": partition[row][order], "matches": 0}
        answer |= dict.fromkeys(("matched", "stopped_at", "variable", "reason"))
        begun = [m for m in matches if m.start == row]
        skipped = [m for m in matches if m.start < row < _skip(m)]
        if begun:
            answer["matched"] = [step.label for step in begun[0].steps]
            answer["matches"] = 1
        elif skipped:
            answer |= {"matched": [], "stopped_at": partition[row][order], "reason": "consumed"}
        else:
            number = 1 + sum(m.start < row for m in matches)
            wait = _Attempt(query, partition, row, number).wait
            if wait is None:
                able = _needs(query.pattern, _DONE)[0] is not None
                answer |= {"variable": "^" if able and row else None, "reason": "no start"}
                answer |= {"matched": [], "stopped_at": partition[row][order]}
            else:
                answer["matched"] = [step.label for step in wait.match.steps]
                stopped = min(wait.match.end, len(partition) - 1)
                answer["stopped_at"] = partition[stopped][order]
                answer["variable"], answer["reason"] = wait.label, _reason(query, wait)
                if lacks and wait.match.steps:
                    answer["missing"] = list(wait.need)
        answers.append(answer)
    return answers


def best(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the starts of a partition: the failed attempt with most rows, of several the latest."""
    names = ("matched", "stopped_at", "variable", "reason")
    failed = [a for a in answers if a["reason"] not in (None, "consumed")]
    found: dict[str, Any] = dict.fromkeys(names)
    if failed:
        chosen = max(failed, key=lambda a: (len(a["matched"]), a["row"]))
        found = {name: chosen[name] for name in names}
    return found | {"matches": sum(a["matches"] for a in answers)}


def why(
    query: Query, rows: list[dict[str, Any]], per: str, patience: int = 10_000_000
) -> list[dict[str, Any]]:
    """The whole answer but its texts."""
    oracle._patience[0] = patience
    found = []
    for partition in _partitions(query, rows):
        keys = {name: partition[0][name] for name in query.partition_by}
        answers = starts(query, partition)
        said = answers if per == "start" else [best(answers)]
        found += [keys | answer for answer in said]
    return found


def nearest(by_key: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Of the answers per start of all partitions, those that lack something, the least first."""
    found = [
        keys | {"lacks": len(answer["missing"])} | answer
        for keys, answers in by_key
        for answer in answers
        if "missing" in answer
    ]
    for answer in found:
        del answer["matches"]
    place = tuple(by_key[0][0]) if by_key else ()
    order = [*place, "row"]
    return sorted(found, key=lambda a: (a["lacks"], -len(a["matched"]), *(a[k] for k in order)))

"""What is missing from the labels of a match: the cheapest way through the links."""

from __future__ import annotations

from collections.abc import Iterable

from ensue.automaton.letters import START, LetterStates, Link
from ensue.query.query import Window, WindowKind

# Of each missing event: minus the number of events before it, so that late ones come first, and its
# label.
Gone = tuple[tuple[int, int], ...]
Answer = tuple[int, int, Gone]  # cost in units, how many are missing, which
Pairs = list[tuple[int, int]]  # label and row of each event of a match


class Words:
    """Answers for lists of labels; each distinct list is worked out once."""

    def __init__(self, states: LetterStates) -> None:
        self._states = states
        self._links: dict[tuple[int, int], list[Link]] = {}
        for links in states.links:
            for link in links:
                self._links.setdefault((link.source, states.letter[link.target]), []).append(link)
        self._known: dict[tuple[int, ...], Answer | None] = {}

    def missing(self, word: tuple[int, ...]) -> Answer | None:
        """Least cost; of equal cost the fewest letters, then the latest places, then the labels."""
        if word not in self._known:
            if len(self._known) > 1 << 18:
                self._known.clear()
            self._known[word] = self._find(word)
        return self._known[word]

    def _find(self, word: tuple[int, ...]) -> Answer | None:
        bound = self._states.bound
        here: dict[int, Answer] = {START: (0, 0, ())}
        for place, label in enumerate(word):
            after: dict[int, Answer] = {}
            for source, answer in here.items():
                for link in self._links.get((source, label), ()):
                    longer = extended(answer, link, place)
                    known = after.get(link.target)
                    if longer[0] <= bound and (known is None or longer < known):
                        after[link.target] = longer
            here = after
        return least(self._states, here.items(), len(word))


def extended(answer: Answer, link: Link, place: int) -> Answer:
    """The answer after a link whose target is the event of that place."""
    cost, count, gone = answer
    if not link.skipped:
        return cost + link.cost, count, gone
    more = tuple((-place, label) for label in link.skipped)
    return cost + link.cost, count + len(more), gone + more


def least(states: LetterStates, ways: Iterable[tuple[int, Answer]], length: int) -> Answer | None:
    """The best of the ways that have come to a state by so many events, and may end there."""
    ends = (
        extended(answer, link, length) for state, answer in ways for link in states.finals[state]
    )
    return min((answer for answer in ends if answer[0] <= states.bound), default=None)


def window_length(window: Window | None) -> float:
    """The most time between the first and the last event of a match; 0 where nothing bounds it."""
    if window is None:
        return 0.0
    return float(window.size - 1 if window.kind is WindowKind.ROWS else window.size)

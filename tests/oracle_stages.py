"""The definition of windows, groups, pipelines and operations, event by event. Never shipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ensue.quantities.groups import Groups
from ensue.quantities.pipes import Joined, Pipe
from ensue.quantities.stages import AutomatonQuestion, Question
from ensue.quantities.windows import Windows
from tests.oracle_quantify import NOTHING, Event, evaluate, value_of


@dataclass
class Told:
    """A value: at which event it is known (None: when the input is over), and what it carries."""

    at: int | None
    value: Any
    carried: Event


def final(stage: Question, events: Sequence[Event]) -> Any:
    """The value of the whole input, or NOTHING."""
    match stage:
        case AutomatonQuestion():
            return evaluate(stage.automaton, events)
        case Windows():
            windows = cut(stage, events)
            if not windows:
                return NOTHING
            closed, inside, _ = windows[-1]
            return final(stage.inner, inside) if closed or stage.partial else NOTHING
        case Pipe():
            return final(stage.second, passed_on(stage, events))
        case Groups():
            if not events:
                return NOTHING
            return final(stage.inner, [e for e in events if same(stage, e, events[-1])])
        case Joined():
            values = [final(part, events) for part in stage.operands]
            return NOTHING if NOTHING in values else stage.operation(*values)
        case _:
            raise AssertionError(stage)


def told(stage: Question, events: Sequence[Event]) -> list[Told]:
    """All values, in the order in which they are known."""
    match stage:
        case AutomatonQuestion():
            values = [evaluate(stage.automaton, events[: i + 1]) for i in range(len(events))]
            return [Told(i, v, events[i]) for i, v in enumerate(values) if v is not NOTHING]
        case Windows():
            return told_by_windows(stage, events)
        case Pipe():
            first = told(stage.first, events)
            second = told(stage.second, passed_on(stage, events))
            return [Told(None if t.at is None else first[t.at].at, t.value, t.carried)
                    for t in second]  # fmt: skip
        case Groups():
            return told_by_groups(stage, events)
        case Joined():
            return told_by_parts(stage, events)
        case _:
            raise AssertionError(stage)


def passed_on(stage: Pipe, events: Sequence[Event]) -> list[Event]:
    return [{**t.carried, "value": t.value} for t in told(stage.first, events)]


def cut(stage: Windows, events: Sequence[Event]) -> list[tuple[bool, list[Event], int]]:
    """Windows: whether an event closed it, its events, and the index after its last event."""
    found: list[tuple[bool, list[Event], int]] = []
    inside: list[Event] = []
    for index, event in enumerate(events):
        size = stage.time
        if size and inside and event[stage.by] // size != inside[0][stage.by] // size:
            found.append((True, inside, index))
            inside = []
        inside.append(event)
        over = len(inside) == stage.rows
        if stage.until is not None:
            over = value_of(stage.until, event) is True
        if over and stage.time is None:
            found.append((True, inside, index + 1))
            inside = []
    if inside:
        found.append((False, inside, len(events)))
    return found


def told_by_windows(stage: Windows, events: Sequence[Event]) -> list[Told]:
    found = []
    for closed, inside, end in cut(stage, events):
        value = final(stage.inner, inside)
        if value is NOTHING or not (closed or stage.partial):
            continue
        carried = inside[-1]
        if stage.time is not None:
            carried = {"window_start": inside[0][stage.by] // stage.time * stage.time}
        elif stage.partial:
            carried = {}
        at = end if stage.time is not None else end - 1
        found.append(Told(at if closed else None, value, carried))
    return found


def same(stage: Groups, one: Event, other: Event) -> bool:
    return all(one[key] == other[key] for key in stage.keys)


def told_by_groups(stage: Groups, events: Sequence[Event]) -> list[Told]:
    found: list[Told] = []
    done: list[Event] = []
    for event in events:
        if any(same(stage, event, other) for other in done):
            continue
        done.append(event)
        places = [i for i, e in enumerate(events) if same(stage, e, event)]
        for t in told(stage.inner, [events[i] for i in places]):
            found.append(Told(None if t.at is None else places[t.at], t.value, t.carried))
    here = sorted((t for t in found if t.at is not None), key=lambda t: t.at or 0)
    return here + [t for t in found if t.at is None]


def told_by_parts(stage: Joined, events: Sequence[Event]) -> list[Told]:
    parts = [told(part, events) for part in stage.operands]
    if len(parts) == 1:
        return [Told(t.at, stage.operation(t.value), t.carried) for t in parts[0]]
    found = []
    for index, event in enumerate(events):
        values = [next((t.value for t in part if t.at == index), NOTHING) for part in parts]
        if NOTHING not in values:
            found.append(Told(index, stage.operation(*values), event))
    whole = final(stage, events)
    if whole is not NOTHING and any(t.at is None for part in parts for t in part):
        found.append(Told(None, whole, {}))
    return found

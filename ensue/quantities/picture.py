"""What a query shows of itself: each automaton, and in it those that it invokes.

Windows, groups, pipelines and operations hold what they are made of.
"""

from __future__ import annotations

from itertools import count

from ensue.automaton import view
from ensue.quantities.model import Automaton, Invocation, Silent, Step, Transition
from ensue.quantities.stages import AutomatonQuestion, Question


def view_of(stage: Question) -> view.View:
    """The stage with everything inside; invocations are numbered through."""
    return _stage(stage, count(1))


def _stage(stage: Question, numbers: count[int]) -> view.View:
    if isinstance(stage, AutomatonQuestion):
        return _automaton(stage.automaton, numbers)
    parts = tuple(_stage(part, numbers) for part in stage.parts())
    return view.View(title=stage.title(), parts=parts)


def _automaton(automaton: Automaton, numbers: count[int]) -> view.View:
    places = {state: index for index, state in enumerate(automaton.states)}
    states = []
    for state in places:
        marks = (view.START,) * (state in automaton.initial)
        states.append(view.State(state, marks=marks + (view.ACCEPT,) * (state in automaton.final)))
    arcs, parts = [], []
    for transition in automaton.transitions:
        number = 0
        if isinstance(transition, Invocation):
            number = next(numbers)
            inner = tuple(_automaton(part, numbers) for part in transition.automata)
            parts.append(view.View(title=f"{number}: {transition.operation}", parts=inner))
        source, target = places[transition.source], places[transition.target]
        faint = isinstance(transition, Silent)
        arcs.append(view.Arc(source, target, _text(transition, number), faint))
    return view.View(tuple(states), tuple(arcs), title=automaton.name, parts=tuple(parts))


def _text(transition: Transition, number: int) -> str:
    folds = "; ".join(f"{a.fold} {', '.join(map(str, a.weights))}" for a in transition.actions)
    match transition:
        case Step():
            what = str(transition.predicate)
        case Silent():
            what = "ε"
        case _:
            what = f"call {number}"
    return f"{what} ↦ {folds}" if folds else what

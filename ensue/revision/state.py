"""State of the AFA operator as Arrow IPC bytes: its arrays, arcs, rows and numbers.

Arrays are written as they are, up to their highest row in use. Conditions of arcs travel as stored
queries do (`query/stored.py`), never as text to be run; an arc with a Python function is written
by its name and taken from the automaton that is given when the state is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ensue import errors
from ensue.automaton.registers import Arc, RegisterAutomaton
from ensue.operator import state
from ensue.query import condition as c
from ensue.query import nodes, stored
from ensue.query.query import Query
from ensue.revision.code import Code
from ensue.revision.kernels import layout
from ensue.revision.kernels.store import Store
from ensue.revision.operator import Operator
from ensue.scalar import kinds as k
from ensue.scalar.infer import typed

KIND = state.Kind("revision", version=2, oldest=2)
_PLAIN = ("source", "target", "epsilon", "closing", "name", "pattern", "since", "till")  # fmt: skip
_HIGH = {"events": layout.HIGH_EVENT, "nodes": layout.HIGH_NODE, "edges": layout.HIGH_EDGE}


def conditions_to_json(conditions: Iterable[tuple[str, c.Condition]]) -> Any:
    """Named conditions, carried by a query that has nothing else."""
    return json.loads(stored.to_json(Query(nodes.Empty(), define=tuple(conditions))))


def conditions_from_json(told: Any) -> tuple[tuple[str, c.Condition], ...]:
    return stored.from_json(json.dumps(told)).define


def arc_to_json(arc: Arc) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(arc, name) for name in _PLAIN}
    values = [("when", arc.when), *((f"set {name}", value) for name, value in arc.set)]
    if arc.transfer is not None or any(callable(value) for _, value in values):
        return found | {"function": True}
    given = [(name, value) for name, value in values if isinstance(value, c.CONDITIONS)]
    return found | {"conditions": conditions_to_json(given)}


def arc_from_json(told: dict[str, Any], known: Iterable[Arc]) -> Arc:
    plain = {name: told[name] for name in _PLAIN}
    if told.get("function"):
        for arc in known:
            if arc.name == told["name"]:
                return Arc(**plain, when=arc.when, set=arc.set, transfer=arc.transfer)
        raise errors.StateError(
            f"the arc {told['name']!r} of the stored state is a Python function, and the automaton "
            "has no arc of that name",
            remedy="restore with the automaton that the state was written by",
        )
    when: c.Condition | None = None
    changes = []
    for name, condition in conditions_from_json(told["conditions"]):
        if name == "when":
            when = condition
        else:
            changes.append((name.removeprefix("set "), condition))
    return Arc(**plain, when=when, set=tuple(changes))


def fingerprint_of(
    machine: RegisterAutomaton, timing: Any, *more: str, whole: bool = False
) -> stored.Fingerprint:
    """Names an automaton by hand; its arcs, which may change, only where it is taken as a whole."""
    fields = [[field.name, str(field.kind), str(field.initial)] for field in machine.fields]
    told = [fields, [str(value) for value in vars(timing).values()], more]
    if whole:
        told += [json.dumps([arc_to_json(arc) for arc in machine.arcs]), sorted(machine.finals)]
    return stored.fingerprint(None, *told)


def to_bytes(operator: Operator) -> bytes:
    """The whole state of an operator."""
    control = operator.store.control
    arrays = {
        name: whole[: max(1, int(control[_HIGH[name]]))] if name in _HIGH else whole
        for name, whole in operator.store._asdict().items()
    }
    chunks = list(operator.rows.chunks())
    texts = operator.code.texts.values
    if not all(isinstance(value, str) for value in texts):
        raise errors.StateError(
            "a field of the register holds a value that cannot be stored",
            remedy="keep numbers, times and strings in the register",
        )
    machine = operator.machine
    told = {
        "arcs": [arc_to_json(arc) for arc in operator.arcs],
        "finals": sorted(machine.finals),
        "starts": list(machine.begins),
        "states": operator.code.states,
        "texts": texts,
        "tests": [
            None if test is None else conditions_to_json([("test", test)])
            for test in operator.code.tests
        ],
        "inputs": conditions_to_json(
            (str(place), item.expression) for place, item in enumerate(operator.code.inputs)
        ),
        "watermark": operator.watermark,
        "arc_watermark": operator.arc_watermark,
        "newest": operator.newest,
        "next_event": operator.next_event,
        "ignoring": operator.ignoring,
        "retracted": operator.retracted_keys(),
        "chunks": [[first, latest] for first, latest, _ in chunks],
    }
    rows = {f"rows {place}": table for place, (_, _, table) in enumerate(chunks)}
    return state.pack(KIND, {"told": told, **arrays, **rows})


def from_bytes(operator: Operator, blob: bytes) -> None:
    """Put a state into an operator that has just been made."""
    parts = state.unpack(KIND, blob)
    told = parts.json("told")
    for place, (first, latest) in enumerate(told["chunks"]):
        operator.rows.add(first, parts.table(f"rows {place}"), latest)
    arcs = [arc_from_json(arc, operator.machine.arcs) for arc in told["arcs"]]
    _fill_code(operator.code, told)
    operator.resume(arcs, told, Store(*map(parts.array, Store._fields)))


def _fill_code(code: Code, told: dict[str, Any]) -> None:
    """Bits, columns, states and texts mean what they meant."""
    code.tests = [
        None if test is None else conditions_from_json(test)[0][1] for test in told["tests"]
    ]
    kind_of = code.machine.kind_of(code.kinds)
    code.inputs.clear()
    for _, expression in conditions_from_json(told["inputs"]):
        kind = typed(expression, kind_of).kind
        code.input(expression, k.DOUBLE if kind.name == "float" else kind)
    for text in told["texts"]:
        code.texts.code(text)
    code.forget_states()
    for name in told["states"]:
        code.state(name)

"""Machine code of queries: made by LLVM when a query is first asked, kept for the next time.

LLVM takes tens of milliseconds for a query; Numba, which compiles the interpreter of
`kernels/loop.py` once per machine, takes seconds. Nothing is written to disk, and no text of the
user's is compiled: what is emitted follows from the arrays of the program alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numpy.typing import NDArray

from ensue.guards.operators import TooHardError
from ensue.quantities.generated.emit import CARRIED, PART, ROW, STRANGE, Walk
from ensue.quantities.generated.steps import Node, Nodes
from ensue.quantities.kernels import loop as vm
from ensue.quantities.memory import Indices, Kept

BYTES, WIDE = 8, 16  # predicates that fit a letter of one byte, and of two
_KEPT = 256  # functions that are kept in this process
_Bits = NDArray[np.int64]
_Marks = NDArray[np.uint8]


@cache
def _initialized() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _machine() -> Any:
    """Of this processor; an engine takes one with it when it goes."""
    _initialized()
    target = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=2)


class Compiled:
    """A function of one pointer; the engine lives as long as this."""

    def __init__(self, module: ir.Module, name: str) -> None:
        machine = _machine()
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        options = binding.create_pipeline_tuning_options(speed_level=2)
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        self._engine = binding.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address(name)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)

    def __call__(self, arguments: Sequence[int]) -> int:
        given = np.array(arguments, np.int64)
        return int(self._call(given.ctypes.data))  # without Python's lock


LOCK = threading.RLock()  # LLVM is asked for one thing at a time


class Inputs(NamedTuple):
    """A letter per event, and a column per weight."""

    letters: NDArray[Any]
    weights: list[_Bits]
    marks: list[_Marks | None]  # None: nothing is null

    @property
    def nullable(self) -> frozenset[int]:
        return frozenset(i for i, mark in enumerate(self.marks) if mark is not None)


class Native:
    """The machine code of one program over inputs of which some may be null."""

    def __init__(self, program: vm.Program, nullable: frozenset[int], wide: bool) -> None:
        self.nodes = Nodes(program, nullable)
        self.program, self.wide = program, wide
        self._walks: dict[tuple[bool, bool], Compiled] = {}
        self._known = np.zeros(1 << (WIDE if wide else BYTES), np.bool_)

    def entries(self, kept: Kept, places: Indices, fresh: NDArray[np.bool_]) -> Indices:
        """Where each partition enters: at the root, or at the node that its kept tokens make."""
        found = np.full(len(places), self.nodes.root, np.int64)
        if fresh.all():
            return found
        occupied = kept.occupied[places[~fresh]]
        packed = np.packbits(occupied, axis=1)
        alike = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, which = np.unique(alike, return_index=True, return_inverse=True)
        ways = [tuple(np.flatnonzero(occupied[row]).tolist()) for row in first.tolist()]
        numbers = [self._number(Node(states, True, ())) for states in ways]
        found[~fresh] = np.array(numbers, np.int64)[which]
        return found

    def blank(self, number: int) -> int:
        """The node with the same tokens, of whose slots nothing is known."""
        return self.blank_of(self, number)

    def blank_of(self, other: Native, number: int) -> int:
        """The same, of a node of other code for the same program."""
        return self._number(other.nodes.nodes[number]._replace(marks=()))

    def _number(self, node: Node) -> int:
        number = self.nodes.number(node)
        if number is None:
            self._add((), [node])
            number = self.nodes.number(node)
            assert number is not None
        return number

    def add(self, letters: NDArray[Any]) -> None:
        """Moves for these letters."""
        strange = letters[~self._known[letters]]
        if len(strange):
            found = np.unique(strange)
            self._add(found.tolist(), ())
            self._known[found] = True

    def _add(self, letters: Sequence[int], entries: Sequence[Node]) -> None:
        with LOCK:
            if self.nodes.add(letters, entries):
                self._walks = {}

    def _walk(self, streaming: bool, keeping: bool) -> Compiled:
        with LOCK:
            found = self._walks.get((streaming, keeping))
            if found is None:
                module = ir.Module("query")
                Walk(module, self.nodes, self.wide, streaming, keeping)
                found = self._walks[streaming, keeping] = Compiled(module, "walk")
            return found

    def run(
        self, inputs: Inputs, starts: Indices, entries: Indices, keep: Indices, kept: Kept,
        carry: Carry, stays_open: bool, streaming: bool, keeping: bool,
        outputs: tuple[_Bits, _Marks, _Bits, _Marks],
    ) -> int:  # fmt: skip
        """DONE, or a fault, whose row is then in `carry.place[ROW]`.

        `outputs` are those per row, then those per partition. A partition that `stays_open` is left
        in `carry`, from where an entry CARRIED goes on.
        """
        letters = inputs.letters
        if keeping or not self.nodes.letters:
            self.add(letters)  # all of them, before anything that is kept changes
        begin = 0
        while True:
            count = len(starts) - 1 - begin
            fixed = [
                starts.ctypes.data + 8 * begin,
                entries.ctypes.data + 8 * begin,
                keep.ctypes.data + 8 * begin,
                letters.ctypes.data,
                kept.occupied.ctypes.data,
                kept.bits.ctypes.data,
                kept.marks.ctypes.data,
                outputs[0].ctypes.data,
                outputs[1].ctypes.data,
                outputs[2].ctypes.data + 8 * begin,
                outputs[3].ctypes.data + begin,
                carry.bits.ctypes.data,
                carry.marks.ctypes.data,
                carry.place.ctypes.data,
                int(stays_open),
            ]
            bits = [column.ctypes.data for column in inputs.weights]
            nulls = [0 if mark is None else mark.ctypes.data for mark in inputs.marks]
            status = self._walk(streaming, keeping)([count, *fixed, *bits, *nulls])
            if status != STRANGE:
                return status
            # A letter that has no moves yet: go on at its row once it has.
            begin += int(carry.place[PART])
            row = int(carry.place[ROW])
            self.add(letters[row:])
            starts, entries = starts.copy(), entries.copy()
            starts[begin], entries[begin] = row, CARRIED


class Carry:
    """A partition that is left in the middle: its slots, and at `place` its node."""

    def __init__(self, slots: int) -> None:
        self.bits = np.zeros(max(1, slots), np.int64)
        self.marks = np.zeros(max(1, slots), np.uint8)
        self.place = np.zeros(3, np.int64)


_MADE: OrderedDict[Any, Any] = OrderedDict()


def made(key: Any, make: Callable[[], Any]) -> Any:
    """What was made for this key before, or is made now; the oldest goes when there are many."""
    with LOCK:
        if key not in _MADE:
            _MADE[key] = make()
            if len(_MADE) > _KEPT:
                _MADE.popitem(last=False)
        _MADE.move_to_end(key)
        return _MADE[key]


def native(program: vm.Program, nullable: frozenset[int], predicates: int) -> Native:
    """The code of a program, which queries that are equal share; or `TooHardError`."""
    if predicates > WIDE:
        raise TooHardError(f"it has more than {WIDE} predicates")
    digest = hashlib.blake2b(digest_size=16)
    for part in program:
        digest.update(repr(np.shape(part)).encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    wide = predicates > BYTES
    key = "walk", digest.digest(), nullable, wide
    found = made(key, lambda: Native(program, nullable, wide))
    assert isinstance(found, Native)
    return found

"""Kernels that can be stopped: what they call in their longest loops.

`asked()` is one load of a word that is almost always 0 (`ensue/stopping.py` sets it). Where it is
not, the kernel takes Python's lock and lets the handlers of signals run, in the main thread, as
they would between two lines of Python. It is told to return where a handler raised, or the deadline
has passed; its caller then calls `stopping.look()`, which raises. Handlers that raise nothing let
the kernel go on. Nothing is raised inside a kernel: Numba would not let go of the arrays it made.

The words are known to the machine code by name (`llvmlite.binding.add_symbol`), so that kernels of
the disk cache find those of this process. See docs/decisions/0150.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.extending import intrinsic

from ensue import stopping
from ensue.kernels.calls import inner, inner_inlined

_intrinsic: Any = intrinsic
_config: Any = config
_SIZE, _SLOT, _STOP, _TIMED_OUT = stopping.SIZE, stopping.SLOT, stopping.STOP, stopping.TIMED_OUT


def _address(builder: Any, index: Any) -> Any:
    module = builder.module
    words = module.globals.get("ensue_stop_words")
    if words is None:
        words = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(64), _SIZE), "ensue_stop_words")
        words.linkage = "external"
    return builder.gep(words, [ir.Constant(ir.IntType(64), 0), index], inbounds=True)


@_intrinsic
def _word(context: Any, index: Any) -> Any:
    """One of the words, read anew each time."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(builder, args[0]))
        value.volatile = True
        return value

    return types.int64(types.int64), generate


@_intrinsic
def _set_word(context: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[1], _address(builder, args[0]))
        stored.volatile = True
        return context.get_dummy_value()

    return _void(types.int64, types.int64), generate


@_intrinsic
def _put_aside(context: Any, index: Any) -> Any:
    """Moves the exception of this thread into three words."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        module, word = builder.module, ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word.as_pointer()] * 3)
        fetch = module.globals.get("PyErr_Fetch") or ir.Function(module, kind, "PyErr_Fetch")
        places = [builder.add(args[0], ir.Constant(word, part)) for part in range(3)]
        builder.call(fetch, [_address(builder, place) for place in places])
        return context.get_dummy_value()

    return _void(types.int64), generate


_function: Any = types.ExternalFunction
_void: Any = types.void
_thread = _function("PyThread_get_thread_ident", types.int64())
_take_lock = _function("PyGILState_Ensure", types.int32())
_let_go = _function("PyGILState_Release", _void(types.int32))
_run_handlers = _function("PyErr_CheckSignals", types.int32())


@inner
def _has_to_stop():  # type: ignore[no-untyped-def]
    """Does what the slot of this thread asks; whether the kernel should return."""
    mine, others = _thread(), False
    for slot in range(1, _SIZE, _SLOT):
        what = _word(slot + 1)
        if what == 0:
            continue
        if _word(slot) != mine:
            others = True
            continue
        _set_word(slot + 1, 0)
        if what == _STOP:
            _set_word(slot + 2, _TIMED_OUT)
            return True
        held = _take_lock()
        raised = _run_handlers() != 0
        if raised:
            _put_aside(slot + 2)
        _let_go(held)
        if raised:
            return True
    if not others:
        _set_word(0, 0)
    return False


@inner_inlined
def _asked():  # type: ignore[no-untyped-def]
    return _word(0) != 0 and _has_to_stop()


def asked_in_python() -> bool:
    """`asked` of a kernel that runs as plain Python, which cannot call the compiled one."""
    stopping.look()
    return False


if _config.DISABLE_JIT:
    asked: Any = asked_in_python
else:
    asked = _asked
binding.add_symbol("ensue_stop_words", ctypes.addressof(stopping.WORDS))

"""Kernels that only kernels call are compiled up to the point where a caller takes them in.

Numba makes machine code of each function, and of all that it calls: of a function five calls deep
five times over. Nobody runs the code of the inner ones, as their callers link the bitcode. So here
an inner kernel stays bitcode, and machine code is made of those that Python calls.

It is optimised all the same: where only the callers were, compiling took 0.85 of the time, but a
correlated event pattern 1.5 times as long to run, and ever after.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core import caching, compiler
from numba.core.codegen import JITCodeLibrary

_KIND = "ensue: linked"


class _Codegen:
    """Numba's own, for a library that the engine does not have: it has no place for its globals."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Only an entry from Python reads it."""


class Linked(JITCodeLibrary):
    """Code that is only linked into that of others."""

    @property
    def codegen(self) -> Any:
        return _Codegen(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        self._ensure_finalized()
        return self.name, _KIND, self._get_module_for_linking().as_bitcode()

    @classmethod
    def restored(cls, codegen: Any, name: str, bitcode: bytes) -> Linked:
        found = cls(codegen, name)
        found._final_module = found._shared_module = binding.parse_bitcode(bitcode)
        found._finalize_final_module()
        return found


class Inner(compiler.Compiler):
    """Numba's compiler, into such a library."""

    def compile_extra(self, func: Any) -> Any:
        self.state.library = Linked(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _Context:
    """A target whose code generator restores such a library."""

    def __init__(self, own: Any, library: Linked) -> None:
        self._own = own
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, _: Any) -> Linked:
        return self._library


class _Kept(caching.CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        name, _, bitcode = payload[0]
        library = Linked.restored(target_context.codegen(), name, bitcode)
        found = super().rebuild(_Context(target_context, library), payload)
        return found._replace(target_context=target_context)


class Cache(caching.FunctionCache):
    """Numba's cache of a kernel that may be linked."""

    _impl_class = _Kept

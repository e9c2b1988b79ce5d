"""Files of Numba's cache that cannot be read are compiled again, and never stop a start.

Numba unpickles the index of a kernel before it looks whether it still fits. A file that was cut
(by a full disk, by a machine that went down), or that names a class which this version of Ensue no
longer has, raised from there at every start, until somebody removed it. Here such a kernel is one
that was never compiled: its index is emptied, in one rename, so that processes which do this at the
same time only compile twice. What cannot be kept is used all the same.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import Any

from numba.core import caching

from ensue.kernels import given

_OWN = "ensue"


def mend(cache: Any) -> None:
    """Let caches of this class, those of kernels of Ensue, take unreadable files for none."""
    load, save = cache.load_overload, cache.save_overload

    @wraps(load)
    def loaded(self: Any, sig: Any, target_context: Any) -> Any:
        if not _is_own(self):
            return load(self, sig, target_context)
        try:
            found = load(self, sig, target_context)
            if found is None:
                return given.load(self, sig, target_context)
            # Two processes that write at once may leave the code of one signature under another.
            if found.signature.args == tuple(getattr(sig, "args", sig)):
                return found
        except Exception:  # unpickling raises any
            pass
        with suppress(OSError):
            self.flush()
        return None

    @wraps(save)
    def saved(self: Any, sig: Any, data: Any) -> None:
        if not _is_own(self):
            save(self, sig, data)
            return
        with suppress(OSError):  # a full disk, or a folder that is read-only by now
            try:
                save(self, sig, data)
            except OSError:
                raise
            except Exception:  # another process may have written an index of its own version
                self.flush()
                save(self, sig, data)

    cache.load_overload, cache.save_overload = loaded, saved


def _is_own(cache: Any) -> bool:
    module = getattr(getattr(cache, "_py_func", None), "__module__", None) or ""
    return bool(module.partition(".")[0] == _OWN)


if hasattr(caching, "FunctionCache"):
    mend(caching.FunctionCache)

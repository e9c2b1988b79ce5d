"""Front ends: any syntax to one `Query`. They hold no semantics."""

import logging
import sys


def _not_for_ensue(record: logging.LogRecord) -> bool:
    """Whether nobody but its user speaks to sqlglot: what Ensue asks of it, Ensue answers for."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("ensue."):
            return False
    return True


logging.getLogger("sqlglot").addFilter(_not_for_ensue)

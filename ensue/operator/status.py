"""What a row of a result stands for: one list of words for SQL, patterns and streams."""

from __future__ import annotations

from collections.abc import Iterable

from ensue import errors

STATUS = "status"  # the column
MATCHED, TIMEOUT = "matched", "timeout"  # a match; a partial match that ran out of its window
OPEN = "open"  # a partial match, or a final absence, whose window is not known to be over
LATE, REJECTED, REFUSED = "late", "rejected", "refused edit"  # rows of a stream that came to naught
SHED = "shed"  # what a budget left out


def check_free(names: Iterable[str]) -> None:
    """Raises where the result of `timeouts=True` has a column of that name already."""
    for name in names:
        if name.casefold() == STATUS:
            raise errors.DuplicateNameError(
                f"timeouts=True adds the column {STATUS!r}, and the result already has {name!r}",
                remedy="give the column of the input, or the measure, another name",
            )

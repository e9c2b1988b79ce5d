"""What a row of a result stands for: one list of words for SQL, patterns and streams."""

from __future__ import annotations

STATUS = "status"  # the column
MATCHED, TIMEOUT = "matched", "timeout"  # a match; a partial match that ran out of its window
OPEN = "open"  # a partial match, or a final absence, whose window is not known to be over
LATE, REJECTED, REFUSED = "late", "rejected", "refused edit"  # rows of a stream that came to naught
SHED = "shed"  # what a budget left out

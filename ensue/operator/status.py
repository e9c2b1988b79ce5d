"""What a row of a result stands for: one list of words for SQL, patterns and streams."""

from __future__ import annotations

STATUS = "status"  # the column
MATCHED, TIMEOUT = "matched", "timeout"  # a match; a partial match that ran out of its window
LATE, REJECTED, REFUSED = "late", "rejected", "refused edit"  # rows of a stream that came to naught

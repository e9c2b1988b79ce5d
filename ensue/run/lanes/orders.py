"""Orders of a control directory that change patterns: read, put in order, carried out or refused.

Whatever an order holds, the stream goes on: an order is replayed with every restart, so one that
raised would end the stream for good. What goes wrong while it is carried out is its refusal, of
whichever class the error is, and the stage is then as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ensue import errors
from ensue.run.lanes.lane import is_end
from ensue.run.lanes.work import Stage

SQL, JSON, DROP = "sql", "json", "drop"
MAX_TEXT = 4_000_000  # characters of an order
_NAME = re.compile(r"^0*([0-9]{1,18})-([A-Za-z_]\w*)\.(sql|json|drop)$")
_SHOWN = 2_000  # characters of a reason, and 200 of a file's name


@dataclass(frozen=True)
class Edit:
    """An order to change a pattern: the name of its file, and what is in it."""

    number: int
    name: str
    kind: str
    text: str

    @staticmethod
    def of(order: str) -> Edit:
        file, _, text = order.partition("\n")
        told = _NAME.match(file)
        if told is None:
            raise errors.QueryError(
                f"{file[:200]!r} does not name an edit",
                remedy="name files NUMBER-NAME.sql, .json or .drop: 00000002-funnel.sql; a number "
                "has at most 18 digits",
            )
        if len(text) > MAX_TEXT:
            raise errors.LimitError(
                f"the edit has {len(text):,} characters; the limit is {MAX_TEXT:,}",
                remedy="split the pattern, or compute parts of it into columns first",
            )
        return Edit(int(told[1]), told[2], told[3], text)


def carried_out(
    orders: Sequence[str], edit: Callable[[Edit], None], stage: Stage
) -> list[dict[str, str]]:
    """Edits in the order of their numbers; those that cannot be carried out, with the reason."""
    refused = []
    for order in sorted((order for order in orders if not is_end(order)), key=_number):
        before = stage.save()
        try:
            edit(Edit.of(order))
        except Exception as problem:
            refused.append({"order": order.partition("\n")[0][:200], "error": reason(problem)})
            if not isinstance(problem, errors.EnsueError):
                stage.load(before)  # it may have been in the middle of a change
    return refused


def reason(problem: Exception) -> str:
    """The text of a refusal: never longer than a line of a log should be."""
    told = str(problem)
    if isinstance(problem, RecursionError):
        told = "it nests too deeply to be read"
    elif not isinstance(problem, errors.EnsueError):
        told = f"it cannot be carried out ({type(problem).__name__}: {told})"
    return told if len(told) <= _SHOWN else told[:_SHOWN] + " ..."


def check_number(edit: Edit, versions: Mapping[str, int]) -> None:
    """Edits are numbered upwards, and only a pattern that is there can be dropped."""
    current = versions.get(edit.name)
    if current is not None and edit.number <= current:
        raise errors.QueryError(
            f"{edit.name} is in version {current}, and the edit is number {edit.number}",
            remedy="edits are numbered upwards: use Control(...).put",
        )
    if current is None and edit.kind == DROP:
        raise errors.QueryError(
            f"there is no pattern {edit.name!r}",
            remedy=f"there are {', '.join(versions) or 'none'}",
        )


def _number(order: str) -> tuple[int, str]:
    told = _NAME.match(order.partition("\n")[0])
    return (int(told[1]) if told else 0, order)

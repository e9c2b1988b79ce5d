"""Two versions of a pattern side by side, and what a budget would give up."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ensue import errors
from ensue.operator.budget import Budget
from ensue.studio.answer import Answer
from ensue.studio.found import MAX_PAGE
from ensue.studio.reading import settled

Tell = Callable[[int, int | None, str], None]
Named = dict[tuple[Any, ...], tuple[int, int]]


def compare(one: Answer, other: Answer, limit: int) -> dict[str, Any]:
    """Matches that appear and disappear when `other` takes the place of `one`.

    A match is the rows of the table that it holds, each with its variable.
    """
    before, after = _named(one), _named(other)
    gone = [before[name] for name in before if name not in after]
    come = [after[name] for name in after if name not in before]
    most = min(limit, MAX_PAGE)
    changes = [_change(one, "-", match) for match, _ in gone[:most]]
    changes += [_change(other, "+", match) for match, _ in come[:most]]
    changes.sort(key=lambda change: (change["key"], change["rows"]))
    cut = None
    if one.listing.cut or other.listing.cut:
        cut = "one of the two has more matches than are kept, and only those are compared"
    elif len(gone) > most or len(come) > most:
        cut = f"the first {most:,} of each are listed"
    return {
        "appear": len(come),
        "disappear": len(gone),
        "stay": len(before) - len(gone),
        "changes": changes,
        "cut": cut,
    }


def _named(answer: Answer) -> Named:
    """Matches by the rows of the table that they hold."""
    listing, rows = answer.listing, answer.rows
    keys = np.repeat(listing.key, np.diff(listing.offsets))
    places = rows.index[rows.starts[keys] + listing.row].tolist()
    labels = [answer.variables[label] for label in listing.label]
    found: Named = {}
    for match in range(len(listing)):
        events = listing.events(match)
        name = tuple(sorted(zip(places[events], labels[events], strict=True)))
        found[name] = (match, int(listing.key[match]))
    return found


def _change(answer: Answer, op: str, match: int) -> dict[str, Any]:
    listing, rows = answer.listing, answer.rows
    key = int(listing.key[match])
    events = listing.events(match)
    at = rows.at[rows.starts[key] + listing.row[events]]
    known = at[np.isfinite(at)]
    return {
        "op": op,
        "key": key,
        "label": rows.labels[key],
        "number": int(listing.number[match]),
        "from": float(known.min()) if len(known) else None,
        "to": float(known.max()) if len(known) else None,
        "rows": listing.row[events].tolist(),
        "labels": [answer.variables[label] for label in listing.label[events]],
    }


def cost(answer: Answer, budget: Any, tell: Tell) -> dict[str, Any]:
    """What the query costs by stage, and with a budget which share of the matches stays."""
    stages: list[dict[str, Any]] = []

    def timed(name: str, work: Callable[[], Any]) -> Any:
        tell(len(stages), None, name)
        begin = time.perf_counter()
        found = work()
        stages.append({"name": name, "seconds": round(time.perf_counter() - begin, 4)})
        return found

    fresh = Answer(answer.pattern, answer.table, answer.rows)
    timed("conditions", lambda: fresh.fits)
    timed("matches", lambda: fresh.listing)
    timed("measures", lambda: fresh.result)
    seconds = sum(stage["seconds"] for stage in stages)
    rows = answer.table.num_rows
    told: dict[str, Any] = {
        "rows": rows,
        "rows_per_second": round(rows / seconds) if seconds else None,
        "matches": answer.total,
        "partial_matches": None,
        "bytes": int(answer.table.nbytes),
        "stages": stages,
        "recall": None,
        "kept": None,
        "explain": str(answer.pattern.explain()),
        "notes": [],
    }
    if budget:
        told |= _under(answer, str(budget), timed)
    return told


def _under(answer: Answer, budget: str, timed: Any) -> dict[str, Any]:
    """Matches that a bound on the work leaves."""
    if answer.query.row_semantics:
        raise errors.UnsupportedError(
            "a row pattern takes a budget in a stream or workload only",
            remedy="write an event pattern (->) to see what a budget would cost",
        )
    bounded = settled(answer.plain)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kept = timed(
            f"under {budget}", lambda: bounded.matches(answer.table, budget=Budget(work=budget))
        )
    share = min(1.0, kept.num_rows / answer.total) if answer.total else 1.0
    notes = list(dict.fromkeys(str(warning.message) for warning in told))
    return {"kept": kept.num_rows, "recall": round(share, 4), "notes": notes}

"""Matches drawn on a timeline: one lane per partition, one dot per row, one bracket per match.

Reads the plain listing of matches (`events` with label and row), so it works for every evaluator.
What does not fit on a page is left out and the title says so: partitions with matches come first,
then those without, in the order of the data.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.extras import needed

MAX_LANES = 20
MAX_ROWS = 2_000  # in one lane
_LEVELS = 4  # of brackets over one another, for matches that overlap

# Okabe and Ito's colours, which the colour-blind can tell apart, then repeats in lighter tones.
_COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#7f3c8d"),
    *("#7fb8d8", "#f2cf80", "#80cfb9", "#eaaf80"),
)
_GREY = "#b4bac3"
_INK = "#3a4250"
_LISTING = ("match_number", "first", "last", "events")


def draw_timeline(
    events: pa.Table,
    matches: pa.Table,
    *,
    partition: str | None,
    order: str,
    value: str | None = None,
    path: str | Path,
    descending: bool = False,
) -> None:
    """Draws `matches` (the listing without measures) over `events`; the suffix of `path` decides.

    `value` names a numeric column to draw as a line in each lane. `partition` None is one lane.
    """
    Timeline(events, matches, partition, order, value, descending).save(path)


class Timeline:
    """Matches drawn over their rows; shows itself in a notebook."""

    def __init__(
        self,
        events: pa.Table,
        matches: pa.Table,
        partition: str | None,
        order: str,
        value: str | None = None,
        descending: bool = False,
    ) -> None:
        _check(events, matches, partition, order, value)
        self._drawn = (events, matches, partition, order, value, descending)

    @cached_property
    def svg(self) -> str:
        out = io.BytesIO()
        _save(_draw(*self._drawn), out, "svg")
        return out.getvalue().decode()

    def save(self, path: str | Path) -> None:
        """As .png, .svg or .pdf."""
        kind = _kind_of(Path(path))
        _save(_draw(*self._drawn), Path(path), kind)

    def __repr__(self) -> str:
        number = self._drawn[1].num_rows
        return f"<ensue timeline of {number:,} matches: save('timeline.svg') writes it>"

    def _repr_svg_(self) -> str:
        return self.svg


def _draw(
    events: pa.Table,
    matches: pa.Table,
    partition: str | None,
    order: str,
    value: str | None,
    descending: bool,
) -> Any:
    events = _in_order(events, order, descending)
    lanes = _lanes(events, matches, partition)
    shown = lanes[:MAX_LANES]
    numbers = _positions(events[order])
    figure, axes = _page(len(shown), value is not None)
    colours = _colours(matches)
    cut = False
    for lane, key in enumerate(shown):
        here = _rows_of(events, partition, key)
        cut |= len(here) > MAX_ROWS
        here = here[:MAX_ROWS]
        values = None
        if value is not None:
            column = pc.cast(events[value], pa.float64(), safe=False)
            values = column.to_numpy(zero_copy_only=False)[here]
        found = _matches_of(matches, partition, key)
        _draw_lane(axes, len(shown) - 1 - lane, numbers[here], values, found, colours)
    _finish(axes, events[order], shown, partition, order, colours)
    axes.set_title(_title(matches, lanes, partition, cut), fontsize=9, color=_INK, loc="left")
    return figure


def _check(
    events: pa.Table, matches: pa.Table, partition: str | None, order: str, value: str | None
) -> None:
    for name in (partition, order, value):
        if name is not None and name not in events.column_names:
            raise errors.UnknownColumnError(
                f"the events have no column {name!r}; they have {', '.join(events.column_names)}",
                remedy="name one of these columns",
            )
    if value is not None and not _is_number(events.schema.field(value).type):
        raise errors.ColumnTypeError(
            f"the column {value!r} is of type {events.schema.field(value).type} and cannot be "
            "drawn as a line",
            remedy="give value= a numeric column, or leave it out",
        )
    wanted = _LISTING if partition is None else (partition, *_LISTING)
    missing = [name for name in wanted if name not in matches.column_names]
    if missing:
        raise errors.UnknownColumnError(
            f"the matches have no column {', '.join(map(repr, missing))}, which a timeline needs",
            remedy="list them without measures: q.matches(events) of a query with no measures()",
        )


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _in_order(events: pa.Table, order: str, descending: bool) -> pa.Table:
    # The runners sort stably with nulls first when ascending, as Spark does.
    direction = "descending" if descending else "ascending"
    keys = {
        "null": pc.is_null(events[order]),
        "order": events[order],
        "row": pa.array(np.arange(events.num_rows)),
    }
    nulls = "ascending" if descending else "descending"
    positions = pc.sort_indices(
        pa.table(keys), sort_keys=[("null", nulls), ("order", direction), ("row", "ascending")]
    )
    return events.take(positions)


def _lanes(events: pa.Table, matches: pa.Table, partition: str | None) -> list[Any]:
    if partition is None:
        return [None]
    with_matches = pc.unique(matches[partition]).to_pylist()
    return list(dict.fromkeys(with_matches + pc.unique(events[partition]).to_pylist()))


def _rows_of(events: pa.Table, partition: str | None, key: Any) -> NDArray[np.int64]:
    if partition is None:
        return np.arange(events.num_rows)
    return np.flatnonzero(_equal(events[partition], key))


def _matches_of(matches: pa.Table, partition: str | None, key: Any) -> list[dict[str, Any]]:
    if partition is not None:
        matches = matches.filter(pa.array(_equal(matches[partition], key)))
    return matches.select(_LISTING).to_pylist()


def _equal(column: pa.ChunkedArray, key: Any) -> NDArray[np.bool_]:
    if key is None:
        same = pc.is_null(column)
    elif isinstance(key, float) and math.isnan(key):
        same = pc.is_nan(column)
    else:
        same = pc.equal(column, pa.scalar(key, column.type))
    return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _positions(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Places on the horizontal axis; rows whose order value is no number stand one by one."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # Days since 1970, matplotlib's own unit.
        moments = column.cast(pa.timestamp("us")).to_numpy()
        days = (moments - np.datetime64(0, "us")) / np.timedelta64(1, "D")
        return np.asarray(days, dtype=np.float64)
    if _is_number(kind):
        places = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(places, dtype=np.float64)
    return np.arange(len(column), dtype=np.float64)


def _colours(matches: pa.Table) -> dict[str, str]:
    labels = pc.unique(pc.struct_field(pc.list_flatten(matches["events"]), "label")).to_pylist()
    return {label: _COLOURS[i % len(_COLOURS)] for i, label in enumerate(labels)}


def _page(lanes: int, tall: bool) -> tuple[Any, Any]:
    needed("matplotlib", "a picture of matches over time")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.4 + lanes * (1.1 if tall else 0.5)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _draw_lane(
    axes: Any,
    base: int,
    places: NDArray[np.float64],
    values: NDArray[np.float64] | None,
    found: Sequence[dict[str, Any]],
    colours: dict[str, str],
) -> None:
    heights = np.full(len(places), base + 0.35)
    if values is not None:
        low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
        span = high - low if high > low else 1.0
        heights = base + 0.1 + 0.55 * (values - low) / span
    axes.plot(places, heights, color=_GREY, linewidth=0.9, zorder=1)
    axes.scatter(places, heights, s=9, color=_GREY, zorder=2)
    busy = [-np.inf] * _LEVELS
    for match in found:
        pairs = [(e["label"], e["row"]) for e in match["events"] or () if e["row"] < len(places)]
        if not pairs:
            continue
        rows = np.array([row for _, row in pairs])
        shades = [colours[label] for label, _ in pairs]
        axes.scatter(places[rows], heights[rows], s=26, color=shades, zorder=3)
        left, right = float(places[rows].min()), float(places[rows].max())
        level = next((n for n in range(_LEVELS) if busy[n] < left), _LEVELS - 1)
        busy[level] = max(busy[level], right)
        top = base + 0.76 + 0.05 * level
        foot = top - 0.05
        axes.plot([left, left, right, right], [foot, top, top, foot], color=_INK, linewidth=1.0)
        if len(found) <= 30:
            middle = (left + right) / 2
            text = str(match["match_number"])
            axes.text(middle, top + 0.01, text, ha="center", va="bottom", size=6, color=_INK)


def _finish(
    axes: Any,
    ordered: pa.ChunkedArray,
    shown: Sequence[Any],
    partition: str | None,
    order: str,
    colours: dict[str, str],
) -> None:
    from matplotlib.lines import Line2D

    lanes = len(shown)
    axes.set_ylim(-0.1, lanes + 0.05)
    names = [""] if partition is None else [_short(key) for key in shown]
    axes.set_yticks([lanes - 1 - lane + 0.35 for lane in range(lanes)])
    # parse_math off, here and below: a `$` in the data is not the start of a formula.
    axes.set_yticklabels(names, parse_math=False)
    kind = ordered.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        axes.xaxis_date()
    elif not _is_number(kind):
        order += " (by rank)"
    axes.set_xlabel(order, parse_math=False, fontsize=9)
    axes.tick_params(labelsize=8, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for lane in range(1, lanes):
        axes.axhline(lane - 0.04, color="#e6e9ee", linewidth=0.8, zorder=0)
    if colours:
        dots = [
            Line2D([], [], marker="o", linestyle="", color=colour) for colour in colours.values()
        ]
        style = {"loc": "lower right", "bbox_to_anchor": (1, 1), "frameon": False, "fontsize": 8}
        legend = axes.legend(dots, [" "] * len(dots), ncols=min(8, len(dots)), **style)
        for text, label in zip(legend.get_texts(), colours, strict=True):
            text.set_parse_math(False)
            text.set_text(_short(label))


def _short(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 24 else text[:23] + "…"


def _title(matches: pa.Table, lanes: Sequence[Any], partition: str | None, cut: bool) -> str:
    parts = [f"{matches.num_rows:,} matches"]
    if partition is not None:
        shown = min(len(lanes), MAX_LANES)
        which = f"{shown:,} of {len(lanes):,}" if shown < len(lanes) else f"{shown:,}"
        parts.append(f"{which} partitions")
    if cut:
        parts.append(f"the first {MAX_ROWS:,} rows of each")
    return ", ".join(parts)


def _kind_of(path: Path) -> str:
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise errors.UnsupportedError(
            f"a timeline cannot be saved as {path.name!r}: {path.suffix or 'no suffix'} is not "
            "one of .png, .svg, .pdf",
            remedy="give the file one of these suffixes",
        )
    return kind


def _save(figure: Any, target: Path | io.BytesIO, kind: str) -> None:
    import matplotlib

    # Neither a date nor random identifiers: the same matches give the same file.
    dates = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "ensue"}):
        figure.savefig(target, format=kind, dpi=130, facecolor="white", metadata=dates[kind])

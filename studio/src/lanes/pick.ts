// What stands under the pointer, and what comes next on the keyboard.

import type { LaneMatch, Points } from "../protocol";
import type { Selection } from "../state/studio";
import { AXIS, GUTTER, shapeOf } from "./draw";
import type { LanesModel } from "./model";

const NEAR = 9; // pixels

/** The event, match or key at a place of the canvas. */
export function pick(model: LanesModel, x: number, y: number): Selection | null {
  if (y < AXIS) return null;
  const index = Math.floor((y - AXIS + model.scroll) / model.laneHeight);
  const info = model.keyAt(index);
  if (!info) return null;
  const { key, label } = info;
  const lane = model.lanes.get(key)?.lane;
  if (!lane || x < GUTTER) return { key, label };
  const inside = y - AXIS + model.scroll - index * model.laneHeight;
  const place = x - GUTTER;
  const over = inside < shapeOf(model.laneHeight).bracket + 6;
  if (lane.points && !over) {
    const i = nearest(lane.points, model, place);
    if (i !== null) {
      const row = lane.points.row[i]!;
      const at = lane.points.at[i]!;
      return { key, label, row, at, match: matchOf(lane.matches, row) };
    }
  }
  const match = lane.matches
    .filter(({ from, to }) => {
      const [x1, x2] = [model.camera.x(from, model.width), model.camera.x(to, model.width)];
      return place >= x1 - 6 && place <= x2 + 6;
    })
    .sort((a, b) => a.to - a.from - (b.to - b.from))[0];
  return match ? { key, label, match: match.number } : { key, label };
}

function nearest(points: Points, model: LanesModel, place: number): number | null {
  const at = model.camera.at(place, model.width);
  const i = lower(points.at, at);
  let best: number | null = null;
  let least = NEAR;
  for (const one of [i - 1, i]) {
    if (one < 0 || one >= points.at.length) continue;
    const away = Math.abs(model.camera.x(points.at[one]!, model.width) - place);
    if (away <= least) {
      least = away;
      best = one;
    }
  }
  return best;
}

function lower(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function matchOf(matches: readonly LaneMatch[], row: number): number | undefined {
  return matches.find((one) => one.rows.includes(row))?.number;
}

/** The event before or after the chosen one, or the first in view. */
export function neighbour(model: LanesModel, chosen: Selection, step: 1 | -1): Selection | null {
  const lane = model.lanes.get(chosen.key)?.lane;
  const points = lane?.points;
  if (!points?.row.length) return null;
  let i: number;
  if (chosen.row === undefined) {
    const edge = step > 0 ? model.camera.from : model.camera.to;
    i = lower(points.at, edge) - (step > 0 ? 0 : 1);
  } else {
    const before = points.row.indexOf(chosen.row);
    i = before < 0 ? lower(points.at, model.camera.from) : before + step;
  }
  const row = points.row[i];
  if (row === undefined) return null;
  const match = matchOf(lane?.matches ?? [], row);
  return { key: chosen.key, label: chosen.label, row, at: points.at[i], match, reveal: true };
}

/** The match before or after the chosen one in its lane. */
export function nextMatch(model: LanesModel, chosen: Selection, step: 1 | -1): Selection | null {
  const matches = model.lanes.get(chosen.key)?.lane.matches ?? [];
  const sorted = [...matches].sort((a, b) => a.number - b.number);
  const before = sorted.findIndex((one) => one.number === chosen.match);
  const match = before < 0 ? sorted[step > 0 ? 0 : sorted.length - 1] : sorted[before + step];
  if (!match) return null;
  return {
    key: chosen.key,
    label: chosen.label,
    match: match.number,
    at: match.from,
    reveal: true,
  };
}

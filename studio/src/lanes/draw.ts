// Draws lanes: a row of marks per key, brackets over its matches, counts where marks would not fit.

import type { Buckets, Change, KeyInfo, LaneMatch, Points } from "../protocol";
import type { Path, Selection } from "../state/studio";
import { BUCKET, type Held, type LanesModel } from "./model";
import { type Colours, SHADES, shade } from "./palette";
import type { Surface } from "./surface";
import { ticks } from "./ticks";

export const GUTTER = 150; // pixels of the labels on the left
export const AXIS = 26; // of the axis on top

export interface Scene {
  model: LanesModel;
  colours: Colours;
  palette: Map<string, number>;
  selection: Selection | null;
  expected: { key: number; rows: number[] } | null;
  path: Path | null;
  changes: ReadonlyMap<number, readonly Change[]>;
  focused: boolean;
}

/** Where a lane's parts are, from its top. */
export function shapeOf(height: number) {
  const tall = height >= 26;
  return { middle: tall ? height * 0.66 : height * 0.6, bracket: tall ? 9 : 3, tall };
}

export function draw(surface: Surface, scene: Scene): void {
  const { model, colours } = scene;
  const { width, height, laneHeight } = model;
  const whole = GUTTER + width;
  surface.rects(colours.back, [0, 0, whole, AXIS + height]);
  const marks = ticks(model.axis, model.camera.from, model.camera.to, Math.max(2, width / 110));
  surface.within(0, AXIS, whole, height, () => {
    for (const index of model.seen()) {
      if (index % 2) {
        surface.rects(colours.band, [
          0,
          AXIS + index * laneHeight - model.scroll,
          whole,
          laneHeight,
        ]);
      }
    }
    surface.lines(
      colours.line,
      1,
      marks.flatMap(({ at }) => {
        const x = Math.round(GUTTER + model.camera.x(at, width)) + 0.5;
        return x < GUTTER ? [] : [x, AXIS, x, AXIS + height];
      }),
    );
    for (const index of model.seen()) {
      const info = model.keyAt(index);
      if (info) drawLane(surface, scene, info, AXIS + index * laneHeight - model.scroll);
    }
  });
  for (const { at, text } of marks) {
    const x = GUTTER + model.camera.x(at, width);
    if (x < GUTTER + 14 || x > whole - 14) continue;
    surface.text(text, x, 17, { colour: colours.quiet, size: 11, align: "center" });
  }
  if (model.total > 0) {
    const lanes = `${model.total.toLocaleString("en")} ${model.total === 1 ? "lane" : "lanes"}`;
    const about = model.far ? `${lanes} · counts` : lanes;
    surface.text(about, 10, 17, { colour: colours.quiet, size: 11, room: GUTTER - 16 });
  }
  surface.lines(colours.line, 1, [0, AXIS - 0.5, whole, AXIS - 0.5]);
  surface.lines(colours.line, 1, [GUTTER - 0.5, 0, GUTTER - 0.5, AXIS + height]);
}

function drawLane(surface: Surface, scene: Scene, info: KeyInfo, top: number): void {
  const { model, colours, selection } = scene;
  const { laneHeight: height, width } = model;
  const chosen = selection?.key === info.key;
  if (chosen) surface.rects(colours.accent, [0, top, 3, height]);
  drawLabel(surface, scene, info, top);
  const held = model.lanes.get(info.key);
  surface.within(GUTTER, top, width, height, () => {
    const { middle } = shapeOf(height);
    surface.lines(colours.line, 1, [GUTTER, top + middle, GUTTER + width, top + middle]);
    if (!held) return;
    if (held.lane.buckets) drawBuckets(surface, scene, held, held.lane.buckets, top);
    drawMatches(surface, scene, held.lane.matches, info.key, top);
    if (held.lane.points) drawPoints(surface, scene, held.lane.points, info.key, top);
    drawChanges(surface, scene, scene.changes.get(info.key) ?? [], top);
    if (scene.path?.key === info.key) drawPath(surface, scene, scene.path, top);
  });
}

function drawLabel(
  surface: Surface,
  { model, colours, selection }: Scene,
  info: KeyInfo,
  top: number,
) {
  const { laneHeight: height } = model;
  const tall = height >= 30;
  const baseline = top + (tall ? height / 2 - 1 : height / 2 + 4);
  const bold = selection?.key === info.key;
  const count = info.matches ? String(info.matches) : "";
  const room = GUTTER - 22 - (tall ? 0 : count.length * 7 + 6);
  const size = height < 14 ? 9 : 12;
  if (height >= 10) {
    surface.text(info.label || "all rows", 10, baseline, {
      colour: colours.text,
      size,
      bold,
      room,
    });
  }
  if (tall) {
    const matches = `${info.matches} ${info.matches === 1 ? "match" : "matches"}`;
    const below = `${info.rows.toLocaleString("en")} rows · ${matches}`;
    surface.text(below, 10, baseline + 13, {
      colour: colours.quiet,
      size: 10.5,
      room: GUTTER - 16,
    });
  } else if (count && height >= 10) {
    surface.text(count, GUTTER - 8, baseline, { colour: colours.quiet, size, align: "right" });
  }
}

function drawBuckets(
  surface: Surface,
  { model, colours, palette }: Scene,
  held: Held,
  buckets: Buckets,
  top: number,
): void {
  const { camera, width, laneHeight: height } = model;
  const count = Math.max(1, Math.floor(held.width / BUCKET));
  const step = (held.to - held.from) / count;
  const wide = (step / camera.span) * width;
  const bottom = top + height - 2;
  const room = height - (height >= 26 ? 13 : 3);
  const most = Math.sqrt(Math.max(1, ...buckets.rows));
  const names = Object.keys(buckets.counts);
  const starting = buckets.matches.reduce((total, one) => total + one, 0);
  const unbracketed = starting > held.lane.matches.length;
  const bars = new Map<string, number[]>();
  const put = (colour: string, rect: number[]): void => {
    const flat = bars.get(colour);
    if (flat) flat.push(...rect);
    else bars.set(colour, rect);
  };
  for (let i = 0; i < buckets.at.length; i += 1) {
    const x = GUTTER + camera.x(held.from + buckets.at[i]! * step, width);
    if (x + wide < GUTTER || x > GUTTER + width) continue;
    const rows = buckets.rows[i]!;
    const high = Math.max(1.5, (Math.sqrt(rows) / most) * room);
    const bar = Math.max(1, wide - (wide > 3 ? 0.8 : 0));
    let y = bottom;
    let left = rows;
    for (const name of names) {
      const share = Math.min(left, buckets.counts[name]![i] ?? 0);
      if (!share) continue;
      const part = (share / rows) * high;
      y -= part;
      left -= share;
      put(shade(colours, palette.get(name) ?? names.indexOf(name)), [x, y, bar, part]);
    }
    if (left > 0) {
      const part = (left / rows) * high;
      put(colours.dot, [x, y - part, bar, part]);
    }
    if (unbracketed && buckets.matches[i]) put(colours.text, [x, top + 2, bar, 2]);
  }
  for (const [colour, flat] of bars) surface.rects(colour, flat, colour === colours.dot ? 0.7 : 1);
}

function drawMatches(
  surface: Surface,
  { model, colours, selection }: Scene,
  matches: readonly LaneMatch[],
  key: number,
  top: number,
): void {
  const { camera, width, laneHeight: height } = model;
  const { bracket, tall } = shapeOf(height);
  const ends: number[] = [];
  const lines: number[] = [];
  for (const match of matches) {
    const x1 = GUTTER + camera.x(match.from, width) - 5;
    const x2 = GUTTER + camera.x(match.to, width) + 5;
    if (x2 < GUTTER || x1 > GUTTER + width) continue;
    const chosen = selection?.key === key && selection.match === match.number;
    if (chosen) surface.rects(colours.accent, [x1, top + 1, x2 - x1, height - 2], 0.16);
    // Brackets that overlap stand on up to three levels.
    let level = ends.findIndex((end) => end < x1);
    if (level < 0) level = ends.length;
    if (level > (tall ? 2 : 0)) continue;
    ends[level] = x2 + 2;
    const y = Math.round(top + bracket - level * 3) + 0.5;
    if (chosen) surface.lines(colours.accent, 2.5, [x1, y, x2, y]);
    lines.push(x1, y, x2, y, x1, y, x1, y + 4, x2, y, x2, y + 4);
    const measures = Object.entries(match.measures);
    if (height >= 50 && level === 0 && measures.length && x2 - x1 > 60) {
      const text = measures.map(([name, value]) => `${name} ${value ?? "null"}`).join(" · ");
      surface.text(text, x1 + 6, y + 12, { colour: colours.quiet, size: 10.5, room: x2 - x1 - 10 });
    }
  }
  surface.lines(colours.text, 1.25, lines);
}

function drawPoints(
  surface: Surface,
  { model, colours, selection, expected }: Scene,
  points: Points,
  key: number,
  top: number,
): void {
  const { camera, width, laneHeight: height } = model;
  const y = top + shapeOf(height).middle;
  const size = Math.max(1.5, Math.min(5.5, height * 0.14));
  const plain: number[] = [];
  const fitting: number[][] = [];
  const labelled: number[][] = [];
  const rings: number[] = [];
  const wanted: number[] = [];
  const hoped = expected?.key === key ? new Set(expected.rows) : null;
  for (let i = 0; i < points.at.length; i += 1) {
    const x = GUTTER + camera.x(points.at[i]!, width);
    if (x < GUTTER - 8 || x > GUTTER + width + 8) continue;
    const label = points.label[i];
    const fits = points.fits[i]?.find((one) => model.telling.has(one));
    if (label !== null && label !== undefined) add(labelled, label, x, y);
    else if (fits !== undefined) add(fitting, fits, x, y);
    else plain.push(x, y);
    if (selection?.key === key && selection.row === points.row[i]) rings.push(x, y);
    if (hoped?.has(points.row[i]!)) wanted.push(x, y);
  }
  surface.marks(0, colours.dot, size * 0.62, plain);
  const shades = model.shades;
  // Fits a variable, in no match: its shape, small and faint beside the labelled ones.
  fitting.forEach((flat, variable) => {
    const index = shades[variable] ?? variable;
    surface.marks(index % SHADES, shade(colours, index), size * 0.6, flat, 0.6);
  });
  labelled.forEach((flat, variable) => {
    const index = shades[variable] ?? variable;
    surface.marks(index % SHADES, colours.back, size + 1.4, flat);
    surface.marks(index % SHADES, shade(colours, index), size, flat);
  });
  surface.rings(colours.accent, size + 3.5, rings);
  surface.rings(colours.bad, size + 3.5, wanted, true);
}

const DASH = 5; // pixels, and as much between two

/** Below the events: solid bars are matches that appear, dashed ones those that disappear. */
function drawChanges(
  surface: Surface,
  { model, colours }: Scene,
  changes: readonly Change[],
  top: number,
): void {
  const { camera, width, laneHeight: height } = model;
  const thick = height >= 26 ? 3 : 1.5;
  for (const { op, from, to } of changes) {
    const x1 = Math.max(GUTTER, GUTTER + camera.x(from, width) - 3);
    const x2 = Math.min(GUTTER + width, GUTTER + camera.x(to, width) + 3);
    if (!(x2 > x1)) continue;
    // Both may stand at one place: what disappears is above what appears.
    const y = top + height - (op === "+" ? 1 : 2) * (thick + 1);
    if (op === "+") surface.rects(colours.good, [x1, y, x2 - x1, thick]);
    else {
      const dashes: number[] = [];
      for (let x = x1; x < x2; x += 2 * DASH) dashes.push(x, y, Math.min(DASH, x2 - x), thick);
      surface.rects(colours.bad, dashes);
    }
  }
}

/** The rows of an attempt or a match on a line, each in its colour, and a cross where it ended. */
function drawPath(
  surface: Surface,
  scene: Scene,
  { at, labels, stopped }: Path,
  top: number,
): void {
  const { model, colours, palette } = scene;
  const { camera, width, laneHeight: height } = model;
  const y = top + shapeOf(height).middle;
  const size = Math.max(2, Math.min(5.5, height * 0.14));
  const xs = at.map((one) => GUTTER + camera.x(one, width));
  const steps = xs.slice(1).flatMap((x, i) => [xs[i]!, y, x, y]);
  surface.lines(colours.accent, 2, steps);
  if (stopped !== null) {
    const x = GUTTER + camera.x(stopped, width);
    const last = xs.at(-1);
    if (last !== undefined) surface.lines(colours.bad, 1, [last, y, x, y]);
    const arm = size + 1;
    surface.lines(colours.bad, 2.5, [x - arm, y - arm, x + arm, y + arm]);
    surface.lines(colours.bad, 2.5, [x - arm, y + arm, x + arm, y - arm]);
  }
  xs.forEach((x, i) => {
    const index = palette.get(labels[i]!) ?? 9;
    surface.marks(index % SHADES, colours.back, size + 1.4, [x, y]);
    surface.marks(index % SHADES, shade(colours, index), size, [x, y]);
  });
}

function add(groups: number[][], index: number, x: number, y: number): void {
  const flat = groups[index];
  if (flat) flat.push(x, y);
  else groups[index] = [x, y];
}

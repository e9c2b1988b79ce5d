// Marks of the axis at round places, and how a place is written.

import type { Axis } from "../protocol";

export interface Tick {
  at: number;
  text: string;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  SECOND,
  2 * SECOND,
  5 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
];

export function ticks(axis: Axis, from: number, to: number, wanted: number): Tick[] {
  if (!(to > from)) return [];
  return axis === "time" ? times(from, to, wanted) : numbers(axis, from, to, wanted);
}

function numbers(axis: Axis, from: number, to: number, wanted: number): Tick[] {
  const rough = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10);
  if (axis === "rank") step = Math.max(1, Math.round(step));
  const marks: Tick[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i += 1) {
    marks.push({ at: i * step, text: written(i * step, step) });
  }
  return marks;
}

function written(value: number, step: number): string {
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

function times(from: number, to: number, wanted: number): Tick[] {
  const rough = (to - from) / wanted;
  if (rough > 20 * DAY) return months(from, to, rough);
  if (rough < 1)
    return numbers("number", from, to, wanted).map(({ at }) => ({ at, text: clock(at, 0) }));
  const step = STEPS.find((one) => one >= rough) ?? 14 * DAY;
  const marks: Tick[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i += 1) {
    marks.push({ at: i * step, text: clock(i * step, step) });
  }
  return marks;
}

function months(from: number, to: number, rough: number): Tick[] {
  const apart = [1, 2, 3, 6, 12, 24, 60, 120, 600].find((one) => one * 30 * DAY >= rough) ?? 1200;
  const first = new Date(from);
  const marks: Tick[] = [];
  for (
    let month = Math.ceil(first.getUTCMonth() / apart) * apart;
    marks.length < 200;
    month += apart
  ) {
    const at = Date.UTC(first.getUTCFullYear(), month, 1);
    if (at > to) break;
    if (at >= from) {
      marks.push({ at, text: new Date(at).toISOString().slice(0, apart % 12 ? 7 : 4) });
    }
  }
  return marks;
}

function clock(at: number, step: number): string {
  const text = new Date(at).toISOString();
  if (step >= DAY || (step >= HOUR && at % DAY === 0)) return text.slice(5, 10);
  if (step >= MINUTE) return text.slice(11, 16);
  return step >= SECOND ? text.slice(11, 19) : text.slice(11, 23);
}

/** A place in full. */
export function placed(axis: Axis, at: number): string {
  if (axis === "rank") return `row ${at}`;
  if (axis === "number") return String(at);
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  return date
    .toISOString()
    .replace("T", " ")
    .replace(/(\.000)?Z$/, "");
}

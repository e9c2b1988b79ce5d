// Small parts that several panes use.

import type { ComponentChildren } from "preact";
import type { Cell, Problem } from "../protocol";
import { useStudio } from "../state/hooks";
import { wasCancelled } from "../state/tasks";

export function ErrorNote({ problem, again }: { problem: Problem | null; again?: () => void }) {
  if (!problem) return null;
  const cancelled = wasCancelled(problem);
  return (
    <div class={cancelled ? "note" : "note bad"} role={cancelled ? "status" : "alert"}>
      <p>{cancelled ? "Cancelled: what you see may be incomplete." : problem.message}</p>
      {problem.remedy && <p class="quiet">{problem.remedy}</p>}
      {again && (
        <button type="button" onClick={again}>
          Ask again
        </button>
      )}
    </div>
  );
}

export function Notes({ notes }: { notes: readonly (string | null | undefined)[] }) {
  const told = notes.filter((one): one is string => !!one);
  if (!told.length) return null;
  return (
    <ul class="notes">
      {told.map((one) => (
        <li key={one}>{one}</li>
      ))}
    </ul>
  );
}

export function Value({ value }: { value: Cell }) {
  if (value === null) return <span class="quiet">null</span>;
  if (typeof value === "number") return <>{number(value)}</>;
  if (typeof value === "string") return <>{shortTime(value)}</>;
  return <>{String(value)}</>;
}

const TIME = /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,3})?\d*(\+00:00)?$/;

/** A time as one reads it: milliseconds at most, and no zone where it is UTC; else the text itself. */
export function shortTime(text: string): string {
  const [, time, fraction = ""] = TIME.exec(text) ?? [];
  return time ? `${time}${fraction.replace(/\.?0+$/, "")}` : text;
}

export function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function bytes(value: number): string {
  const units = ["bytes", "kB", "MB", "GB"];
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < 3) {
    left /= 1000;
    unit += 1;
  }
  return `${left >= 100 || unit === 0 ? Math.round(left) : left.toPrecision(2)} ${units[unit]}`;
}

export function seconds(value: number): string {
  if (value < 0.001) return "under 1 ms";
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

interface LabelProps {
  name: string;
  colour: number | undefined;
  times?: number;
}

export function Label({ name, colour, times = 1 }: LabelProps) {
  return (
    <span class={`label ${colour === undefined ? "plain" : `v${colour % 10}`}`}>
      {name}
      {times > 1 && <span class="times">×{times.toLocaleString("en")}</span>}
    </span>
  );
}

/** Variables in the order of their rows; of equal ones in a row the first, and how many. */
export function Labels({ names }: { names: readonly string[] }) {
  const { palette } = useStudio();
  const runs: [string, number][] = [];
  for (const name of names) {
    const last = runs.at(-1);
    if (last?.[0] === name) last[1] += 1;
    else runs.push([name, 1]);
  }
  return (
    <span class="labels">
      {runs.map(([name, n], i) => (
        <Label key={i} name={name} colour={palette.value.get(name)} times={n} />
      ))}
    </span>
  );
}

/** A reason, in its colour. */
export function Reason({ name, count: n }: { name: string; count?: number }) {
  return (
    <span class="reason">
      <i class={`swatch ${name.replace(" ", "-")}`} aria-hidden="true" />
      {name}
      {n !== undefined && <span class="n"> {n.toLocaleString("en")}</span>}
    </span>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

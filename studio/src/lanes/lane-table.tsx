// What the canvas shows, as a table: for screen readers, and for reading values.

import { useStudio } from "../state/hooks";
import type { LanesModel } from "./model";
import { matchOf } from "./pick";
import { placed } from "./ticks";

const MOST = 400; // rows of the table

interface Line {
  key: number;
  label: string;
  row: number | null;
  at: number | null;
  what: string;
  match: number | undefined;
}

export function LaneTable({ model }: { model: LanesModel }) {
  const studio = useStudio();
  const variables = studio.reading.value?.variables ?? [];
  void model.changed.value;
  const { lines, more } = linesOf(
    model,
    variables.map((one) => one.name),
  );
  const chosen = studio.selection.value;
  return (
    <div class="scroll table-view">
      <table>
        <caption class="quiet">
          The keys in view{more ? `; ${more} more lines: zoom in, or find a key` : ""}
        </caption>
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">row</th>
            <th scope="col">at</th>
            <th scope="col">what</th>
            <th scope="col">match</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr
              key={`${line.key}/${line.row}/${line.at}/${line.match}`}
              aria-selected={chosen?.key === line.key && chosen.row === (line.row ?? undefined)}
            >
              <td>
                <button
                  type="button"
                  class="link"
                  onClick={() =>
                    studio.choose({
                      key: line.key,
                      label: line.label,
                      row: line.row ?? undefined,
                      at: line.at ?? undefined,
                      match: line.match,
                    })
                  }
                >
                  {line.label || "all rows"}
                </button>
              </td>
              <td class="number">{line.row}</td>
              <td>{line.at === null ? "" : placed(model.axis, line.at)}</td>
              <td>{line.what}</td>
              <td class="number">{line.match}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function linesOf(model: LanesModel, variables: readonly string[]): { lines: Line[]; more: number } {
  const lines: Line[] = [];
  let more = 0;
  const add = (line: Line) => {
    if (lines.length < MOST) lines.push(line);
    else more += 1;
  };
  for (const index of model.seen()) {
    const info = model.keyAt(index);
    if (!info) continue;
    const { key, label } = info;
    const lane = model.lanes.get(key)?.lane;
    if (!lane?.points) {
      const what = `${info.rows} rows, ${info.matches} matches`;
      add({ key, label, row: null, at: null, what, match: undefined });
      for (const match of lane?.matches ?? []) {
        const rows = `rows ${match.first} to ${match.last}`;
        add({ key, label, row: match.first, at: match.from, what: rows, match: match.number });
      }
      continue;
    }
    const { points } = lane;
    points.row.forEach((row, i) => {
      const label_ = points.label[i];
      const fits = (points.fits[i] ?? []).map((one) => variables[one]).join(", ");
      const what =
        label_ === null || label_ === undefined
          ? fits
            ? `fits ${fits}`
            : ""
          : (variables[label_] ?? "");
      add({ key, label, row, at: points.at[i]!, what, match: matchOf(lane.matches, row) });
    });
  }
  return { lines, more };
}

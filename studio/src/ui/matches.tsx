// The matches as a table, measures and all.

import type { Cell } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { bytes, count, Empty, ErrorNote, Notes, seconds, Value } from "./pieces";

const SHOWN = 200;

export function MatchesPane() {
  const studio = useStudio();
  const { asked, source, selection } = studio;
  const params =
    asked.value && source.value ? { source: source.value, query: asked.value, limit: SHOWN } : null;
  const { data, problem, busy, again } = useAnswer("run", params);
  if (problem && !data) return <ErrorNote problem={problem} again={again} />;
  if (!data) return <Empty>{params ? "Matching…" : "Type a pattern to see its matches."}</Empty>;
  const columns = data.columns.map((one, i) => ({ ...one, i }));
  const key = columns.find((one) => one.name === "#key")?.i;
  const number = columns.find((one) => one.name === "#match")?.i;
  const shown = columns.filter((one) => one.i !== key && one.i !== number);
  const isNumber = (at: number) =>
    data.rows.some((row) => typeof row[at] === "number") &&
    data.rows.every((row) => typeof row[at] === "number" || row[at] === null);
  const numeric = new Set(shown.filter(({ i }) => isNumber(i)).map(({ i }) => i));
  const choose = (row: Cell[]) => {
    const keyOf = key === undefined ? null : row[key];
    const numberOf = number === undefined ? null : row[number];
    if (typeof keyOf !== "number") return;
    const match = typeof numberOf === "number" ? numberOf : undefined;
    studio.choose({ key: keyOf, match, reveal: true });
  };
  return (
    <div class={busy ? "dim" : ""}>
      <ErrorNote problem={problem} again={again} />
      <p class="figures" role="status">
        <b>{count(data.matches, "match", "matches")}</b>
        <span>
          in {data.keys_matched.toLocaleString("en")} of {count(data.keys, "key")}
        </span>
        <span>{count(data.rows_read, "row")}</span>
        <span>{seconds(data.seconds)}</span>
        {data.bytes > 0 && <span>{bytes(data.bytes)}</span>}
        {data.rows.length < data.matches && (
          <span class="quiet">the first {data.rows.length} are listed</span>
        )}
      </p>
      <Notes notes={[data.cut, ...data.warnings]} />
      {data.matches === 0 && (
        <p class="actions">
          Nothing matched.{" "}
          <button
            type="button"
            onClick={() => {
              studio.tab.value = "why";
            }}
          >
            See why
          </button>
        </p>
      )}
      {data.rows.length > 0 && (
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">match</th>
              {shown.map(({ name, type, i }) => (
                <th key={name} scope="col" title={type} class={numeric.has(i) ? "number" : ""}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.rows.map((row, i) => {
              const keyOf = key === undefined ? null : row[key];
              const numberOf = number === undefined ? null : row[number];
              const chosen =
                selection.value?.key === keyOf &&
                selection.value?.match !== undefined &&
                selection.value.match === numberOf;
              return (
                <tr key={i} aria-selected={chosen} onClick={() => choose(row)}>
                  <td class="number">
                    {typeof keyOf === "number" ? (
                      <button type="button" class="link" onClick={() => choose(row)}>
                        {numberOf ?? i + 1}
                      </button>
                    ) : (
                      (numberOf ?? i + 1)
                    )}
                  </td>
                  {shown.map(({ name, i: at }) => (
                    <td key={name} class={numeric.has(at) ? "number" : ""}>
                      <Value value={row[at] ?? null} />
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </div>
  );
}

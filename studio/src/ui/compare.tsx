// Two versions of a pattern: what appears, what disappears.

import { useEffect } from "preact/hooks";
import type { Change } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { count, Empty, ErrorNote, Labels, Notes } from "./pieces";

const SHOWN = 200;

export function ComparePane() {
  const studio = useStudio();
  const { asked, pinned, source } = studio;
  const a = pinned.value;
  const b = asked.value;
  const params = a && b && source.value ? { source: source.value, a, b, limit: SHOWN } : null;
  const { data, problem, busy, again } = useAnswer("compare", params);
  useEffect(() => {
    const byKey = new Map<number, Change[]>();
    for (const one of data?.changes ?? []) byKey.set(one.key, [...(byKey.get(one.key) ?? []), one]);
    studio.changes.value = byKey;
    return () => {
      studio.changes.value = new Map();
    };
  }, [data]);
  const pin = (
    <button
      type="button"
      disabled={!b}
      onClick={() => {
        pinned.value = b;
      }}
    >
      {a ? "Pin what is in the editor instead" : "Pin this version"}
    </button>
  );
  if (!a) {
    return (
      <div>
        <Empty>
          Pin the pattern as it is, then change it: this tab lists what appears and disappears.
        </Empty>
        <p class="actions centred">{pin}</p>
      </div>
    );
  }
  return (
    <div class={busy ? "dim" : ""}>
      <p class="actions">
        <span class="quiet">Pinned:</span> <code class="one-line">{a.text}</code> {pin}
        <button
          type="button"
          onClick={() => {
            studio.take(a);
          }}
        >
          Bring it back
        </button>
        <button
          type="button"
          onClick={() => {
            pinned.value = null;
          }}
        >
          Unpin
        </button>
      </p>
      <ErrorNote problem={problem} again={again} />
      {data && (
        <>
          <p class="figures" role="status">
            <b class="plus">+{data.appear.toLocaleString("en")} appear</b>
            <b class="minus">−{data.disappear.toLocaleString("en")} disappear</b>
            <span>{count(data.stay, "match", "matches")} stay</span>
            {data.changes.length > 0 && (
              <span class="quiet">in the lanes: solid bars appear, dashed ones disappear</span>
            )}
          </p>
          <Notes notes={[data.cut]} />
          <ul class="misses" data-list="changes">
            {data.changes.map((one) => (
              <li key={`${one.op}${one.key}/${one.rows.join()}/${one.labels.join()}`}>
                <button
                  type="button"
                  class="row-button"
                  onClick={() =>
                    studio.choose({
                      key: one.key,
                      label: one.label,
                      row: one.rows[0],
                      at: one.from,
                      until: one.to,
                      reveal: true,
                    })
                  }
                >
                  <b class={one.op === "+" ? "plus" : "minus"}>{one.op === "+" ? "+" : "−"}</b>{" "}
                  <b>{one.label || `key ${one.key}`}</b> <Labels names={one.labels} />{" "}
                  <span class="quiet">{rowsOf(one.rows)}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** Row numbers, with those that follow each other as a span: rows 3 to 7, 9. */
function rowsOf(rows: readonly number[]): string {
  const spans: [number, number][] = [];
  for (const row of rows) {
    const last = spans.at(-1);
    if (last && last[1] + 1 === row) last[1] = row;
    else spans.push([row, row]);
  }
  const told = spans.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  return `${rows.length === 1 ? "row" : "rows"} ${told.join(", ")}`;
}

// What was chosen, in full: a row with its conditions, a match with its measures, an attempt with its why.

import { useEffect } from "preact/hooks";
import { Holds } from "../automaton/automaton";
import type { Cell } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { Empty, ErrorNote, Label, Labels, Reason, shortTime, Value } from "./pieces";

export function Inspector() {
  const studio = useStudio();
  const { selection, expected } = studio;
  const chosen = selection.value;
  return (
    <section class="inspector pane" aria-label="Details">
      <header>
        <h2>
          {chosen
            ? [
                chosen.label || studio.labels.value.get(chosen.key) || `key ${chosen.key}`,
                chosen.row === undefined ? "" : `row ${chosen.row}`,
                chosen.match === undefined ? "" : `match ${chosen.match}`,
              ]
                .filter(Boolean)
                .join(" · ")
            : "Details"}
        </h2>
        {chosen && (
          <button type="button" aria-label="Close details" onClick={() => studio.choose(null)}>
            ✕
          </button>
        )}
      </header>
      <div class="scroll" aria-live="polite">
        {expected.value && <ExpectedNote />}
        {!chosen && !expected.value && (
          <Empty>
            Click an event, a bracket or a key to see its values and why it matched or did not.
            Shift-click events that you expected to match.
            <span class="keys">
              <span>
                <kbd>↑</kbd> <kbd>↓</kbd> <kbd>←</kbd> <kbd>→</kbd> move
              </span>
              <span>
                <kbd>M</kbd> next match
              </span>
              <span>
                <kbd>+</kbd> <kbd>−</kbd> zoom
              </span>
            </span>
          </Empty>
        )}
        {chosen && <KeyWhy />}
        {chosen?.row !== undefined && <RowDetails />}
        {chosen?.match !== undefined && <MatchDetails />}
      </div>
    </section>
  );
}

function useAsked() {
  const { asked, source } = useStudio();
  return asked.value && source.value ? { source: source.value, query: asked.value } : null;
}

/** Why the attempt that starts at the chosen row failed, or the best attempt of the key. */
function KeyWhy() {
  const studio = useStudio();
  const asked = useAsked();
  const { key, row, match, attempt: clicked } = studio.selection.value!;
  const per = row === undefined ? ("partition" as const) : ("start" as const);
  const skip = clicked !== undefined || (row === undefined && match !== undefined);
  const params =
    asked && !skip ? { ...asked, key, per, reason: null, offset: row ?? 0, limit: 1 } : null;
  const { data, problem } = useAnswer("why", params, 60);
  const attempt = clicked ?? data?.attempts[0];
  if (problem) return <ErrorNote problem={problem} />;
  if (!attempt) return null;
  const best = clicked !== undefined || row === undefined;
  const title = best ? "The best attempt that failed" : "An attempt from here";
  if (!attempt.reason) {
    return (
      <p class="verdict good">
        {best
          ? `${attempt.matches} matches; no attempt failed.`
          : `A match starts here${attempt.matches > 1 ? ` (${attempt.matches})` : ""}.`}
      </p>
    );
  }
  return (
    <div class="verdict" data-reason={attempt.reason}>
      <h3>{title}</h3>
      <p>
        <b>
          <Reason name={attempt.reason} />
        </b>
        {attempt.variable && <> at {attempt.variable}</>}
      </p>
      {attempt.matched.length > 0 && (
        <p>
          <Labels names={attempt.matched} />
        </p>
      )}
      <p class="text">{attempt.text}</p>
      {attempt.row !== null && attempt.row !== row && (
        <button
          type="button"
          class="link"
          onClick={() =>
            studio.choose({
              key,
              label: attempt.label,
              row: attempt.row ?? undefined,
              at: attempt.at ?? undefined,
              reveal: true,
            })
          }
        >
          Go to row {attempt.row}, where it stopped
        </button>
      )}
    </div>
  );
}

function RowDetails() {
  const studio = useStudio();
  const asked = useAsked();
  const { key, row, label } = studio.selection.value!;
  const params = asked && row !== undefined ? { ...asked, key, row } : null;
  const { data, problem } = useAnswer("row", params, 40);
  if (problem) return <ErrorNote problem={problem} />;
  if (!data) return null;
  const hoped = studio.expected.value;
  const marked = hoped?.key === key && hoped.rows.includes(data.row);
  return (
    <>
      <h3>Values</h3>
      <Pairs pairs={data.values} />
      <h3>Conditions here</h3>
      <ul class="conditions">
        {data.variables.map(({ name, holds, parts }) => (
          <li key={name}>
            <Holds value={holds} /> <Label name={name} colour={studio.palette.value.get(name)} />
            <ul>
              {parts.map(({ text, values, holds: part }) => (
                <li key={text}>
                  <Holds value={part} /> <code>{text}</code>
                  {values && values !== text && <span class="quiet"> {values}</span>}
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
      <p class="actions">
        {data.matches.map((number) => (
          <button
            key={number}
            type="button"
            onClick={() => studio.choose({ key, label, match: number, at: data.at })}
          >
            Match {number}
          </button>
        ))}
        <button type="button" aria-pressed={marked} onClick={() => studio.expect(key, data.row)}>
          {marked ? "Not expected to match" : "I expected this row to match"}
        </button>
      </p>
    </>
  );
}

function MatchDetails() {
  const studio = useStudio();
  const asked = useAsked();
  const { key, match, row, label } = studio.selection.value!;
  const params = asked && match !== undefined ? { ...asked, key, number: match } : null;
  const { data, problem } = useAnswer("match", params, 40);
  useEffect(() => {
    if (!data || row !== undefined || data.number !== match) return;
    const at = data.rows.map((one) => one.at);
    studio.path.value = { key, at, labels: data.rows.map((one) => one.label), stopped: null };
  }, [data, row]);
  if (problem) return <ErrorNote problem={problem} />;
  if (!data) return null;
  const days = (data.rows[0]?.values ?? []).map((_, i) =>
    dayOf(data.rows.map((r) => r.values[i]![1])),
  );
  return (
    <>
      <h3>Match {data.number}</h3>
      {data.measures.length > 0 && <Pairs pairs={data.measures} />}
      <table class="match-rows">
        <thead>
          <tr>
            <th scope="col">row</th>
            <th scope="col">variable</th>
            {data.rows[0]?.values.slice(0, 5).map(([name, value], i) => (
              <th
                scope="col"
                key={name}
                class={typeof value === "number" ? "number" : ""}
                title={days[i] ? `on ${days[i]}` : undefined}
              >
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.rows.map((one) => (
            <tr key={`${one.row}/${one.label}`} aria-selected={one.row === row}>
              <td class="number">
                <button
                  type="button"
                  class="link"
                  onClick={() =>
                    studio.choose({
                      key,
                      label,
                      row: one.row,
                      at: one.at,
                      match: data.number,
                      reveal: true,
                    })
                  }
                >
                  {one.row}
                </button>
              </td>
              <td>
                <Label name={one.label} colour={studio.palette.value.get(one.label)} />
              </td>
              {one.values.slice(0, 5).map(([name, value], i) => (
                <td key={name} class={typeof value === "number" ? "number" : ""}>
                  {days[i] && typeof value === "string" ? (
                    <span title={value}>{shortTime(value).slice(DAY)}</span>
                  ) : (
                    <Value value={value} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const DAY = "2026-01-01 ".length;

/** The day that all these times are of, where they are times of one day. */
function dayOf(values: readonly Cell[]): string {
  const first = values[0];
  if (typeof first !== "string" || !/^\d{4}-\d\d-\d\d \d/.test(first)) return "";
  const day = first.slice(0, DAY);
  return values.every((one) => typeof one === "string" && one.startsWith(day)) ? day : "";
}

function ExpectedNote() {
  const studio = useStudio();
  const asked = useAsked();
  const hoped = studio.expected.value;
  const { data, problem } = useAnswer(
    "expected",
    asked && hoped ? { ...asked, ...hoped } : null,
    80,
  );
  return (
    <div
      class={data && !data.reason ? "verdict good" : "verdict"}
      data-expected={data?.reason ?? (data ? "match" : "")}
    >
      <h3>Rows {hoped?.rows.join(", ")} expected to match</h3>
      <ErrorNote problem={problem} />
      {data &&
        (data.reason ? (
          <>
            <p>
              <b>
                <Reason name={data.reason} />
              </b>
              {data.variable && <> at {data.variable}</>}
            </p>
            {data.matched.length > 0 && (
              <p>
                <Labels names={data.matched} />
              </p>
            )}
            <p class="text">{data.text}</p>
          </>
        ) : (
          <p>
            They match: <Labels names={data.matched} />
          </p>
        ))}
      <button
        type="button"
        onClick={() => {
          studio.expected.value = null;
        }}
      >
        Forget these rows
      </button>
    </div>
  );
}

function Pairs({ pairs }: { pairs: [string, Cell][] }) {
  return (
    <dl class="pairs">
      {pairs.slice(0, 60).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

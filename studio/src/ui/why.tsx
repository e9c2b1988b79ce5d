// Why it did not match: the funnel of attempts, the nearest misses, and every partition's best attempt.

import { useState } from "preact/hooks";
import type { Attempt } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { count, Empty, ErrorNote, Label } from "./pieces";

const PAGE = 60;

export function WhyPane() {
  const studio = useStudio();
  const { asked, source } = studio;
  if (!asked.value || !source.value)
    return <Empty>Type a pattern to ask why it did not match.</Empty>;
  const about = { source: source.value, query: asked.value };
  return (
    <div class="columns-two">
      <div>
        <FunnelPart about={about} />
        <NearestPart about={about} />
      </div>
      <AttemptsPart about={about} />
    </div>
  );
}

type About = { source: string; query: NonNullable<ReturnType<typeof useStudio>["asked"]["value"]> };

function FunnelPart({ about }: { about: About }) {
  const studio = useStudio();
  const { data, problem, busy, again } = useAnswer("funnel", about);
  if (problem) return <ErrorNote problem={problem} again={again} />;
  if (!data) return <Empty>Counting attempts…</Empty>;
  const most = Math.max(1, ...data.steps.map((one) => one.reached + sum(one.stopped)));
  return (
    <section class={busy ? "dim" : ""} aria-label="Funnel of attempts">
      <h3>How far attempts get</h3>
      <table class="funnel">
        <thead class="unseen">
          <tr>
            <th scope="col">variable</th>
            <th scope="col">reached</th>
            <th scope="col">stopped waiting for it</th>
          </tr>
        </thead>
        <tbody>
          {data.steps.map((one) => (
            <tr key={one.place}>
              <th scope="row">
                <Label name={one.variable} colour={studio.palette.value.get(one.variable)} />
              </th>
              <td>
                <div class="bars">
                  <span
                    class={`bar v${(studio.palette.value.get(one.variable) ?? 9) % 10}`}
                    style={{ width: `${(one.reached / most) * 100}%` }}
                  />
                  <span class="bar lost" style={{ width: `${(sum(one.stopped) / most) * 100}%` }} />
                  <span class="count">{one.reached.toLocaleString("en")}</span>
                </div>
              </td>
              <td>
                {one.stopped.map(([reason, n]) => (
                  <button
                    key={reason}
                    type="button"
                    class="chip"
                    aria-pressed={studio.reason.value === reason}
                    onClick={() => {
                      studio.reason.value = studio.reason.value === reason ? null : reason;
                    }}
                  >
                    {reason} {n.toLocaleString("en")}
                  </button>
                ))}
              </td>
            </tr>
          ))}
          <tr>
            <th scope="row">matched</th>
            <td>
              <div class="bars">
                <span class="bar whole" style={{ width: `${(data.matched / most) * 100}%` }} />
                <span class="count">{data.matched.toLocaleString("en")}</span>
              </div>
            </td>
            <td />
          </tr>
        </tbody>
      </table>
    </section>
  );
}

function NearestPart({ about }: { about: About }) {
  const studio = useStudio();
  const { data, problem, again } = useAnswer("nearest", { ...about, n: 8 });
  return (
    <section aria-label="Nearest misses">
      <h3>Nearest misses</h3>
      <ErrorNote problem={problem} again={again} />
      {data?.misses.length === 0 && <p class="quiet">No attempt lacks only a few events.</p>}
      <ul class="misses">
        {data?.misses.map((one) => (
          <li key={`${one.key}/${one.start_row}`}>
            <button
              type="button"
              class="row-button"
              onClick={() =>
                studio.choose({
                  key: one.key,
                  label: one.label,
                  row: one.row ?? one.start_row ?? undefined,
                  at: one.at ?? one.start ?? undefined,
                  attempt: { ...one, matches: 0 },
                  reveal: true,
                })
              }
            >
              <b>{one.label || `key ${one.key}`}</b>{" "}
              {one.matched.map((name, i) => (
                <Label key={`${i}-${name}`} name={name} colour={studio.palette.value.get(name)} />
              ))}{" "}
              lacks {one.missing.join(", ") || one.lacks}
              <span class="text">{one.text}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function AttemptsPart({ about }: { about: About }) {
  const studio = useStudio();
  const [offset, setOffset] = useState(0);
  const reason = studio.reason.value;
  const params = { ...about, key: null, per: "partition" as const, reason, offset, limit: PAGE };
  const { data, problem, busy, again } = useAnswer("why", params);
  if (problem) return <ErrorNote problem={problem} again={again} />;
  if (!data) return <Empty>Asking why…</Empty>;
  return (
    <section class={busy ? "dim" : ""} aria-label="Attempts">
      <h3>The best attempt of each key that failed</h3>
      <div class="chips" role="group" aria-label="Filter by reason">
        {data.reasons.map(([name, n]) => (
          <button
            key={name}
            type="button"
            class="chip"
            aria-pressed={reason === name}
            onClick={() => {
              setOffset(0);
              studio.reason.value = reason === name ? null : name;
            }}
          >
            {name} {n.toLocaleString("en")}
          </button>
        ))}
      </div>
      <ul class="misses" data-list="attempts">
        {data.attempts
          .filter((one) => one.reason !== null)
          .map((one) => (
            <li key={`${one.key}/${one.start_row}`}>
              <AttemptButton attempt={one} />
            </li>
          ))}
      </ul>
      {data.total > PAGE && (
        <p class="actions">
          <button type="button" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>
            Previous
          </button>
          <span class="quiet">
            {offset + 1} to {Math.min(offset + PAGE, data.total)} of {count(data.total, "key")}
          </span>
          <button
            type="button"
            disabled={offset + PAGE >= data.total}
            onClick={() => setOffset(offset + PAGE)}
          >
            Next
          </button>
        </p>
      )}
    </section>
  );
}

function AttemptButton({ attempt }: { attempt: Attempt }) {
  const studio = useStudio();
  const chosen = studio.selection.value?.key === attempt.key;
  return (
    <button
      type="button"
      class="row-button"
      aria-pressed={chosen}
      data-reason={attempt.reason}
      onClick={() =>
        studio.choose({
          key: attempt.key,
          label: attempt.label,
          row: attempt.row ?? attempt.start_row ?? undefined,
          at: attempt.at ?? attempt.start ?? undefined,
          attempt,
          reveal: true,
        })
      }
    >
      <b>{attempt.label || `key ${attempt.key}`}</b> <span class="reason">{attempt.reason}</span>{" "}
      {attempt.matched.map((name, i) => (
        <Label key={i} name={name} colour={studio.palette.value.get(name)} />
      ))}
      <span class="text">{attempt.text}</span>
    </button>
  );
}

function sum(stopped: readonly [string, number][]): number {
  return stopped.reduce((total, [, n]) => total + n, 0);
}

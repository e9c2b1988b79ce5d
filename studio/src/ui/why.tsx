// Why it did not match: the funnel of attempts, the nearest misses, and every partition's best attempt.

import { useEffect, useState } from "preact/hooks";
import type { Attempt } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { count, Empty, ErrorNote, Label, Labels, Reason } from "./pieces";

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
  const most = Math.max(1, ...data.steps.flatMap((one) => [one.reached, sum(one.stopped)]));
  const width = (n: number) => ({ width: `${(n / most) * 100}%` });
  return (
    <section class={busy ? "dim" : ""} aria-label="Funnel of attempts">
      <h3>How far attempts get, and why they stop</h3>
      <table class="funnel">
        <thead class="unseen">
          <tr>
            <th scope="col">variable</th>
            <th scope="col">reached</th>
            <th scope="col">reached it, and stopped waiting for it</th>
          </tr>
        </thead>
        <tbody>
          {data.steps.map(({ place, variable, reached, stopped }) => (
            <tr key={place}>
              <th scope="row">
                <Label name={variable} colour={studio.palette.value.get(variable)} />
              </th>
              <td class="number">{reached.toLocaleString("en")}</td>
              <td>
                <div class="bars" aria-hidden="true">
                  <span
                    class={`bar v${(studio.palette.value.get(variable) ?? 9) % 10}`}
                    style={width(reached)}
                  />
                </div>
                <div class="bars stops" aria-hidden="true">
                  {stopped.map(([reason, n]) => (
                    <span
                      key={reason}
                      class={`bar ${reason.replace(" ", "-")}`}
                      title={`${reason}: ${n.toLocaleString("en")}`}
                      style={width(n)}
                    />
                  ))}
                </div>
                <div class="chips">
                  {stopped.map(([reason, n]) => (
                    <ReasonChip key={reason} reason={reason} count={n} />
                  ))}
                </div>
              </td>
            </tr>
          ))}
          <tr>
            <th scope="row">matched</th>
            <td class="number">{data.matched.toLocaleString("en")}</td>
            <td>
              <div class="bars" aria-hidden="true">
                <span class="bar whole" style={width(data.matched)} />
              </div>
            </td>
          </tr>
        </tbody>
      </table>
    </section>
  );
}

/** Shows the keys whose best attempt failed so, and those alone. */
function ReasonChip({ reason, count: n }: { reason: string; count: number }) {
  const { reason: chosen } = useStudio();
  return (
    <button
      type="button"
      class="chip"
      aria-pressed={chosen.value === reason}
      onClick={() => {
        chosen.value = chosen.value === reason ? null : reason;
      }}
    >
      <Reason name={reason} count={n} />
    </button>
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
              <b>{one.label || `key ${one.key}`}</b> <Labels names={one.matched} />{" "}
              {one.missing.length > 0 && (
                <>
                  lacks <Labels names={one.missing} />
                </>
              )}
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
  useEffect(() => setOffset(0), [reason]);
  const params = { ...about, key: null, per: "partition" as const, reason, offset, limit: PAGE };
  const { data, problem, busy, again } = useAnswer("why", params);
  if (problem) return <ErrorNote problem={problem} again={again} />;
  if (!data) return <Empty>Asking why…</Empty>;
  return (
    <section class={busy ? "dim" : ""} aria-label="Attempts">
      <h3>The best attempt of each key that failed</h3>
      <div class="chips" role="group" aria-label="Filter by reason">
        {data.reasons.map(([name, n]) => (
          <ReasonChip key={name} reason={name} count={n} />
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
      <b>{attempt.label || `key ${attempt.key}`}</b> <Reason name={attempt.reason ?? ""} />{" "}
      <Labels names={attempt.matched} />
      <span class="text">{attempt.text}</span>
    </button>
  );
}

function sum(stopped: readonly [string, number][]): number {
  return stopped.reduce((total, [, n]) => total + n, 0);
}

// What the pattern costs, and what a budget would leave of its matches.

import { useEffect, useState } from "preact/hooks";
import type { Cost, Query } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { bytes, count, Empty, ErrorNote, Notes, number, seconds } from "./pieces";

export function CostPane() {
  const studio = useStudio();
  const { asked, source } = studio;
  const about = asked.value && source.value ? { source: source.value, query: asked.value } : null;
  const full = useAnswer("cost", about && { ...about, budget: null });
  if (full.problem) return <ErrorNote problem={full.problem} again={full.again} />;
  const { data } = full;
  if (!data || !about)
    return <Empty>{about ? "Measuring…" : "Type a pattern to see what it costs."}</Empty>;
  const whole = data.stages.reduce((total, one) => total + one.seconds, 0) || 1;
  return (
    <div class="columns-two">
      <section class={full.busy ? "dim" : ""} aria-label="Cost">
        <dl class="tiles">
          <Tile name="rows" value={number(data.rows)} />
          {data.rows_per_second !== null && (
            <Tile name="rows per second" value={roughly(data.rows_per_second)} />
          )}
          <Tile name="matches" value={number(data.matches)} />
          {data.partial_matches !== null && (
            <Tile name="partial matches" value={number(data.partial_matches)} />
          )}
          <Tile name="data in memory" value={bytes(data.bytes)} />
          <Tile name="time" value={seconds(whole)} />
        </dl>
        <h3>Time by stage</h3>
        <table class="funnel">
          <tbody>
            {data.stages.map(({ name, seconds: time }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>
                  <div class="bars">
                    <span class="bar whole" style={{ width: `${(time / whole) * 80}%` }} />
                    <span class="count">{seconds(time)}</span>
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <Budget about={about} data={data} />
    </div>
  );
}

const SWEEP = [75, 50, 25, 10]; // percent, asked one after the other where nothing else is asked

interface BudgetProps {
  about: { source: string; query: Query };
  data: Cost;
}

/** What a bound on the work leaves: at the slider, and at a few places of the curve. */
function Budget({ about, data }: BudgetProps) {
  const studio = useStudio();
  const [percent, setPercent] = useState(100);
  const [settled, setSettled] = useState(100);
  const [known, setKnown] = useState<ReadonlyMap<number, Cost>>(new Map());
  const name = JSON.stringify(about);
  useEffect(() => setKnown(new Map()), [name]);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(percent), 300);
    return () => clearTimeout(timer);
  }, [percent]);
  const rows = studio.reading.value?.semantics === "row";
  const wanted =
    known.has(settled) || settled === 100 ? SWEEP.find((at) => !known.has(at)) : settled;
  const asked = rows || wanted === undefined ? null : { ...about, budget: `${wanted}%` };
  const bounded = useAnswer("cost", asked);
  useEffect(() => {
    const { data: found, problem, busy } = bounded;
    if (!found || problem || busy || wanted === undefined || found.recall === null) return;
    if (found.notes !== known.get(wanted)?.notes) setKnown(new Map(known).set(wanted, found));
  }, [bounded.data, bounded.busy]);
  if (rows) {
    return (
      <section aria-label="Budget">
        <h3>Under a budget</h3>
        <p class="quiet">
          A row pattern takes a budget in a stream or a workload only. Write an event pattern (with
          arrows) to see what a budget would keep.
        </p>
      </section>
    );
  }
  const kept = settled < 100 ? known.get(settled) : data;
  const recall = settled < 100 ? (kept?.recall ?? null) : 1;
  return (
    <section aria-label="Budget">
      <h3>Under a budget</h3>
      <label class="slider">
        <span>{percent < 100 ? `${percent}% of the work it needs` : "no bound: every match"}</span>
        <input
          type="range"
          min={5}
          max={100}
          step={5}
          value={percent}
          aria-label="Budget in percent"
          onInput={(event) => setPercent(Number(event.currentTarget.value))}
        />
      </label>
      <ErrorNote problem={bounded.problem} />
      <p class="figures" role="status">
        {recall === null ? (
          <span>measuring…</span>
        ) : (
          <>
            <b>recall {(recall * 100).toFixed(recall < 1 && recall > 0.99 ? 2 : 0)}%</b>
            <span>
              {number(kept?.kept ?? data.matches)} of {count(data.matches, "match", "matches")}
            </span>
          </>
        )}
      </p>
      <Curve known={known} percent={percent} recall={recall} />
      <Notes notes={[...new Set([...(kept?.notes ?? []), ...data.notes])]} />
    </section>
  );
}

const [WIDE, HIGH] = [360, 96];

/** Recall over the share of the work, as far as it was measured. */
function Curve({
  known,
  percent,
  recall,
}: {
  known: ReadonlyMap<number, Cost>;
  percent: number;
  recall: number | null;
}) {
  const points = [...known].map(([at, cost]) => [at, cost.recall ?? 0] as const);
  const sorted = [...points, [100, 1] as const].sort((a, b) => a[0] - b[0]);
  const x = (at: number) => (at / 100) * WIDE;
  const y = (share: number) => HIGH - share * HIGH;
  const words = sorted.map(([at, share]) => `${at}%: ${Math.round(share * 100)}%`).join(", ");
  return (
    <svg
      class="recall"
      viewBox={`-30 -8 ${WIDE + 44} ${HIGH + 30}`}
      role="img"
      aria-label={`Recall by share of the work: ${words}`}
    >
      {[0, 0.5, 1].map((share) => (
        <g key={share}>
          <line class="grid" x1={0} x2={WIDE} y1={y(share)} y2={y(share)} />
          <text x={-6} y={y(share) + 3} text-anchor="end">
            {share * 100}%
          </text>
        </g>
      ))}
      {[0, 25, 50, 75, 100].map((at) => (
        <text key={at} x={x(at)} y={HIGH + 15} text-anchor="middle">
          {at}%
        </text>
      ))}
      <polyline class="curve" points={sorted.map(([at, s]) => `${x(at)},${y(s)}`).join(" ")} />
      {sorted.map(([at, share]) => (
        <circle key={at} class="dot" cx={x(at)} cy={y(share)} r={2.5} />
      ))}
      {recall !== null && <circle class="here" cx={x(percent)} cy={y(recall)} r={5} />}
    </svg>
  );
}

/** Three digits: a time that was measured once says no more. */
function roughly(value: number): string {
  return number(Number(value.toPrecision(3)));
}

function Tile({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

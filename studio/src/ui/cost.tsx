// What the pattern costs, and what a budget would leave of its matches.

import { useEffect, useState } from "preact/hooks";
import { useAnswer, useStudio } from "../state/hooks";
import { bytes, count, Empty, ErrorNote, Notes, number, seconds } from "./pieces";

export function CostPane() {
  const studio = useStudio();
  const { asked, source } = studio;
  const [percent, setPercent] = useState(100);
  const [settled, setSettled] = useState(100);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(percent), 300);
    return () => clearTimeout(timer);
  }, [percent]);
  const about = asked.value && source.value ? { source: source.value, query: asked.value } : null;
  const full = useAnswer("cost", about && { ...about, budget: null });
  const bounded = useAnswer(
    "cost",
    about && settled < 100 ? { ...about, budget: `${settled}%` } : null,
  );
  if (full.problem) return <ErrorNote problem={full.problem} again={full.again} />;
  const { data } = full;
  if (!data) return <Empty>{about ? "Measuring…" : "Type a pattern to see what it costs."}</Empty>;
  const whole = data.stages.reduce((total, one) => total + one.seconds, 0) || 1;
  const kept = settled < 100 ? bounded.data : data;
  const recall = settled < 100 ? (bounded.data?.recall ?? null) : 1;
  return (
    <div class="columns-two">
      <section class={full.busy ? "dim" : ""} aria-label="Cost">
        <dl class="tiles">
          <Tile name="rows" value={number(data.rows)} />
          <Tile name="rows per second" value={number(Math.round(data.rows_per_second))} />
          <Tile name="matches" value={number(data.matches)} />
          {data.partial_matches !== null && (
            <Tile name="partial matches" value={number(data.partial_matches)} />
          )}
          <Tile name="memory" value={bytes(data.bytes)} />
          <Tile name="time" value={seconds(whole)} />
        </dl>
        <h3>Time by stage</h3>
        <table class="funnel">
          <tbody>
            {data.stages.map(({ name, seconds: time }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="bars">
                  <span class="bar whole" style={{ width: `${(time / whole) * 100}%` }} />
                  <span class="count">{seconds(time)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <section aria-label="Budget">
        <h3>Under a budget</h3>
        <label class="slider">
          <span>
            {percent < 100 ? `${percent}% of the work it needs` : "no bound: every match"}
          </span>
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
        {recall !== null && !bounded.problem && (
          <div class={bounded.busy ? "dim" : ""}>
            <div
              class="meter"
              role="meter"
              aria-label="Recall"
              aria-valuemin={0}
              aria-valuemax={1}
              aria-valuenow={recall}
            >
              <span style={{ width: `${recall * 100}%` }} />
            </div>
            <p class="figures" role="status">
              <b>recall {(recall * 100).toFixed(recall < 1 && recall > 0.99 ? 2 : 0)}%</b>
              <span>
                {number(kept?.kept ?? data.matches)} of {count(data.matches, "match", "matches")}
              </span>
            </p>
          </div>
        )}
        <Notes
          notes={[...(kept?.notes ?? []), ...data.notes].filter(
            (one, i, all) => all.indexOf(one) === i,
          )}
        />
      </section>
    </div>
  );
}

function Tile({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

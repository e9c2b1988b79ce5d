// Running streams of this session, asked each second while the tab is in view.

import { useEffect, useState } from "preact/hooks";
import type { Problem, Stream } from "../protocol";
import { useStudio } from "../state/hooks";
import { bytes, Empty, ErrorNote, number } from "./pieces";

export function StreamsPane() {
  const { tasks } = useStudio();
  const [streams, setStreams] = useState<Stream[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let current = true;
    const ask = async () => {
      const answer = await tasks.ask("streams", "streams", {});
      if (!current) return;
      if (answer && "result" in answer) setStreams(answer.result.streams);
      setProblem(answer && "problem" in answer ? answer.problem : null);
      timer = setTimeout(ask, 1000);
    };
    void ask();
    return () => {
      current = false;
      clearTimeout(timer);
      tasks.drop("streams");
    };
  }, [tasks]);
  if (problem) return <ErrorNote problem={problem} />;
  if (!streams) return <Empty>Looking for streams…</Empty>;
  if (!streams.length) {
    return (
      <Empty>
        No stream runs in this session. Start one with q.matches(stream) and open the studio from
        the same program: its rates, lateness and state are shown here, live.
      </Empty>
    );
  }
  return (
    <ul class="streams">
      {streams.map((one) => (
        <li key={one.id}>
          <h3>
            {one.name || one.id} <span class="quiet">{one.status}</span>
          </h3>
          <Spark history={one.history} />
          <dl class="tiles">
            <Tile name="rows in / s" value={number(Math.round(one.rows_in_per_second))} />
            <Tile name="rows out / s" value={number(Math.round(one.rows_out_per_second))} />
            {one.trigger_ms !== null && <Tile name="trigger" value={`${one.trigger_ms} ms`} />}
            <Tile name="watermark" value={String(one.watermark ?? "none")} />
            <Tile name="late" value={number(one.late)} />
            <Tile name="state rows" value={number(one.state_rows)} />
            <Tile name="state" value={bytes(one.state_bytes)} />
            {Object.entries(one.matches).map(([name, n]) => (
              <Tile key={name} name={`matches ${name}`} value={number(n)} />
            ))}
          </dl>
        </li>
      ))}
    </ul>
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

const WIDE = 300;
const HIGH = 48;

function Spark({ history }: { history: [number, number, number][] }) {
  if (history.length < 2) return null;
  const first = history[0]![0];
  const last = history.at(-1)![0];
  const most = Math.max(
    1,
    ...history.map(([, rows]) => rows),
    ...history.map(([, , rows]) => rows),
  );
  const line = (which: 1 | 2) =>
    history
      .map(
        (one) =>
          `${((one[0] - first) / (last - first || 1)) * WIDE},${HIGH - (one[which] / most) * HIGH}`,
      )
      .join(" ");
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDE} ${HIGH}`}
      width={WIDE}
      height={HIGH}
      role="img"
      aria-label={`Rows per second, at most ${number(Math.round(most))}`}
    >
      <polyline class="in" points={line(1)} />
      <polyline class="out" points={line(2)} />
    </svg>
  );
}

// What runs for longer than a blink, how far it is, and the button that ends it.

import { useEffect, useState } from "preact/hooks";
import { useStudio } from "../state/hooks";

const PATIENCE = 350; // ms before a call is worth a word
const WORDS: Record<string, string> = {
  open: "opening the table",
  read: "reading the pattern",
  run: "matching",
  keys: "listing keys",
  lanes: "fetching events",
  why: "asking why",
  funnel: "counting attempts",
  nearest: "looking for near misses",
  trace: "following the row",
  compare: "comparing",
  cost: "measuring",
};

export function ProgressBar() {
  const { tasks } = useStudio();
  const [now, setNow] = useState(0);
  const running = tasks.running.value.filter((one) => one.method !== "streams");
  const any = running.length > 0;
  useEffect(() => {
    if (!any) return undefined;
    const timer = setInterval(() => setNow(performance.now()), 150);
    return () => clearInterval(timer);
  }, [any]);
  const slow = running.filter((one) => Math.max(now, performance.now()) - one.since > PATIENCE);
  const task = slow.find((one) => one.progress?.total) ?? slow[0];
  if (!task) return <div class="progress" />;
  const { progress } = task;
  const share = progress?.total ? progress.done / progress.total : null;
  const text = progress?.text || WORDS[task.method] || "working";
  const amount =
    share === null || !progress?.total
      ? ""
      : `${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}`;
  return (
    <div class="progress on">
      <div
        class={share === null ? "bar unknown" : "bar"}
        role="progressbar"
        aria-label={text}
        aria-valuemin={0}
        aria-valuemax={100}
        {...(share === null ? {} : { "aria-valuenow": Math.round(share * 100) })}
        style={share === null ? {} : { width: `${Math.max(1, share * 100)}%` }}
      />
      <div class="working" role="status">
        <span>
          {text} {amount}
          {` · ${((performance.now() - task.since) / 1000).toFixed(1)} s`}
        </span>
        <button type="button" onClick={() => tasks.cancel()}>
          Cancel
        </button>
      </div>
    </div>
  );
}

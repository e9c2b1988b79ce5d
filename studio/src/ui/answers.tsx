// The answers below the lanes, one tab each; only the tab in view asks.

import { useStudio } from "../state/hooks";
import type { Tab } from "../state/studio";
import { ComparePane } from "./compare";
import { CostPane } from "./cost";
import { MatchesPane } from "./matches";
import { StreamsPane } from "./streams";
import { WhyPane } from "./why";

const TABS: [Tab, string][] = [
  ["matches", "Matches"],
  ["why", "Why"],
  ["compare", "Compare"],
  ["cost", "Cost"],
  ["streams", "Streams"],
  ["plan", "Plan"],
];

export function Answers() {
  const studio = useStudio();
  const { tab, hello } = studio;
  const tabs = TABS.filter(([id]) => id !== "streams" || hello.value?.streams !== false);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const index = tabs.findIndex(([id]) => id === tab.value) + step;
    const next = tabs[(index + tabs.length) % tabs.length]!;
    tab.value = next[0];
    document.getElementById(`ensue-tab-${next[0]}`)?.focus();
  };
  return (
    <section class="answers pane" aria-label="Answers">
      <div class="tabs" role="tablist" aria-label="Answers" onKeyDown={move}>
        {tabs.map(([id, name]) => (
          <button
            key={id}
            id={`ensue-tab-${id}`}
            type="button"
            role="tab"
            aria-selected={tab.value === id}
            aria-controls="ensue-answer"
            tabIndex={tab.value === id ? 0 : -1}
            onClick={() => {
              tab.value = id;
            }}
          >
            {name}
          </button>
        ))}
      </div>
      <div
        id="ensue-answer"
        class="scroll"
        role="tabpanel"
        aria-labelledby={`ensue-tab-${tab.value}`}
      >
        <h2 class="unseen">{tabs.find(([id]) => id === tab.value)?.[1]}</h2>
        {tab.value === "matches" && <MatchesPane />}
        {tab.value === "why" && <WhyPane />}
        {tab.value === "compare" && <ComparePane />}
        {tab.value === "cost" && <CostPane />}
        {tab.value === "streams" && <StreamsPane />}
        {tab.value === "plan" && <pre class="plan">{studio.reading.value?.explain ?? ""}</pre>}
      </div>
    </section>
  );
}

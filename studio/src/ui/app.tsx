// How the page is laid out: what is asked on the left, events above, answers below, the automaton beside.

import { AutomatonPane } from "../automaton/automaton";
import { Lanes } from "../lanes/lanes";
import { useStudio } from "../state/hooks";
import { Answers } from "./answers";
import { EditorPane } from "./editor-pane";
import { Header } from "./header";
import { Inspector } from "./inspector";
import { ErrorNote } from "./pieces";
import { ProgressBar } from "./progress";
import { Splitter } from "./splitter";
import { useDark } from "./theme";

export function App() {
  const studio = useStudio();
  const dark = useDark();
  const { lost, busy, running } = studio.tasks;
  const lostNow = lost.value;
  const open = studio.openProblem.value;
  const visible = running.value.some(
    (one) => one.method !== "complete" && one.method !== "streams",
  );
  return (
    <div
      class="ensue-studio"
      data-theme={dark ? "dark" : "light"}
      aria-busy={busy.value && visible}
    >
      <Header />
      <ProgressBar />
      {lostNow && (
        <div class="banner" role="alert">
          <b>{lostNow.message}</b> {lostNow.remedy}
          <button type="button" onClick={() => void studio.start(null)}>
            Try again
          </button>
        </div>
      )}
      {open && !lostNow && (
        <div class="banner">
          <ErrorNote problem={open} again={() => void studio.open(studio.source.value, false)} />
        </div>
      )}
      <main>
        <EditorPane />
        <div class="centre">
          <Lanes />
          <Splitter />
          <Answers />
        </div>
        <aside class="side" aria-label="Automaton and details">
          <AutomatonPane />
          <Inspector />
        </aside>
      </main>
      <output class="unseen" aria-live="polite">
        {studio.said.value}
      </output>
    </div>
  );
}

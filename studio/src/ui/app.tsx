// How the page is laid out: what is asked on the left, events above, answers below, the automaton beside.

import { useEffect, useRef, useState } from "preact/hooks";
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

const [NARROW, MEDIUM] = [760, 1150]; // pixels

/** How much room there is: the component may stand in a notebook's cell. */
function useWidth(root: { current: Element | null }): "narrow" | "medium" | "wide" {
  const [width, setWidth] = useState<"narrow" | "medium" | "wide">("wide");
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const pixels = entry!.contentRect.width;
      setWidth(pixels < NARROW ? "narrow" : pixels <= MEDIUM ? "medium" : "wide");
    });
    if (root.current) observer.observe(root.current);
    return () => observer.disconnect();
  }, [root]);
  return width;
}

export function App() {
  const studio = useStudio();
  const dark = useDark();
  const { lost, busy, running } = studio.tasks;
  const lostNow = lost.value;
  const open = studio.openProblem.value;
  const visible = running.value.some(
    (one) => one.method !== "complete" && one.method !== "streams",
  );
  const root = useRef<HTMLDivElement>(null);
  const width = useWidth(root);
  return (
    <div
      ref={root}
      class="ensue-studio"
      data-width={width}
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

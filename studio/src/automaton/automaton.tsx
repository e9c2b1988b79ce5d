// The automaton as a picture, lit by the chosen row, and the steps through a partition.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Graph, TraceStep } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import type { Path } from "../state/studio";
import { ErrorNote, Labels } from "../ui/pieces";
import { type Placed, place, scale, shortened } from "./layout";

const PAGE = 1000; // steps of a trace that are here at once
const SMALLEST = 0.66; // of a drawing; one that is larger scrolls
const PACE = 700; // ms per step when it plays

export function AutomatonPane() {
  const studio = useStudio();
  const graph = studio.reading.value?.automaton ?? null;
  const { asked, source, selection } = studio;
  const chosen = selection.value;
  const wanted = chosen !== null && (chosen.row !== undefined || chosen.step !== undefined);
  // The page of steps stays while one walks in it: it is the one around the row that was chosen.
  const page = useRef<Page>({ from: 0, row: null, start: null, variable: null });
  const loaded = useRef<{ from: number; to: number }>({ from: 0, to: 0 });
  if (chosen && chosen.step === undefined) {
    const own = chosen.until === undefined ? null : (chosen.row ?? null);
    const start = chosen.attempt?.start_row ?? own;
    const variable = chosen.attempt?.variable ?? null;
    page.current = { from: 0, row: chosen.row ?? null, start, variable };
  } else if (chosen?.step !== undefined) {
    const { from, to } = loaded.current;
    if (chosen.step < from || chosen.step >= to) {
      const from = Math.max(0, chosen.step - PAGE / 2);
      page.current = { from, row: null, start: null, variable: null };
    }
  }
  const params =
    wanted && asked.value && source.value
      ? {
          source: source.value,
          query: asked.value,
          key: chosen.key,
          ...page.current,
          limit: PAGE,
        }
      : null;
  const { data, problem } = useAnswer("trace", params, 60);
  const first = data?.steps[0]?.step ?? 0;
  loaded.current = { from: first, to: first + (data?.steps.length ?? 0) };
  const index = chosen?.step ?? data?.chosen ?? -1;
  const step = data?.steps[index - first];
  // A step that was out of the page: its row is known once it is here.
  useEffect(() => {
    if (!chosen || !step || chosen.row !== undefined || step.at === null) return;
    studio.choose({ ...chosen, row: step.row, at: step.at, reveal: true });
  }, [step?.step, chosen?.step]);
  useEffect(() => {
    if (chosen && step) studio.path.value = pathOf(chosen.key, step, data?.steps ?? []);
  }, [step, chosen?.key]);
  return (
    <section class="automaton pane" aria-label="Automaton">
      <header>
        <h2>Automaton</h2>
        <Steps steps={data?.steps ?? []} index={index} total={data?.total ?? 0} />
      </header>
      <div class="scroll drawing">
        {graph ? (
          <Picture graph={graph} light={step ? lightOf(step) : DARK} />
        ) : (
          <p class="empty">The automaton is drawn once the pattern reads.</p>
        )}
      </div>
      {step && <Told step={step} total={data?.total ?? 0} />}
      <ErrorNote problem={problem} />
    </section>
  );
}

/** What a step lights: the places where it waits, and the arcs that were asked, with the answer. */
interface Light {
  states: ReadonlySet<string>;
  asked: string | null;
  held: boolean | null;
}

const DARK: Light = { states: new Set(), asked: null, held: null };

function lightOf(step: TraceStep): Light {
  const asked = step.action === "ask" ? step.variable : null;
  return { states: new Set(step.places), asked, held: step.held };
}

/** Where the rows of a step's partial match are, and the row that was asked or ended it. */
function pathOf(key: number, step: TraceStep, steps: readonly TraceStep[]): Path {
  const places = new Map(steps.map((one) => [one.row, one.at]));
  const known = step.rows.map((row) => places.get(row) ?? null);
  const failed = step.held !== true && (step.action === "ask" || step.action === "drop");
  return {
    key,
    at: known.filter((at): at is number => at !== null),
    labels: step.matched.filter((_, i) => known[i] !== null),
    stopped: failed ? step.at : null,
  };
}

interface Page {
  from: number;
  row: number | null;
  start: number | null;
  variable: string | null;
}

interface StepsProps {
  steps: readonly TraceStep[];
  index: number;
  total: number;
}

/** Walks the trace of the chosen key; the chosen row follows. */
function Steps({ steps, index, total }: StepsProps) {
  const studio = useStudio();
  const [playing, setPlaying] = useState(false);
  const last = total - 1;
  const go = (to: number) => {
    const chosen = studio.selection.value;
    const step = steps[to - (steps[0]?.step ?? 0)];
    if (!chosen || to < 0 || to > last) return;
    if (!step) {
      studio.choose({ key: chosen.key, label: chosen.label, step: to });
      return;
    }
    const row = step.at === null ? undefined : step.row;
    const at = step.at ?? undefined;
    studio.choose({ key: chosen.key, label: chosen.label, row, at, step: to, reveal: true });
    studio.say(`step ${to}, row ${step.row}: ${step.action} ${step.text ?? ""}`);
  };
  useEffect(() => {
    if (!playing) return undefined;
    if (index >= last) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => go(index + 1), PACE);
    return () => clearTimeout(timer);
  });
  const off = last < 0;
  return (
    <span class="group" role="group" aria-label="Steps">
      <Button name="First step" path="M1 1h2v10H1zM12 1v10L4 6z" off={off} act={() => go(0)} />
      <Button
        name="Step back"
        path="M10 1v10L2 6z"
        off={off || index <= 0}
        act={() => go(index - 1)}
      />
      <Button
        name={playing ? "Pause" : "Play the steps"}
        path={playing ? "M2 1h3v10H2zM7 1h3v10H7z" : "M2 1v10l8-5z"}
        off={off}
        act={() => setPlaying(!playing)}
      />
      <Button
        name="Step forward"
        path="M8 1h2v10H8zM1 1v10l6-5z"
        off={off || index >= last}
        act={() => go(index + 1)}
      />
    </span>
  );
}

interface ButtonProps {
  name: string;
  path: string;
  off: boolean;
  act: () => void;
}

function Button({ name, path, off, act }: ButtonProps) {
  return (
    <button type="button" disabled={off} title={name} aria-label={name} onClick={act}>
      <Icon path={path} />
    </button>
  );
}

function Icon({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 12 12" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** One step of the trace in words. */
function Told({ step, total }: { step: TraceStep; total: number }) {
  return (
    <div class="asked">
      <p class="quiet">
        Step {step.step + 1} of {total.toLocaleString("en")} · row {step.row}
        {step.start !== null && ` · attempt from row ${step.start}`}
        {step.partials > 1 && ` · ${step.partials} partial matches`}
      </p>
      <p>
        {step.action === "ask" && <Holds value={step.held} />} <b>{step.action}</b>{" "}
        {step.variable && step.action !== "ask" && <>{step.variable} </>}
        {step.text && <code>{step.text}</code>}
        {step.reason && <span class="reason"> {step.reason}</span>}
      </p>
      {step.matched.length > 0 && (
        <p>
          <Labels names={step.matched} />
        </p>
      )}
    </div>
  );
}

export function Holds({ value }: { value: boolean | null }) {
  if (value === null)
    return (
      <span class="holds unknown" role="img" aria-label="null">
        ?
      </span>
    );
  return value ? (
    <span class="holds yes" role="img" aria-label="true">
      ✓
    </span>
  ) : (
    <span class="holds no" role="img" aria-label="false">
      ✗
    </span>
  );
}

function Picture({ graph, light }: { graph: Graph; light: Light }) {
  return (
    <>
      {graph.states.length > 0 && <Drawing graph={graph} light={light} />}
      {graph.parts.map((part, i) => (
        <figure key={`${i}-${part.title}`}>
          <figcaption class="quiet">{part.title}</figcaption>
          <Picture graph={part} light={light} />
        </figure>
      ))}
    </>
  );
}

function Drawing({ graph, light }: { graph: Graph; light: Light }) {
  const lit = light.states;
  const [placed, setPlaced] = useState<{ of: Graph; layout: Placed } | null>(null);
  const [failed, setFailed] = useState(false);
  const arrow = useId();
  const holder = useRef<HTMLDivElement>(null);
  const shape = JSON.stringify([graph.states.map((one) => one.label), graph.arcs]);
  useEffect(() => {
    let current = true;
    place(graph, roomOf(holder.current)).then(
      (layout) => current && setPlaced({ of: graph, layout }),
      () => current && setFailed(true),
    );
    return () => {
      current = false;
    };
  }, [shape]);
  const first = placed?.of.states.find((state) => lit.has(state.id))?.id;
  useEffect(() => {
    const state = holder.current?.querySelector("[data-lit=true]");
    if (first && state) state.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [first]);
  if (failed) return <p class="empty">This browser could not lay the automaton out.</p>;
  if (!placed) {
    return (
      <div ref={holder}>
        <p class="empty">Laying out…</p>
      </div>
    );
  }
  const { of, layout } = placed;
  const smaller = Math.max(SMALLEST, scale(layout, roomOf(holder.current)));
  const isLit = (index: number) => {
    const state = of.states[index];
    return state !== undefined && lit.has(state.id);
  };
  const held = (arc: number) => {
    const { source, target, text } = of.arcs[arc]!;
    const names = [of.states[target]?.label, text];
    if (!light.asked || !isLit(source) || !names.includes(light.asked)) return "";
    return `tried ${light.held === null ? "unknown" : light.held ? "yes" : "no"}`;
  };
  return (
    <div ref={holder} class="holder">
      <svg
        class="graph"
        style={{ width: `${layout.width * smaller}px`, maxWidth: "none" }}
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        role="img"
        aria-label={inWords(of)}
      >
        <defs>
          <marker
            id={arrow}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path d="M0 0.5L8 4L0 7.5z" />
          </marker>
        </defs>
        {layout.arcs.map((arc, i) => {
          const { faint, condition, text } = of.arcs[i]!;
          const classes = ["arc", faint ? "faint" : "", held(i)];
          return (
            <g key={i} class={classes.filter(Boolean).join(" ")}>
              <title>{condition || text}</title>
              <path d={arc.path} marker-end={`url(#${arrow})`} />
              {arc.at && (
                <text x={arc.at.x} y={arc.at.y}>
                  {arc.text}
                </text>
              )}
            </g>
          );
        })}
        {layout.states.map((box, i) => {
          const state = of.states[i]!;
          const classes = ["state"];
          if (state.accept) classes.push("accept");
          if (state.colour !== null) classes.push(`v${state.colour % 10}`);
          if (isLit(i)) classes.push("lit");
          return (
            <g key={state.id} class={classes.join(" ")} data-lit={isLit(i)}>
              <title>{[state.text, state.condition, state.note].filter(Boolean).join("\n")}</title>
              {state.start && (
                <path
                  class="enter"
                  d={
                    layout.down
                      ? `M${box.x + box.width / 2} ${box.y - 22}V${box.y - 2}`
                      : `M${box.x - 22} ${box.y + box.height / 2}H${box.x - 2}`
                  }
                  marker-end={`url(#${arrow})`}
                />
              )}
              <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={box.height / 2} />
              {state.accept && (
                <rect
                  class="inner"
                  x={box.x + 3.5}
                  y={box.y + 3.5}
                  width={box.width - 7}
                  height={box.height - 7}
                  rx={(box.height - 7) / 2}
                />
              )}
              <text x={box.x + box.width / 2} y={box.y + box.height / 2 + 4}>
                {shortened(state.label)}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** What a drawing may take of its pane, at the first layout before the steps stand below it. */
function roomOf(holder: Element | null): { width: number; height: number } {
  const pane = holder?.closest(".drawing");
  return { width: (pane?.clientWidth ?? 320) - 14, height: (pane?.clientHeight ?? 300) - 14 };
}

function inWords(graph: Graph): string {
  const arcs = graph.arcs.map((arc) => {
    const [from, to] = [graph.states[arc.source]?.label, graph.states[arc.target]?.label];
    return `${from} to ${to}${arc.text ? ` on ${arc.text}` : ""}`;
  });
  return `${graph.title}: ${graph.states.length} states; ${arcs.join("; ")}`;
}

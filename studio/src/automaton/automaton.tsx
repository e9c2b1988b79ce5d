// The automaton as a picture, lit by the chosen row, and the steps through a partition.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Graph, Trace, TraceStep } from "../protocol";
import { useAnswer, useStudio } from "../state/hooks";
import { ErrorNote } from "../ui/pieces";
import { type Placed, place, shortened } from "./layout";

const STEPS = 64; // rows per call of a trace

interface Lit {
  ids: Set<string>;
  names: Set<string>;
}

export function AutomatonPane() {
  const studio = useStudio();
  const graph = studio.reading.value?.automaton ?? null;
  const { step, trace, problem } = useStep();
  const ids = new Set<string>();
  const names = new Set<string>();
  for (const { state, variable } of step?.live ?? []) {
    if (state !== null) ids.add(state);
    else if (variable) names.add(variable);
  }
  return (
    <section class="automaton pane" aria-label="Automaton">
      <header>
        <h2>Automaton</h2>
        <Steps total={trace?.total ?? null} />
      </header>
      <div class="scroll drawing">
        {graph ? (
          <Picture graph={graph} lit={{ ids, names }} />
        ) : (
          <p class="empty">The automaton is drawn once the pattern reads.</p>
        )}
      </div>
      {step && <Asked step={step} />}
      <ErrorNote problem={problem} />
    </section>
  );
}

/** The step of the trace at the chosen row. */
function useStep(): {
  step: TraceStep | null;
  trace: Trace | null;
  problem: ReturnType<typeof useAnswer>["problem"];
} {
  const studio = useStudio();
  const { asked, source, selection } = studio;
  const chosen = selection.value;
  const row = chosen?.row;
  const from = row === undefined ? 0 : Math.floor(row / STEPS) * STEPS;
  const params =
    chosen && row !== undefined && asked.value && source.value
      ? { source: source.value, query: asked.value, key: chosen.key, from, limit: STEPS }
      : null;
  const answer = useAnswer("trace", params, 60);
  const step = answer.data?.steps.find((one) => one.row === row) ?? null;
  return { step, trace: answer.data, problem: answer.problem };
}

function Steps({ total }: { total: number | null }) {
  const studio = useStudio();
  const chosen = studio.selection.value;
  const [playing, setPlaying] = useState(false);
  const row = chosen?.row;
  const last = total === null ? Number.POSITIVE_INFINITY : total - 1;
  const go = (to: number) => {
    if (!chosen) return;
    const next = Math.max(0, Math.min(to, last));
    studio.choose({ key: chosen.key, label: chosen.label, row: next, reveal: true });
    studio.say(`row ${next}`);
  };
  useEffect(() => {
    if (!playing) return undefined;
    if (row === undefined || row >= last) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => go(row + 1), 600);
    return () => clearTimeout(timer);
  });
  const off = !chosen;
  const at = row ?? -1;
  return (
    <span class="group" role="group" aria-label="Steps">
      <button
        type="button"
        disabled={off}
        title="First row"
        aria-label="First row"
        onClick={() => go(0)}
      >
        <Icon path="M1 1h2v10H1zM12 1v10L4 6z" />
      </button>
      <button
        type="button"
        disabled={off || at <= 0}
        aria-label="Step back"
        title="Step back"
        onClick={() => go(at - 1)}
      >
        <Icon path="M10 1v10L2 6z" />
      </button>
      <button
        type="button"
        disabled={off}
        aria-label={playing ? "Pause" : "Play"}
        title={playing ? "Pause" : "Play the steps"}
        onClick={() => {
          if (row === undefined) go(0);
          setPlaying(!playing);
        }}
      >
        <Icon path={playing ? "M2 1h3v10H2zM7 1h3v10H7z" : "M2 1v10l8-5z"} />
      </button>
      <button
        type="button"
        disabled={off || at >= last}
        aria-label="Step forward"
        title="Step forward"
        onClick={() => go(at + 1)}
      >
        <Icon path="M8 1h2v10H8zM1 1v10l6-5z" />
      </button>
    </span>
  );
}

function Icon({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 12 12" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

function Asked({ step }: { step: TraceStep }) {
  return (
    <div class="asked" aria-live="polite">
      <p class="quiet">
        Row {step.row}: {step.live.length} live {step.live.length === 1 ? "attempt" : "attempts"}
        {step.matches.length > 0 && ` · match ${step.matches.join(", ")}`}
      </p>
      <ul class="plain">
        {step.asked.slice(0, 12).map((one, i) => (
          <li key={i}>
            <Holds value={one.gave} /> <b>{one.variable}</b> <code>{one.text}</code>
            {one.kept && <span class="quiet"> kept</span>}
          </li>
        ))}
      </ul>
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

function Picture({ graph, lit }: { graph: Graph; lit: Lit }) {
  return (
    <>
      {graph.states.length > 0 && <Drawing graph={graph} lit={lit} />}
      {graph.parts.map((part, i) => (
        <figure key={`${i}-${part.title}`}>
          <figcaption class="quiet">{part.title}</figcaption>
          <Picture graph={part} lit={lit} />
        </figure>
      ))}
    </>
  );
}

function Drawing({ graph, lit }: { graph: Graph; lit: Lit }) {
  const [placed, setPlaced] = useState<{ of: Graph; layout: Placed } | null>(null);
  const [failed, setFailed] = useState(false);
  const arrow = useId();
  const holder = useRef<SVGSVGElement>(null);
  const shape = JSON.stringify([graph.states.map((one) => one.label), graph.arcs]);
  useEffect(() => {
    let current = true;
    place(graph).then(
      (layout) => current && setPlaced({ of: graph, layout }),
      () => current && setFailed(true),
    );
    return () => {
      current = false;
    };
  }, [shape]);
  if (failed) return <p class="empty">This browser could not lay the automaton out.</p>;
  if (!placed) return <p class="empty">Laying out…</p>;
  const { of, layout } = placed;
  const isLit = (index: number) => {
    const state = of.states[index];
    return !!state && (lit.ids.has(state.id) || lit.names.has(state.label));
  };
  return (
    <svg
      ref={holder}
      class="graph"
      style={{ width: `${layout.width}px`, minWidth: `${Math.min(layout.width, 900) * 0.6}px` }}
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
          orient="auto"
        >
          <path d="M0 0.5L8 4L0 7.5z" />
        </marker>
      </defs>
      {layout.arcs.map((arc, i) => {
        const { faint, condition, text } = of.arcs[i]!;
        return (
          <g key={i} class={`arc${faint ? " faint" : ""}`}>
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
                d={`M${box.x - 22} ${box.y + box.height / 2}H${box.x - 2}`}
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
  );
}

function inWords(graph: Graph): string {
  const arcs = graph.arcs.map((arc) => {
    const [from, to] = [graph.states[arc.source]?.label, graph.states[arc.target]?.label];
    return `${from} to ${to}${arc.text ? ` on ${arc.text}` : ""}`;
  });
  return `${graph.title}: ${graph.states.length} states; ${arcs.join("; ")}`;
}

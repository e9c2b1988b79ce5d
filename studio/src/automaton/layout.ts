// Where states and arcs of an automaton stand: elkjs, layered from left to right.

import type { ELK, ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import type { Graph } from "../protocol";

export interface Placed {
  down: boolean;
  width: number;
  height: number;
  states: { x: number; y: number; width: number; height: number }[];
  arcs: { path: string; text: string; at: { x: number; y: number } | null }[];
}

const SIZE = 11; // pixels of letters
const LONGEST = 26;
let elk: Promise<ELK> | undefined;

function engine(): Promise<ELK> {
  elk ??= import("elkjs/lib/elk.bundled.js").then(({ default: Engine }) => new Engine());
  return elk;
}

export function shortened(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** To the right, or downwards where that is drawn larger in the room there is. */
export async function place(graph: Graph, room: { width: number; height: number }) {
  const right = await laidOut(graph, "RIGHT");
  if (right.width <= room.width) return right;
  const down = await laidOut(graph, "DOWN");
  return scale(down, room) > scale(right, room) ? down : right;
}

/** How much smaller a layout is drawn so that it fits. */
export function scale(layout: Placed, room: { width: number; height: number }): number {
  return Math.min(1, room.width / layout.width, room.height / layout.height);
}

async function laidOut(graph: Graph, direction: "RIGHT" | "DOWN"): Promise<Placed> {
  const down = direction === "DOWN";
  const children = graph.states.map((state, index) => {
    const width = Math.max(36, textWidth(shortened(state.label)) + 22);
    return { id: `s${index}`, width, height: down ? 24 : 32 };
  });
  const edges = graph.arcs.map((arc, index) => {
    const text = arcText(graph, index);
    return {
      id: `a${index}`,
      sources: [`s${arc.source}`],
      targets: [`s${arc.target}`],
      labels: text ? [{ text, width: textWidth(text) + 4, height: 14 }] : [],
    };
  });
  const root: ElkNode = {
    id: "root",
    children,
    edges,
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": direction,
      "elk.edgeRouting": "SPLINES",
      "elk.layered.spacing.nodeNodeBetweenLayers": down ? "15" : "34",
      "elk.spacing.nodeNode": "22",
      "elk.spacing.edgeLabel": "3",
      "elk.edgeLabels.inline": "false",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
      "elk.padding": down
        ? "[top=26,left=14,bottom=8,right=14]"
        : "[top=12,left=26,bottom=12,right=14]",
    },
  };
  const placed: ElkNode = await (await engine()).layout(root);
  return {
    down,
    width: placed.width ?? 0,
    height: placed.height ?? 0,
    states: (placed.children ?? []).map(({ x = 0, y = 0, width = 0, height = 0 }) => {
      return { x, y, width, height };
    }),
    arcs: ((placed.edges ?? []) as ElkExtendedEdge[]).map((edge) => arcOf(edge)),
  };
}

/** A label is told once: where the target says the same, the arc needs no word. */
function arcText(graph: Graph, index: number): string {
  const arc = graph.arcs[index]!;
  if (arc.faint) return ""; // rows that are left out; the tip says which
  const text = arc.label || arc.text;
  return text === graph.states[arc.target]?.label ? "" : shortened(text);
}

function arcOf(edge: ElkExtendedEdge): Placed["arcs"][number] {
  const label = edge.labels?.[0];
  const path = (edge.sections ?? [])
    .map(({ startPoint, endPoint, bendPoints = [] }) => {
      const points = [...bendPoints, endPoint];
      let text = `M${startPoint.x} ${startPoint.y}`;
      // Splines come as controls and points, three by three.
      let i = 0;
      for (; i + 2 < points.length; i += 3) {
        text += `C${points
          .slice(i, i + 3)
          .map(({ x, y }) => `${x} ${y}`)
          .join(" ")}`;
      }
      for (; i < points.length; i += 1) text += `L${points[i]!.x} ${points[i]!.y}`;
      return text;
    })
    .join("");
  const at =
    label?.x === undefined || label.y === undefined
      ? null
      : { x: label.x + (label.width ?? 0) / 2, y: label.y + 11 };
  return { path, text: label?.text ?? "", at };
}

function textWidth(text: string): number {
  return text.length * SIZE * 0.6;
}

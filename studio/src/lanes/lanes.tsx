// The lanes on their canvas: pointer, wheel and keyboard, the toolbar, and the table of the same.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useStudio } from "../state/hooks";
import { ErrorNote } from "../ui/pieces";
import { useDark } from "../ui/theme";
import { AXIS, draw, GUTTER, type Scene } from "./draw";
import { download, pngOf, svgOf } from "./export";
import { LaneTable } from "./lane-table";
import { LanesModel } from "./model";
import { coloursOf } from "./palette";
import { neighbour, nextMatch, pick } from "./pick";
import { CanvasSurface } from "./surface";
import { placed } from "./ticks";

const HEIGHTS = [12, 22, 38, 60];
const NEARER = 5; // times that one zooms for an event
const OF_EVENTS = new Set(["ArrowLeft", "ArrowRight", "m", "M"]);
const MOVES = ["ArrowUp", "ArrowDown", "PageDown", "PageUp", "Home", "End"];
const KEYS = new Set([...OF_EVENTS, ...MOVES, "+", "=", "-", "0", "x", "Escape"]);
const HELP =
  "Arrow keys choose events and lanes, M and Shift+M matches, plus and minus zoom, " +
  "Shift+arrows move, 0 shows all, X marks a row that was expected to match.";

export function Lanes() {
  const studio = useStudio();
  const dark = useDark();
  const model = useMemo(() => new LanesModel(studio), [studio]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const [asTable, setAsTable] = useState(false);
  const [focused, setFocused] = useState(false);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
  const { asked, selection, expected, path, changes, palette, round, reading } = studio;
  const colours = coloursOf(dark);
  const scene: Scene = {
    model,
    colours,
    palette: palette.value,
    selection: selection.value,
    expected: expected.value,
    path: path.value,
    changes: changes.value,
    focused,
  };
  const latest = useRef(scene);
  latest.current = scene;

  // A new query, a new source, or a call for all answers anew.
  useEffect(() => void model.restart(), [asked.value, round.value]);
  useEffect(() => () => model.stop(), [model]);

  // One frame at most per change, whatever changes.
  const version = model.changed.value;
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      if (canvas.current) paint(canvas.current, latest.current);
    });
    return () => cancelAnimationFrame(frame);
  }, [
    version,
    dark,
    focused,
    asTable,
    selection.value,
    expected.value,
    path.value,
    changes.value,
    palette.value,
  ]);

  useEffect(() => {
    if (!stage.current) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      model.width = Math.max(50, Math.floor(width) - GUTTER);
      model.height = Math.max(40, Math.floor(height) - AXIS);
      model.touch();
    });
    observer.observe(stage.current);
    return () => observer.disconnect();
  }, [asTable, model]);

  // What was chosen elsewhere comes into view here.
  useEffect(() => {
    const chosen = selection.value;
    if (!chosen?.reveal) return;
    const match = model.lanes
      .get(chosen.key)
      ?.lane.matches.find((one) => one.number === chosen.match);
    const from = match?.from ?? chosen.at;
    void model.reveal(chosen.key, from, match?.to ?? chosen.until ?? chosen.at);
    if (from !== undefined && chosen.until !== undefined) model.approach([from, chosen.until]);
  }, [selection.value, model]);

  // What was chosen by name, in a list, is shown so near that its rows can be told apart.
  useEffect(() => {
    const { reveal, step, until } = selection.value ?? {};
    if (!path.value || !reveal || step !== undefined || until !== undefined) return;
    const { at, stopped } = path.value;
    model.approach(stopped === null ? at : [...at, stopped]);
  }, [path.value, model]);

  const zoom = (factor: number, around?: number) => {
    model.camera.zoom(factor, around ?? model.anchor());
    model.touch();
  };
  const pan = (share: number) => {
    model.camera.pan(share);
    model.touch();
  };
  const scroll = (to: number) => {
    model.scroll = to;
    model.touch();
  };
  const fit = () => {
    model.camera.fit();
    model.touch();
  };

  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const wheel = (event: WheelEvent) => {
      const scale = event.deltaMode === 1 ? 18 : 1;
      const dx = event.deltaX * scale;
      const dy = event.deltaY * scale;
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.altKey) {
        const x = Math.max(0, event.offsetX - GUTTER);
        const factor = Math.exp(Math.max(-200, Math.min(200, dy)) * 0.004);
        zoom(factor, model.camera.at(x, model.width));
        return;
      }
      if (event.shiftKey && !dx) pan(dy / model.width);
      else {
        if (dx) model.camera.pan(dx / model.width);
        model.scroll += dy;
        model.touch();
      }
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });

  const drag = useRef<{ x: number; y: number; moved: boolean; axis: boolean } | null>(null);
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const axis = event.offsetY < AXIS && event.offsetX > GUTTER;
    drag.current = { x: event.offsetX, y: event.offsetY, moved: false, axis };
    (event.target as Element).setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent) => {
    const held = drag.current;
    if (!held) {
      setTip(hover(model, event));
      return;
    }
    const dx = event.offsetX - held.x;
    const dy = event.offsetY - held.y;
    if (!held.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    setTip(null);
    if (held.axis) {
      // Along the axis a drag zooms, as one pulls a ruler longer.
      const around = model.camera.at(held.x - GUTTER, model.width);
      model.camera.zoom(Math.exp(-dx * 0.01), around);
    } else {
      model.camera.pan(-dx / model.width);
      model.scroll -= dy;
    }
    drag.current = {
      ...held,
      x: held.axis ? event.offsetX : held.x + dx,
      y: held.y + dy,
      moved: true,
    };
    model.touch();
  };
  const onPointerUp = (event: PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    if (!held || held.moved || event.button !== 0) return;
    const picked = pick(model, event.offsetX, event.offsetY);
    if (picked?.row !== undefined && event.shiftKey) studio.expect(picked.key, picked.row);
    else studio.choose(picked);
  };

  const press = async (pressed: string, shift: boolean) => {
    // What one moves to has to be here: the keys, and the events of the lane one is in.
    await model.arrived(OF_EVENTS.has(pressed) ? selection.value?.key : undefined);
    const chosen = selection.value;
    const move = (next: typeof chosen) => {
      if (!next) return;
      studio.choose(next);
      studio.say(told(model, next));
    };
    const beside = async (step: 1 | -1) => {
      if (!chosen) return;
      // Counts hold no single event to go to: come near enough to see them.
      for (let i = 0; i < NEARER && model.nearer(chosen.key); i += 1) {
        await model.arrived(chosen.key);
      }
      move(neighbour(model, chosen, step));
    };
    const lane = (step: number) => {
      const index = chosen ? model.indexOf(chosen.key) + step : model.first();
      const info = model.keyAt(index);
      if (info) move({ key: info.key, label: info.label, reveal: true });
    };
    const keys: Record<string, () => unknown> = {
      ArrowUp: () => lane(-1),
      ArrowDown: () => lane(1),
      ArrowLeft: () => (shift ? pan(-0.2) : beside(-1)),
      ArrowRight: () => (shift ? pan(0.2) : beside(1)),
      m: () => chosen && move(nextMatch(model, chosen, 1)),
      M: () => chosen && move(nextMatch(model, chosen, -1)),
      "+": () => zoom(0.6, chosen?.at),
      "=": () => zoom(0.6, chosen?.at),
      "-": () => zoom(1 / 0.6, chosen?.at),
      "0": fit,
      PageDown: () => scroll(model.scroll + model.height),
      PageUp: () => scroll(model.scroll - model.height),
      Home: () => scroll(0),
      End: () => scroll(Number.MAX_SAFE_INTEGER),
      Escape: () => studio.choose(null),
      x: () => chosen?.row !== undefined && studio.expect(chosen.key, chosen.row),
    };
    await keys[pressed]?.();
  };
  // One after the other, in the order in which they were pressed.
  const pressing = useRef(Promise.resolve());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS.has(event.key)) return;
    event.preventDefault();
    const { key, shiftKey } = event;
    const act = () => latestPress.current(key, shiftKey);
    pressing.current = pressing.current.then(act, act);
  };
  const latestPress = useRef(press);
  latestPress.current = press;

  const scroller = model.total * model.laneHeight > model.height;
  return (
    <section class="lanes" aria-label="Events">
      <Toolbar
        model={model}
        asTable={asTable}
        setAsTable={setAsTable}
        zoom={zoom}
        fit={fit}
        save={(kind) => {
          const name = `ensue-lanes.${kind}`;
          if (kind === "svg") download(name, new Blob([svgOf(scene)], { type: "image/svg+xml" }));
          else void pngOf(scene).then((blob) => download(name, blob));
        }}
      />
      <ErrorNote problem={model.problem.value} again={() => void model.restart()} />
      {asTable ? (
        <LaneTable model={model} />
      ) : (
        <div class="stage" ref={stage}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="application"
            aria-roledescription="lanes of events"
            aria-label={`${summary(model, reading.value?.variables.length ?? 0)} ${HELP}`}
            onPointerDown={onPointerDown}
            onPointerMove={onPointerMove}
            onPointerUp={onPointerUp}
            onPointerLeave={() => setTip(null)}
            onDblClick={(event) =>
              zoom(0.4, model.camera.at(Math.max(0, event.offsetX - GUTTER), model.width))
            }
            onKeyDown={onKeyDown}
            onFocus={() => setFocused(true)}
            onBlur={() => setFocused(false)}
          />
          {scroller && <Scrollbar model={model} />}
          {tip && (
            <div class="tip" style={{ left: `${tip.x}px`, top: `${tip.y}px` }}>
              {tip.text}
            </div>
          )}
          {asked.value && model.empty && <p class="empty">This table has no rows.</p>}
          {asked.value && !model.empty && model.total === 0 && model.order.value.search && (
            <p class="empty">No key holds “{model.order.value.search}”.</p>
          )}
        </div>
      )}
    </section>
  );
}

interface ToolbarProps {
  model: LanesModel;
  asTable: boolean;
  setAsTable: (on: boolean) => void;
  zoom: (factor: number) => void;
  fit: () => void;
  save: (kind: "svg" | "png") => void;
}

function Toolbar({ model, asTable, setAsTable, zoom, fit, save }: ToolbarProps) {
  const { search, sort, reason } = model.order.value;
  const whyAsked = [...Array(Math.min(3, model.total)).keys()].some((i) => model.keyAt(i)?.best);
  return (
    <div class="toolbar" role="toolbar" aria-label="Lanes">
      <input
        type="search"
        placeholder="Find a key"
        aria-label="Find a key"
        value={search}
        onInput={(event) => model.setOrder({ search: event.currentTarget.value })}
      />
      <select
        aria-label="Order of the lanes"
        value={sort}
        onChange={(event) => model.setOrder({ sort: event.currentTarget.value })}
      >
        <option value="key">by key</option>
        <option value="-matches">most matches</option>
        <option value="matches">fewest matches</option>
        <option value="-rows">most rows</option>
        {(whyAsked || sort === "-misses") && <option value="-misses">nearest misses</option>}
      </select>
      {reason && (
        <button type="button" class="chip" onClick={() => model.setOrder({ reason: null })}>
          {reason} ✕
        </button>
      )}
      <span class="quiet about-lanes" title={model.cut ?? undefined}>
        {model.cut}
      </span>
      <span class="group">
        <button
          type="button"
          class="icon-button"
          title="Zoom in (+)"
          aria-label="Zoom in"
          onClick={() => zoom(0.5)}
        >
          +
        </button>
        <button
          type="button"
          class="icon-button"
          title="Zoom out (−)"
          aria-label="Zoom out"
          onClick={() => zoom(2)}
        >
          −
        </button>
        <button type="button" title="Show everything (0)" onClick={fit}>
          Fit
        </button>
      </span>
      <select
        aria-label="Height of the lanes"
        value={String(model.laneHeight)}
        onChange={(event) => {
          const first = model.first();
          model.laneHeight = Number(event.currentTarget.value);
          model.scroll = first * model.laneHeight;
          model.touch();
        }}
      >
        {HEIGHTS.map((one, i) => (
          <option key={one} value={String(one)}>
            {["tiny", "low", "normal", "tall"][i]}
          </option>
        ))}
      </select>
      <button type="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
        Table
      </button>
      <span class="group">
        <button type="button" title="Save the picture as SVG" onClick={() => save("svg")}>
          SVG
        </button>
        <button type="button" title="Save the picture as PNG" onClick={() => save("png")}>
          PNG
        </button>
      </span>
    </div>
  );
}

function Scrollbar({ model }: { model: LanesModel }) {
  const whole = model.total * model.laneHeight;
  return (
    <div
      class="scrollbar"
      style={{ top: `${AXIS}px` }}
      ref={(element) => {
        if (element && Math.abs(element.scrollTop - shown(model, whole)) > 1) {
          element.scrollTop = shown(model, whole);
        }
      }}
      onScroll={(event) => {
        const { scrollTop } = event.currentTarget;
        if (Math.abs(scrollTop - shown(model, whole)) <= 1) return;
        model.scroll = (scrollTop / Math.min(whole, TALLEST)) * whole;
        model.touch();
      }}
    >
      <div style={{ height: `${Math.min(whole, TALLEST)}px` }} />
    </div>
  );
}

// Browsers hold no element of many million pixels.
const TALLEST = 4_000_000;

function shown(model: LanesModel, whole: number): number {
  return Math.round((model.scroll / whole) * Math.min(whole, TALLEST));
}

function paint(canvas: HTMLCanvasElement, scene: Scene): void {
  const ratio = window.devicePixelRatio || 1;
  const width = GUTTER + scene.model.width;
  const height = AXIS + scene.model.height;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw(new CanvasSurface(pen), scene);
}

function hover(model: LanesModel, event: PointerEvent) {
  const picked = pick(model, event.offsetX, event.offsetY);
  if (!picked || (picked.row === undefined && picked.match === undefined)) return null;
  const text = told(model, picked);
  return {
    x: Math.min(event.offsetX + 12, GUTTER + model.width - 220),
    y: event.offsetY + 16,
    text,
  };
}

/** A selection in words, for the tip and for screen readers. */
function told(
  model: LanesModel,
  { key, label, row, at, match }: NonNullable<ReturnType<typeof pick>>,
) {
  const lane = model.lanes.get(key)?.lane;
  const parts = [label || `key ${key}`];
  if (row !== undefined) parts.push(`row ${row}`);
  if (at !== undefined && model.axis !== "rank") parts.push(placed(model.axis, at));
  if (match !== undefined) {
    parts.push(`match ${match}`);
    const measures = lane?.matches.find((one) => one.number === match)?.measures ?? {};
    for (const [name, value] of Object.entries(measures)) parts.push(`${name} ${value ?? "null"}`);
  }
  return parts.join(" · ");
}

function summary(model: LanesModel, variables: number): string {
  if (!model.total) return "No lanes yet.";
  return `${model.total} lanes of events, ${variables} variables.`;
}

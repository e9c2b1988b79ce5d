// The bar between lanes and answers: drag it, or move it with the arrow keys.

import { useRef } from "preact/hooks";

const [LEAST, USUAL, MOST, STEP] = [20, 54, 80, 4];

export function Splitter() {
  const bar = useRef<HTMLDivElement>(null);
  const upper = useRef(USUAL);
  const set = (percent: number) => {
    upper.current = Math.min(MOST, Math.max(LEAST, percent));
    bar.current?.parentElement?.style.setProperty("--upper", `${upper.current}%`);
    bar.current?.setAttribute("aria-valuenow", String(Math.round(upper.current)));
  };
  const drag = (event: PointerEvent) => {
    if (!event.buttons || !bar.current?.parentElement) return;
    const { top, height } = bar.current.parentElement.getBoundingClientRect();
    set(((event.clientY - top) / height) * 100);
  };
  return (
    <div
      ref={bar}
      class="splitter"
      role="separator"
      aria-orientation="horizontal"
      aria-label="Height of the events"
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      aria-valuenow={USUAL}
      tabIndex={0}
      onPointerDown={(event) => bar.current?.setPointerCapture(event.pointerId)}
      onPointerMove={drag}
      onDblClick={() => set(USUAL)}
      onKeyDown={(event) => {
        const step = { ArrowUp: -STEP, ArrowDown: STEP }[event.key];
        if (!step) return;
        event.preventDefault();
        set(upper.current + step);
      }}
    />
  );
}

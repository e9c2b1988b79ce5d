// What part of the axis is seen. `at` is a place on the axis, x a distance in pixels from its left end.

export interface Span {
  from: number;
  to: number;
}

const WIDER = 1.15; // how far one may zoom out beyond all events

export class Camera implements Span {
  from = 0;
  to = 1;
  private all: Span = { from: 0, to: 1 };

  /** All events, with a little air, so that the first and the last are seen. */
  cover(from: number, to: number): void {
    const air = from === to ? 0.5 : (to - from) * 0.015;
    this.all = { from: from - air, to: to + air };
  }

  fit(): void {
    this.from = this.all.from;
    this.to = this.all.to;
  }

  get span(): number {
    return this.to - this.from;
  }

  /** The share of everything that is seen. */
  get share(): number {
    return this.span / (this.all.to - this.all.from);
  }

  x(at: number, width: number): number {
    return ((at - this.from) / this.span) * width;
  }

  at(x: number, width: number): number {
    return this.from + (x / width) * this.span;
  }

  /** Below 1 comes nearer; the place under the pointer stays where it is. */
  zoom(factor: number, around: number): void {
    const whole = this.all.to - this.all.from;
    const least = Math.max(whole * 1e-9, Math.abs(this.all.to) * 1e-12);
    const span = Math.min(Math.max(this.span * factor, least), whole * WIDER);
    const share = (around - this.from) / this.span;
    this.from = around - span * share;
    this.to = this.from + span;
    this.hold();
  }

  /** Moves by a share of what is seen. */
  pan(share: number): void {
    const move = this.span * share;
    this.from += move;
    this.to += move;
    this.hold();
  }

  /** Shows a span with room around it. */
  show(from: number, to: number): void {
    const air = from === to ? this.span * 0.25 : (to - from) * 0.4;
    this.from = from - air;
    this.to = to + air;
    this.hold();
  }

  /** Moves so far that a span is seen, and not at all where it is. */
  reveal(from: number, to: number): void {
    if (from >= this.from && to <= this.to) return;
    if (to - from > this.span * 0.8) {
      this.show(from, to);
      return;
    }
    const half = this.span / 2;
    const { all } = this;
    // Not beyond the first or the last event, where there is room enough without.
    const [low, high] = [all.from + half, all.to - half];
    const wished = (from + to) / 2;
    const middle = low > high ? (low + high) / 2 : Math.min(Math.max(wished, low), high);
    this.from = middle - half;
    this.to = middle + half;
    this.hold();
  }

  private hold(): void {
    // Half the view may be empty, not more.
    const middle = (this.from + this.to) / 2;
    const clamped = Math.min(Math.max(middle, this.all.from), this.all.to);
    this.from += clamped - middle;
    this.to += clamped - middle;
  }
}

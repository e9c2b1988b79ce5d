// Where lanes are drawn: a canvas, or an SVG text of the same. Marks of one colour are one path, so
// that ten thousand of them cost one call.

import { trace } from "./palette";

export interface Surface {
  /** Rectangles: x, y, width, height, one after the other. */
  rects(colour: string, flat: readonly number[], opacity?: number): void;
  /** Lines: x, y to x, y. */
  lines(colour: string, width: number, flat: readonly number[]): void;
  /** A variable's shape at x, y, one after the other. */
  marks(
    shape: number,
    colour: string,
    size: number,
    flat: readonly number[],
    opacity?: number,
  ): void;
  rings(colour: string, size: number, flat: readonly number[], dashed?: boolean): void;
  text(text: string, x: number, y: number, style: TextStyle): void;
  /** Draws inside a rectangle only. */
  within(x: number, y: number, width: number, height: number, draw: () => void): void;
  measure(text: string, size: number, bold?: boolean): number;
}

export interface TextStyle {
  colour: string;
  size: number;
  bold?: boolean;
  align?: "left" | "center" | "right";
  room?: number;
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

export class CanvasSurface implements Surface {
  constructor(private readonly pen: CanvasRenderingContext2D) {}

  rects(colour: string, flat: readonly number[], opacity = 1): void {
    const { pen } = this;
    pen.globalAlpha = opacity;
    pen.fillStyle = colour;
    for (let i = 0; i < flat.length; i += 4) {
      pen.fillRect(flat[i]!, flat[i + 1]!, flat[i + 2]!, flat[i + 3]!);
    }
    pen.globalAlpha = 1;
  }

  lines(colour: string, width: number, flat: readonly number[]): void {
    if (!flat.length) return;
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    for (let i = 0; i < flat.length; i += 4) {
      pen.moveTo(flat[i]!, flat[i + 1]!);
      pen.lineTo(flat[i + 2]!, flat[i + 3]!);
    }
    pen.stroke();
  }

  marks(shape: number, colour: string, size: number, flat: readonly number[], opacity = 1): void {
    if (!flat.length) return;
    const { pen } = this;
    pen.globalAlpha = opacity;
    pen.fillStyle = colour;
    pen.beginPath();
    for (let i = 0; i < flat.length; i += 2) trace(pen, shape, flat[i]!, flat[i + 1]!, size);
    pen.fill();
    pen.globalAlpha = 1;
  }

  rings(colour: string, size: number, flat: readonly number[], dashed = false): void {
    if (!flat.length) return;
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.setLineDash(dashed ? [3, 2] : []);
    pen.beginPath();
    for (let i = 0; i < flat.length; i += 2) trace(pen, 0, flat[i]!, flat[i + 1]!, size);
    pen.stroke();
    pen.setLineDash([]);
  }

  text(text: string, x: number, y: number, { colour, size, bold, align, room }: TextStyle): void {
    const { pen } = this;
    pen.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    pen.fillStyle = colour;
    pen.textAlign = align ?? "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(
      room === undefined ? text : fitted(text, room, (one) => pen.measureText(one).width),
      x,
      y,
    );
  }

  within(x: number, y: number, width: number, height: number, draw: () => void): void {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    draw();
    pen.restore();
  }

  measure(text: string, size: number, bold = false): number {
    this.pen.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    return this.pen.measureText(text).width;
  }
}

/** Writes the same picture as SVG. */
export class SvgSurface implements Surface {
  private readonly parts: string[] = [];
  private clips = 0;

  constructor(
    private readonly width: number,
    private readonly height: number,
  ) {}

  rects(colour: string, flat: readonly number[], opacity = 1): void {
    const pieces: string[] = [];
    for (let i = 0; i < flat.length; i += 4) {
      const [x, y, wide, high] = [flat[i]!, flat[i + 1]!, flat[i + 2]!, flat[i + 3]!];
      pieces.push(`M${round(x)} ${round(y)}h${round(wide)}v${round(high)}h${round(-wide)}z`);
    }
    if (pieces.length) {
      this.parts.push(`<path fill="${colour}" fill-opacity="${opacity}" d="${pieces.join("")}"/>`);
    }
  }

  lines(colour: string, width: number, flat: readonly number[]): void {
    const pieces: string[] = [];
    for (let i = 0; i < flat.length; i += 4) {
      pieces.push(
        `M${round(flat[i]!)} ${round(flat[i + 1]!)}L${round(flat[i + 2]!)} ${round(flat[i + 3]!)}`,
      );
    }
    if (pieces.length) {
      this.parts.push(
        `<path stroke="${colour}" stroke-width="${width}" fill="none" d="${pieces.join("")}"/>`,
      );
    }
  }

  marks(shape: number, colour: string, size: number, flat: readonly number[], opacity = 1): void {
    const path = shapes(shape, size, flat);
    if (path) {
      this.parts.push(`<path fill="${colour}" fill-opacity="${opacity}" d="${path}"/>`);
    }
  }

  rings(colour: string, size: number, flat: readonly number[], dashed = false): void {
    const path = shapes(0, size, flat);
    const dash = dashed ? ' stroke-dasharray="3 2"' : "";
    if (path) {
      this.parts.push(`<path stroke="${colour}" stroke-width="2" fill="none"${dash} d="${path}"/>`);
    }
  }

  text(text: string, x: number, y: number, { colour, size, bold, align, room }: TextStyle): void {
    const shown = room === undefined ? text : fitted(text, room, (one) => this.measure(one, size));
    const anchor = { left: "start", center: "middle", right: "end" }[align ?? "left"];
    this.parts.push(
      `<text x="${round(x)}" y="${round(y)}" fill="${colour}" font-size="${size}" ` +
        `font-weight="${bold ? 600 : 400}" text-anchor="${anchor}">${escaped(shown)}</text>`,
    );
  }

  within(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.clips += 1;
    this.parts.push(
      `<clipPath id="c${this.clips}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/>` +
        `</clipPath><g clip-path="url(#c${this.clips})">`,
    );
    draw();
    this.parts.push("</g>");
  }

  measure(text: string, size: number): number {
    return text.length * size * 0.56;
  }

  toString(): string {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" ` +
      `viewBox="0 0 ${this.width} ${this.height}" font-family="${escaped(FONT)}">` +
      `${this.parts.join("\n")}</svg>\n`
    );
  }
}

function shapes(shape: number, size: number, flat: readonly number[]): string {
  const pieces: string[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    const x = flat[i]!;
    const y = flat[i + 1]!;
    const s = (factor: number) => round(size * factor);
    const at = (dx: number, dy: number) => `${round(x + size * dx)} ${round(y + size * dy)}`;
    if (shape % 4 === 0) {
      pieces.push(
        `M${at(-1, 0)}a${s(1)} ${s(1)} 0 1 0 ${s(2)} 0a${s(1)} ${s(1)} 0 1 0 ${s(-2)} 0z`,
      );
    } else if (shape % 4 === 1) {
      pieces.push(`M${at(-0.88, -0.88)}h${s(1.76)}v${s(1.76)}h${s(-1.76)}z`);
    } else if (shape % 4 === 2) {
      pieces.push(`M${at(0, -1.25)}L${at(1.25, 0)}L${at(0, 1.25)}L${at(-1.25, 0)}z`);
    } else {
      pieces.push(`M${at(0, -1.15)}L${at(1.15, 0.85)}L${at(-1.15, 0.85)}z`);
    }
  }
  return pieces.join("");
}

function fitted(text: string, room: number, measure: (text: string) => number): string {
  if (measure(text) <= room) return text;
  let kept = text.length;
  while (kept > 1 && measure(`${text.slice(0, kept)}…`) > room) kept -= 1;
  return `${text.slice(0, kept)}…`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

export function escaped(text: string): string {
  return text
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");
}

// Colours that colour-blind people can tell apart (after Okabe and Ito, darkened or lightened to stand
// out from the page), and a shape for each, since colour alone must not carry the meaning.

export const SHADES = 10;

const LIGHT = [
  "#0072b2", "#c25100", "#00875f", "#b8479a", "#8f6b00",
  "#0e7c86", "#6a4c93", "#8c4a32", "#4d7c0f", "#5f6b7a",
]; // biome-ignore format: a row of five reads best
const DARK = [
  "#4aa8e8",
  "#f08a4b",
  "#2fc79a",
  "#e58cc8",
  "#e6c229",
  "#9bd5f7",
  "#b79ae8",
  "#d69a80",
  "#a3cf62",
  "#a9b4c2",
];

export interface Colours {
  shades: readonly string[];
  text: string;
  quiet: string;
  line: string;
  band: string;
  back: string;
  accent: string;
  dot: string;
  bad: string;
  good: string;
}

export function coloursOf(dark: boolean): Colours {
  return dark
    ? {
        shades: DARK,
        text: "#e6e9ee",
        quiet: "#98a3b3",
        line: "#2c333d",
        band: "#1b2027",
        back: "#15191e",
        accent: "#6cb8f0",
        dot: "#55606e",
        bad: "#ff8f7a",
        good: "#5fd3a5",
      }
    : {
        shades: LIGHT,
        text: "#1d2530",
        quiet: "#657182",
        line: "#dde2e8",
        band: "#f5f7f9",
        back: "#ffffff",
        accent: "#0b6e99",
        dot: "#b5bec9",
        bad: "#b3261e",
        good: "#00714f",
      };
}

export function shade(colours: Colours, index: number): string {
  return colours.shades[index % SHADES]!;
}

/** Traces a variable's shape around a place: circle, square, diamond or triangle. */
export function trace(
  pen: CanvasRenderingContext2D | Path2D,
  index: number,
  x: number,
  y: number,
  size: number,
): void {
  switch (index % 4) {
    case 0:
      pen.moveTo(x + size, y);
      pen.arc(x, y, size, 0, Math.PI * 2);
      break;
    case 1:
      pen.rect(x - size * 0.88, y - size * 0.88, size * 1.76, size * 1.76);
      break;
    case 2:
      pen.moveTo(x, y - size * 1.25);
      pen.lineTo(x + size * 1.25, y);
      pen.lineTo(x, y + size * 1.25);
      pen.lineTo(x - size * 1.25, y);
      pen.closePath();
      break;
    default:
      pen.moveTo(x, y - size * 1.15);
      pen.lineTo(x + size * 1.15, y + size * 0.85);
      pen.lineTo(x - size * 1.15, y + size * 0.85);
      pen.closePath();
  }
}

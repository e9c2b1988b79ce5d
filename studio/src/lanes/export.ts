// The picture of the lanes as a file.

import { AXIS, draw, GUTTER, type Scene } from "./draw";
import { CanvasSurface, SvgSurface } from "./surface";

export function svgOf(scene: Scene): string {
  const surface = new SvgSurface(GUTTER + scene.model.width, AXIS + scene.model.height);
  draw(surface, scene);
  return surface.toString();
}

export async function pngOf(scene: Scene): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = (GUTTER + scene.model.width) * 2;
  canvas.height = (AXIS + scene.model.height) * 2;
  const pen = canvas.getContext("2d");
  if (!pen) throw new Error("this browser draws no canvas");
  pen.scale(2, 2);
  draw(new CanvasSurface(pen), scene);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png");
  });
}

export function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Builds the page and the widget into ensue/studio/page.
//
// One source, two carriers: `assets/page.js` talks HTTP and loads the layout of automata when it is
// first drawn; `widget.js` is one file, since anywidget hands it to the notebook as a text.

import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, "..", "ensue", "studio", "page");

const shared = {
  absWorkingDir: here,
  bundle: true,
  define: { "process.env.NODE_ENV": '"production"' },
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
  minify: true,
  target: ["es2022"],
};
const page = {
  ...shared,
  entryPoints: { page: "src/page.tsx" },
  outdir: join(output, "assets"),
  splitting: true,
};
const widget = { ...shared, entryPoints: { widget: "src/widget.tsx" }, outdir: output };

/** The licences of all packages whose code is in the page, as they ask for. */
async function licences(metafiles) {
  const names = new Set();
  for (const { inputs } of metafiles) {
    for (const path of Object.keys(inputs)) {
      const inside = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
      if (inside) names.add(inside[1]);
    }
  }
  const parts = [];
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const about = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    let text = "";
    for (const file of ["LICENSE", "LICENSE.md", "LICENSE.txt"]) {
      text = await readFile(join(folder, file), "utf8").catch(() => "");
      if (text) break;
    }
    parts.push(`${name} ${about.version}: ${about.license}\n\n${text.trim()}\n`);
  }
  return parts.join(`\n${"-".repeat(72)}\n\n`);
}

async function build() {
  await rm(output, { recursive: true, force: true });
  await mkdir(join(output, "assets"), { recursive: true });
  const built = await Promise.all([esbuild.build(page), esbuild.build(widget)]);
  await cp(join(here, "src", "index.html"), join(output, "index.html"));
  await cp(join(here, "src", "icon.svg"), join(output, "assets", "icon.svg"));
  await writeFile(
    join(output, "assets", "LICENSES.txt"),
    await licences(built.map((one) => one.metafile)),
  );
  const sizes = built.flatMap((one) =>
    Object.entries(one.metafile.outputs).map(([path, { bytes }]) => {
      return `${path.split("/").pop()} ${Math.ceil(bytes / 1024)} kB`;
    }),
  );
  console.log(`built ensue/studio/page: ${sizes.join(", ")}`);
}

await build();

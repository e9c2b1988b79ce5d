// Unpacks the Chromium of this package into a folder: `node unpack.mjs FOLDER`.

import { createReadStream, createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createBrotliDecompress } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const packed = join(here, "node_modules", "@sparticuz", "chromium", "bin");
const folder = process.argv[2];

await mkdir(folder, { recursive: true });
for (const name of ["chromium", "al2023.tar", "fonts.tar"]) {
  await pipeline(
    createReadStream(join(packed, `${name}.br`)),
    createBrotliDecompress(),
    createWriteStream(join(folder, name)),
  );
}

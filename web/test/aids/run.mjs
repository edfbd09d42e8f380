// SPDX-License-Identifier: Apache-2.0
// Runs the browser tests and says of each what Rust's test runner says, so that `cargo xtask test` counts them with
// all others. Takes the two arguments that it gives: `--test-threads=N` and `--exact NAME`.
import { readdirSync } from "node:fs";
import { run } from "node:test";
import { fileURLToPath } from "node:url";

const FAILED = 101;
const LIMIT_MS = 240_000;

const folder = fileURLToPath(new URL("..", import.meta.url));
const only = process.argv[process.argv.indexOf("--exact") + 1];
const exact = process.argv.includes("--exact");
const files = readdirSync(folder).filter((name) => name.endsWith(".test.mjs"));
const options = { files: files.map((name) => folder + name), concurrency: 1, timeout: LIMIT_MS };
if (exact) options.testNamePatterns = [new RegExp(`^${only.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`)];

let failed = false;
/** Files are told of, too, as if they were tests; a file that fails as a whole is one. */
const isFile = (data) => files.some((name) => data.name.endsWith(name));
run(options)
  .on("test:pass", (data) => {
    if (isFile(data) || (exact && data.name !== only)) return;
    if (data.skip) console.log(`SKIPPED: ${data.name}: ${data.skip}`);
    console.log(`test ${data.name} ... ok`);
  })
  .on("test:fail", (data) => {
    failed = true;
    const cause = data.details?.error?.cause ?? data.details?.error;
    if (isFile(data) && data.details?.error?.failureType === "subtestsFailed") return;
    console.log(`test ${data.name} ... FAILED\n${cause?.stack ?? cause}`);
  })
  .on("test:diagnostic", (data) => {
    if (data.message.includes("measured")) console.log(data.message);
  })
  .on("end", () => process.exit(failed ? FAILED : 0))
  .resume();

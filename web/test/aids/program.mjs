// SPDX-License-Identifier: Apache-2.0
// The real program: runs, and a server of its own for each test file, on a free port, ended by its number.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
const MACHINE = { x64: "x86_64", arm64: "aarch64" }[process.arch];
const BUILT = ["debug", "release"].map((profile) => join(TARGET, `${MACHINE}-unknown-linux-gnu`, profile, "plimsoll"));
export const PROGRAM = process.env.PLIMSOLL ?? BUILT.find((path) => existsSync(path));

/** A directory with a state directory in it; removed at the end, after what a test that failed left standing. */
export function place() {
  assert.ok(PROGRAM, "plimsoll is not built: cargo build");
  const folder = mkdtempSync(join(process.env.PLIMSOLL_TEST_DIR ?? tmpdir(), "plimsoll-web-"));
  const env = { ...process.env, PLIMSOLL_STATE: join(folder, "state"), NO_COLOR: "1" };
  const remove = () => {
    const razed = spawnSync(PROGRAM, ["raze"], { env, encoding: "utf8" });
    // Without the journals nobody could take down what still stands: then they stay.
    assert.equal(razed.status, 0, `plimsoll raze: ${razed.stderr}`);
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, env, remove };
}

/** Runs the program to its end; exit codes of verdicts are no failures. */
export function plimsoll(at, args, fine = [0]) {
  const ended = spawnSync(PROGRAM, args, { cwd: at.folder, env: at.env, encoding: "utf8" });
  assert.ok(fine.includes(ended.status), `plimsoll ${args.join(" ")}: ${ended.status}\n${ended.stderr}`);
  return ended.stdout;
}

/** A server; its address has the token in it. */
export async function serve(at, args = []) {
  const child = spawn(PROGRAM, ["serve", "--listen", "127.0.0.1:0", ...args], { cwd: at.folder, env: at.env });
  let text = "";
  const address = await new Promise((resolve, reject) => {
    const read = (bytes) => {
      text += bytes;
      const found = /https?:\/\/\S+#token=\S+/.exec(text);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => reject(new Error(`plimsoll serve ended with ${code}: ${text}`)));
  });
  const end = () =>
    new Promise((resolve) => {
      if (child.exitCode !== null) return resolve();
      child.on("exit", resolve);
      child.kill("SIGINT");
    });
  return { address, base: address.split("#")[0], end, said: () => text };
}

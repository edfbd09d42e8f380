// SPDX-License-Identifier: Apache-2.0
// The history of a team with the real server: runs that were pushed, their series, and what a user says about a change.
// The runs are of simulated systems; from the ninth on their load is twice as high.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fits, isAccessible, launch, open } from "./aids/browser.mjs";
import { place, plimsoll, serve } from "./aids/program.mjs";

const RUNS = 16;
const CHANGED = 8;
const [FAST, SLOW] = ["10ms", "15ms"].map((service) => `sim(queue,servers=1,law=exponential,service=${service})`);

let browser;
let at;
let server;
before(async () => {
  at = place();
  at.env.PLIMSOLL_DATABASE = "sqlite:team.db";
  plimsoll(at, ["team", "user", "add", "ada"]);
  const token = plimsoll(at, ["team", "token", "add", "ada", "--scope", "read,push,run"]).trim();
  server = await serve(at, ["store", "--database", "sqlite:team.db"]);
  at.env.PLIMSOLL_TOKEN = token;
  for (let n = 0; n < RUNS; n++) pushRun(n);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.end();
  at?.remove();
});

function pushRun(n) {
  const rate = n < CHANGED ? 20 : 40;
  const load = `format = "2.0"
[workload.blocks]
name = "steady"
[[workload.blocks.groups]]
depth = 64
pace = { open = { poisson = { per_s = ${rate}.0 } } }
extent = { bytes = 67108864 }
`;
  writeFileSync(join(at.folder, "w.toml"), load);
  const length = ["--for", "60s", "--blocks", "8", "--no-self-test", "--seed", String(n)];
  plimsoll(at, ["compare", FAST, SLOW, "-w", "w.toml", ...length, "-o", `run-${n}`]);
  plimsoll(at, ["push", `run-${n}`, "--server", server.base.replace(/\/$/, ""), "--revision", `r${n}`]);
}

test("a change in a series is found, seen, acknowledged and muted", async () => {
  const page = await open(browser);
  await page.goto(`${server.base}#token=${at.env.PLIMSOLL_TOKEN}`);
  await page.getByRole("link", { name: "History", exact: true }).click();
  await page.getByLabel("Find series by a word").fill("mean_response");
  const series = page.getByRole("row").filter({ hasText: `${SLOW} ÷` }).filter({ hasNotText: "A/A control" });
  await isAccessible(page, "the history");
  await series.getByRole("link").first().click();
  await page.getByRole("heading", { name: "Changes" }).waitFor();
  // The table has all runs, the newest first, and the load of the first new one as what is other there.
  const rows = page.getByLabel("Runs of the series").locator("tbody tr");
  assert.equal(await rows.count(), RUNS);
  assert.match(await rows.first().innerText(), new RegExp(`r${RUNS - 1}`));
  const change = page.locator("ol > li");
  assert.equal(await change.count(), 1);
  // 1/(100 − rate) against 1/(66.7 − rate): from 1.71 to 2.25 times as long.
  const factor = Number(/×([\d.]+)/.exec(await change.innerText())[1]);
  assert.ok(factor > 1.15 && factor < 1.5, `${factor}`);
  assert.match(await change.innerText(), new RegExp(`revision r${CHANGED - 1} → r${CHANGED}`));
  await page.locator(".u-over").hover();
  await page.getByRole("status").filter({ hasText: /\d/ }).first().waitFor();
  await change.getByLabel("Why it changed").fill("twice the load");
  await change.getByRole("button", { name: "Acknowledge" }).click();
  await page.getByText("Acknowledged by ada: twice the load").waitFor();
  await page.getByRole("button", { name: "Mute for 7 days" }).click();
  await page.getByText(/^Muted until .* by ada/).waitFor();
  await isAccessible(page, "a series");
  await page.getByRole("button", { name: "Unmute" }).click();
  await page.getByRole("button", { name: "Mute for 7 days" }).waitFor();
  await page.setViewportSize({ width: 400, height: 800 });
  await fits(page, "a series");
  assert.ok((await page.locator(".trend .uplot").boundingBox()).width <= 400, "the chart follows the window");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

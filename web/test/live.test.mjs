// SPDX-License-Identifier: Apache-2.0
// The live page with the real server: a whole campaign from the form to the report, and a real RAID 1 stack from the
// wizard to its end. What is clicked here starts the program of this build.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fits, isAccessible, launch, open } from "./aids/browser.mjs";
import { place, plimsoll, serve } from "./aids/program.mjs";

/** Stacks and jobs on a busy machine take their time. */
const SLOW_MS = 300_000;

let browser;
let at;
let server;
before(async () => {
  at = place();
  browser = await launch();
  server = await serve(at);
});
after(async () => {
  await browser?.close();
  await server?.end();
  at?.remove();
});

async function entered(options) {
  const page = await open(browser, options);
  await page.goto(server.address);
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  return page;
}

/** A job has ended well: one that did not tells what its page shows, at once or when its time is over. */
async function isComplete(page) {
  const ended = page.getByText(/^(complete|failed|stopped)$/).first();
  await ended.waitFor({ timeout: 2 * SLOW_MS }).catch(() => {});
  const state = (await ended.isVisible()) ? await ended.textContent() : "at work";
  assert.equal(state, "complete", await page.locator("main").innerText());
}

async function done(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

test("a campaign is started, watched, stopped, resumed and read, by keyboard alone", async () => {
  const page = await entered();
  const press = async (role, name) => page.getByRole(role, { name, exact: true }).first().press("Enter");
  await press("link", "New campaign");
  const type = async (label, text) => {
    await page.getByLabel(label, { exact: true }).focus();
    await page.keyboard.type(text);
  };
  await type("Base", "sim(flash)");
  await type("Target 2", "sim(disk)");
  await type("Workload 1", "randread");
  await type("Length of a trial", "2s");
  await type("Blocks", "6");
  const file = page.locator("pre.command", { hasText: 'target = "sim(disk)"' });
  // The page writes it a moment after the last key.
  await page.locator("pre.command", { hasText: "blocks = 6" }).first().waitFor();
  assert.ok(/^blocks = 6$/m.test(await file.textContent()) && /^for = "2s"$/m.test(await file.textContent()));
  await type("Seed", "x");
  await type("Conditions", "melted");
  await press("button", "Start");
  await page.getByText("invalid value 'melted'").first().waitFor();
  assert.equal(await page.getByLabel("Conditions", { exact: true }).getAttribute("aria-invalid"), "true");
  await page.getByLabel("Conditions", { exact: true }).fill("");
  await page.getByLabel("Seed", { exact: true }).fill("");
  await press("button", "Start");
  await page.getByText("running", { exact: true }).waitFor();
  await page.locator(".readout", { hasText: /^At .+: sim\(/ }).waitFor({ timeout: SLOW_MS });
  await page.locator("span", { hasText: /^[1-9]\d* of \d+ trials/ }).first().waitFor({ timeout: SLOW_MS });
  await press("button", "Stop");
  await press("button", "Stop and report what is done");
  await page.getByRole("button", { name: "Resume" }).waitFor({ timeout: SLOW_MS });
  await press("button", "Resume");
  await page.getByText("complete", { exact: true }).waitFor({ timeout: SLOW_MS });
  assert.ok((await page.locator(".drawn section").count()) >= 3, "the report's sections");
  await fits(page, "a run");
  await isAccessible(page, "a run");
  await done(page);
});

test("what is complete is listed with its answer, compared with another, and given as files", async () => {
  plimsoll(at, ["run", "randread", "sim(flash)", "--for", "1s", "--output", "plimsoll-results/second"]);
  const page = await entered({ viewport: { width: 400, height: 800 } });
  const boxes = page.getByRole("checkbox");
  await boxes.nth(1).waitFor();
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole("button", { name: "Compare two" }).click();
  await page.getByRole("heading", { name: "Two runs compared" }).waitFor();
  await page.locator(".drawn, .notice").first().waitFor({ timeout: SLOW_MS });
  await fits(page, "a difference");
  await page.goto(`${server.base}#/runs/second`);
  await page.getByRole("link", { name: "csv" }).waitFor();
  const answer = await page.request.get(`${server.base}api/v1/runs/second/export/csv`);
  assert.equal(answer.status(), 200);
  assert.ok((await answer.text()).includes(","));
  await fits(page, "a run, 400 px");
  await done(page);
});

test("the wizard brings a real RAID 1 stack up, it is failed over under load, and taken down", async (t) => {
  if (process.getuid() !== 0) return t.skip("stacks need root");
  const page = await entered();
  page.setDefaultTimeout(SLOW_MS);
  const press = (name) => page.getByRole("button", { name, exact: true }).click();
  await page.goto(`${server.base}#/build`);
  await page.getByLabel("This machine").check();
  await press("Next");
  await page.getByRole("radio", { name: /^raid1 / }).check();
  await press("Next");
  await page.getByText(/^Settings of raid1/).click();
  await page.getByLabel("transport", { exact: true }).fill("nbd");
  // How long the client waits for a server that is gone: as long do the sessions stand still.
  await page.getByLabel("fail_after", { exact: true }).fill("5s");
  await press("Next");
  await press("Next");
  await page.getByLabel("Size", { exact: true }).fill("300M");
  await press("Show the plan");
  await page.locator(".plan li").first().waitFor();
  assert.ok((await page.locator(".plan li").count()) > 3, "the steps of the plan");
  await press("Bring it up");
  await page.getByText("It is up.").waitFor();
  await page.getByRole("link", { name: "Its state, changes and failover" }).click();
  await page.getByText("healthy", { exact: true }).waitFor();
  await isAccessible(page, "a stack");
  const stack = page.url();
  await press("Fail it over");
  await isComplete(page);
  await page.goto(stack);
  await press("Take it down");
  await press("Take it down: its data are lost");
  await page.getByText("No stack of this name is up.").waitFor();
  assert.match(plimsoll(at, ["stack", "status"], [0, 1]), /no stack|^\s*$/i);
  await done(page);
});

// SPDX-License-Identifier: Apache-2.0
// The live page against made-up answers: what the real server cannot be made to do at will.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fits, isAccessible, launch, median, open } from "./aids/browser.mjs";
import { mock, NASTY } from "./aids/mock.mjs";

/** A million seconds, and what is asked of the chart over them. */
const ROWS = 1_000_000;
const FIRST_WANTED_MS = 1000;
const FRAMES_WANTED = 50;
/** Rates that a busy machine must still reach: the tests must not fail by chance. */
const FIRST_MOST_MS = 4000;
const FRAMES_LEAST = 10;

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await mock(ROWS);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function shown(hash, options) {
  const page = await open(browser, options);
  // A tab that was let in before, but where it shows a token.
  if (!hash.includes("token")) await page.addInitScript(() => sessionStorage.setItem("plimsoll-csrf", "c"));
  await page.goto(server.address + hash);
  return page;
}

async function done(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

test("the token leaves the address at once, and no secret is in the page", async () => {
  const page = await shown("#token=0123456789abcdef");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  assert.ok(!page.url().includes("0123456789"), page.url());
  const kept = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage },
    { ...sessionStorage }]));
  assert.ok(!kept.includes("0123456789"));
  await done(page);
});

test("names full of markup stay text", async () => {
  const page = await shown("");
  await page.getByRole("link", { name: NASTY }).waitFor();
  assert.equal(await page.locator("img").count(), 0);
  await done(page);
});

test("a trial that ends changes the report and nothing that its reader did", async () => {
  const page = await shown("#/runs/a");
  await page.getByText("3 trials", { exact: true }).waitFor();
  await page.locator("details summary").click();
  await page.evaluate(() => document.querySelector("#timeline").scrollIntoView());
  const place = () => page.evaluate(() => document.querySelector("#timeline").getBoundingClientRect().top);
  const before = await place();
  server.trial();
  await page.getByText("4 trials", { exact: true }).waitFor();
  assert.equal(await page.locator("details").evaluate((part) => part.open), true);
  assert.ok(Math.abs((await place()) - before) < 2);
  await done(page);
});

test("a run in progress shows first when it ends and what is measured now", async () => {
  const heard = () => server.asked.filter((one) => one.path === "runs/a/events").length;
  const before = heard();
  const page = await shown("#/runs/a");
  await page.getByText(/^ends in about 95 s · \d of 8 trials/).waitFor();
  await page.getByText("Now: block 3 of 4 · varmail on nbd").waitFor();
  while (heard() === before) await page.waitForTimeout(20);
  server.tell("second", { t_s: 7, arm: "nbd", workload: "varmail", iops: 4321, bandwidth: 1e6, p50_s: 1e-3, p99_s: 2e-3,
    errors: 0 });
  const rates = page.getByRole("group", { name: "The last second of each arm" });
  await rates.getByText("4.32 k").waitFor();
  const top = async (part) => (await part.boundingBox()).y;
  const answer = await top(page.getByText(/^After \d trials/));
  assert.ok((await top(rates)) < answer, "the rates are above the report");
  const links = page.getByRole("navigation", { name: "Sections of the report" });
  assert.ok((await top(links)) > answer, "the answer is above the list of sections");
  await done(page);
});

test("the answer of a run has the width of the list at 400 px", async () => {
  const page = await shown("", { viewport: { width: 400, height: 800 } });
  const answer = await page.getByText("nbd carries 12 % more").first().boundingBox();
  assert.ok(answer.width > 280 && answer.height < 60, JSON.stringify(answer));
  await done(page);
});

test("the form asks for what a kind needs, and says how long it takes", async () => {
  const page = await shown("#/new");
  await page.getByLabel("Base").fill("/mnt/a");
  await page.getByLabel("Target 2", { exact: true }).fill("/mnt/b");
  await page.getByLabel("Workload 1").fill("varmail");
  // Two systems and the control, five blocks, 10 s and 1.5 s beside them.
  await page.getByText("About 3 min: 15 trials of 10s.").waitFor();
  await page.getByLabel("Time for all of it").fill("2m");
  await page.getByText("At most about 2 min: no trial begins later.").waitFor();
  await page.getByRole("radio", { name: /^Load line/ }).check();
  assert.equal(await page.getByLabel("Limits (required)").getAttribute("required"), "");
  await page.getByLabel("Time for all of it").fill("");
  await page.getByText("At most about 8 h 00 min: 24 times 10m").waitFor();
  await page.getByRole("radio", { name: /^Failover/ }).check();
  await page.getByLabel("Name of the stack").waitFor();
  assert.equal(await page.getByLabel("Target 2", { exact: true }).count(), 0);
  assert.ok(!(await page.locator("pre.command", { hasText: "format" }).textContent()).includes("/mnt/b"));
  await done(page);
});

test("the page says that the server is gone, and goes on when it is back", async () => {
  const page = await shown("#/runs/a");
  await page.getByText("of 8 trials").waitFor();
  const told = await page.getByText(/^\d trials$/).textContent();
  await server.stop();
  await page.getByText("The server does not answer.").waitFor();
  await server.again();
  await page.getByText("The server does not answer.").waitFor({ state: "hidden" });
  await page.waitForFunction(() => performance.getEntriesByType("resource").length > 0);
  server.trial();
  await page.getByText(`${Number.parseInt(told, 10) + 1} trials`, { exact: true }).waitFor();
  await page.context().close();
});

test("what the server refuses is said at the field, with what to do", async () => {
  const page = await shown("#/new");
  await page.getByLabel("Base").fill("nowhere");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("alert").getByText("start the server with --target").waitFor();
  assert.equal(await page.getByLabel("Base").getAttribute("aria-invalid"), "true");
  assert.ok(server.asked.some((one) => one.method === "POST" && one.csrf === "c"));
  await done(page);
});

test("pages are accessible, fit 400 px, and tell where they are", async () => {
  for (const [hash, heading] of [["", "Runs"], ["#/runs/a", "raid1 and nbd"], ["#/new", "New campaign"],
    ["#/build", "Build a stack"], ["#/stacks", "Stacks"], ["#/jobs", "Jobs"]]) {
    for (const width of [1280, 400]) {
      const page = await shown(hash, { viewport: { width, height: 800 } });
      await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
      await page.waitForLoadState("networkidle").catch(() => undefined);
      assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
      await fits(page, `${hash}, ${width} px`);
      if (width === 400) await isAccessible(page, `${hash}, ${width} px`);
      await done(page);
    }
  }
});

test("the chart is moved and zoomed by keyboard, and switched by metric and arm", async () => {
  const page = await shown("#/runs/a");
  const said = () => page.locator(".readout").textContent();
  await page.getByText(/^At .+: raid1/).waitFor();
  const chart = page.locator(".chart");
  await chart.focus();
  const before = await said();
  for (const key of ["+", "+", "+", "ArrowRight"]) await page.keyboard.press(key);
  await page.waitForFunction((old) => document.querySelector(".readout").textContent !== old, before);
  await page.getByRole("button", { name: "p99 response time" }).press("Enter");
  await page.getByText(/^At .+: raid1 .* s/).waitFor();
  await page.getByRole("group", { name: "Arms shown" }).getByRole("button", { name: "nbd" }).click();
  await page.waitForFunction(() => !document.querySelector(".readout").textContent.includes("nbd"));
  await done(page);
});

test("a million rows: the first picture comes at once, and moving is smooth", async (t) => {
  const firsts = [];
  for (let i = 0; i < 3; i += 1) {
    const page = await shown("#/runs/a");
    await page.waitForFunction(() => performance.getEntriesByName("plimsoll-chart").length > 0);
    firsts.push(await page.evaluate(() => performance.getEntriesByName("plimsoll-chart")[0].startTime));
    if (i < 2) await page.context().close();
    else await pan(page, t, firsts);
  }
});

async function pan(page, t, firsts) {
  await page.locator(".chart").scrollIntoViewIfNeeded();
  await page.locator(".chart").focus();
  for (let i = 0; i < 12; i += 1) await page.keyboard.press("+");
  await page.waitForTimeout(300);
  const box = await page.locator(".u-over").boundingBox();
  // Moves at every frame, as a hand does, and counts the frames that were shown.
  const frames = await page.evaluate(async ({ x, y }) => {
    const over = document.querySelector(".u-over");
    const send = (target, type, clientX) => target.dispatchEvent(new PointerEvent(type, { clientX, clientY: y, bubbles: true }));
    send(over, "pointerdown", x);
    const began = performance.now();
    let count = 0;
    await new Promise((resolve) => {
      const frame = (now) => {
        if (now - began > 2000) return resolve();
        count += 1;
        send(window, "pointermove", x - count * 7);
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    send(window, "pointerup", x);
    return (count * 1000) / (performance.now() - began);
  }, { x: box.x + box.width / 2, y: box.y + box.height / 2 });
  const first = median(firsts);
  t.diagnostic(`measured: 10^6 rows: first picture after ${first.toFixed(0)} ms, ${frames.toFixed(0)} frames/s while moving`);
  assert.ok(first < FIRST_MOST_MS, `first picture after ${first} ms; ${FIRST_WANTED_MS} are wanted on a quiet machine`);
  assert.ok(frames >= FRAMES_LEAST, `${frames} frames/s; ${FRAMES_WANTED} are wanted on a quiet machine`);
  await done(page);
}

// SPDX-License-Identifier: Apache-2.0
// Debian's own browser for the tests, and what they ask of every page.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const PROGRAMS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** A browser that the caller closes. */
export async function launch() {
  const executablePath = PROGRAMS.find((path) => path && existsSync(path));
  assert.ok(executablePath, "no Chromium: apt-get install chromium");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

/** A page that collects what goes wrong in it: scripts that fail, and what the content policy refuses. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, bypassCSP: false, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) page.faults.push(message.text());
  });
  page.setDefaultTimeout(45_000);
  return page;
}

/** No violation of WCAG 2.2 AA, in light and in dark. */
export async function isAccessible(page, what) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await violations(page);
    assert.deepEqual(found, [], `${what}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

async function violations(page) {
  // The page's content policy forbids foreign scripts; one of the debugger is none of the page.
  const session = await page.context().newCDPSession(page);
  const evaluate = async (expression) => {
    const answer = await session.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.equal(answer.exceptionDetails, undefined, JSON.stringify(answer.exceptionDetails));
    return answer.result.value;
  };
  await evaluate(AXE);
  const run = `axe.run(document, { runOnly: ${JSON.stringify(RULES)} }).then((r) => r.violations.flatMap((v) =>
    v.nodes.map((n) => v.id + ": " + n.html.slice(0, 160) + " | " + (n.any[0]?.message ?? n.none[0]?.message ?? ""))))`;
  const found = await evaluate(run);
  await session.detach();
  return found;
}

/** The page itself never scrolls sideways; parts that are wider do. */
export async function fits(page, what) {
  const wide = await page.evaluate(() => ({
    page: document.documentElement.scrollWidth,
    window: document.documentElement.clientWidth,
    by: [...document.querySelectorAll("main *, header *")]
      .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .filter((e) => !e.closest(".scroll, figure, .chart, pre, .unseen, svg"))
      .map((e) => `${e.tagName}.${e.className}`)
      .slice(0, 5),
  }));
  assert.ok(wide.page <= wide.window, `${what}: ${wide.page} px in a window of ${wide.window}: ${wide.by}`);
}

/** The middle of several figures. */
export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

// SPDX-License-Identifier: Apache-2.0
// The report's script, on a page that holds each thing it knows, opened as a file.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, open } from "./aids/browser.mjs";
import { fixture } from "./aids/fixture.mjs";

const folder = mkdtempSync(join(tmpdir(), "plimsoll-script-"));
const address = pathToFileURL(join(folder, "page.html")).href;
let browser;

before(async () => {
  writeFileSync(join(folder, "page.html"), fixture());
  browser = await launch();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

async function shown(options) {
  const page = await open(browser, options);
  await page.goto(address);
  return page;
}

async function done(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const tip = (page) => page.evaluate(() => document.querySelector(".tip:not([hidden])")?.textContent ?? null);

test("a mark that is pointed at says what it is, and so does one nearby", async () => {
  const page = await shown();
  const mark = await page.locator("[data-tip]").nth(1).boundingBox();
  await page.mouse.move(mark.x + mark.width / 2, mark.y + mark.height / 2);
  assert.equal(await tip(page), "fast, block 2: 20 ops/s");
  await page.mouse.move(mark.x + mark.width / 2, mark.y - 8);
  assert.equal(await tip(page), "fast, block 2: 20 ops/s");
  await page.keyboard.press("Escape");
  assert.equal(await tip(page), null);
  await done(page);
});

test("marks are reached by keyboard and named for screen readers", async () => {
  const page = await shown();
  await page.locator("[data-tip]").first().focus();
  assert.equal(await tip(page), "fast, block 1: 10 ops/s");
  const at = async (key) => {
    await page.keyboard.press(key);
    return page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  };
  assert.equal(await at("ArrowRight"), "fast, block 2: 20 ops/s");
  assert.equal(await at("ArrowDown"), "slow, block 1: 10 ops/s");
  assert.equal(await at("End"), "slow, block 3: 30 ops/s");
  assert.equal(await at("Home"), "fast, block 1: 10 ops/s");
  assert.equal(await page.locator("svg [tabindex='0']").count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await tip(page), null);
  await done(page);
});

test("an entry of the legend hides and shows its arm, by pointer and by keyboard", async () => {
  const page = await shown();
  const button = page.getByRole("button", { name: "slow", exact: true });
  const visible = () => page.locator("[data-series=slow]").isVisible();
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  assert.equal(await visible(), false);
  assert.equal(await page.locator("[data-series=fast]").isVisible(), true);
  await button.press("Enter");
  assert.equal(await visible(), true);
  await done(page);
});

test("tables sort by numbers, and rows that go on about the one above stay with it", async () => {
  const page = await shown();
  const cells = () => page.locator("tbody td:last-child").allTextContents();
  const header = page.locator("th", { hasText: "Rate" });
  await header.getByRole("button").click();
  assert.deepEqual(await cells(), ["80", "900", "890", "1.2 k"]);
  assert.equal(await header.getAttribute("aria-sort"), "ascending");
  await header.getByRole("button").press("Enter");
  assert.deepEqual(await cells(), ["1.2 k", "900", "890", "80"]);
  assert.equal(await header.getAttribute("aria-sort"), "descending");
  await done(page);
});

test("a command is copied whole", async () => {
  const page = await shown({ permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByRole("button", { name: "Copy the command" }).click();
  await page.getByRole("button", { name: /^Copied/ }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "plimsoll compare a b");
  await done(page);
});

test("sections link to themselves, what is folded opens for printing, and the theme is switched", async () => {
  const page = await shown();
  await page.getByRole("link", { name: "Link to this section: How much?" }).click();
  assert.ok(page.url().endsWith("#table"));
  const open = () => page.evaluate(() => document.querySelector("details").open);
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await open(), true);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await open(), false);
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.getByRole("button", { name: "Theme: auto" }).click();
  assert.equal(await paper(), light);
  await page.getByRole("button", { name: "Theme: light" }).click();
  assert.notEqual(await paper(), light);
  await page.reload();
  assert.notEqual(await paper(), light, "the choice is remembered");
  await done(page);
});

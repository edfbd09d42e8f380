// SPDX-License-Identifier: Apache-2.0
// Additions of scripts to the drawing of a report. The static page and the live one use the same.
import { addCopying } from "./copy";
import { all } from "./dom";
import { addSwitches, setSwitch } from "./legend";
import { addLinks } from "./links";
import { addScrolling } from "./scrolling";
import { addStyle } from "./style";
import { addSorting, headers, sortBy, type Order } from "./tables";
import { addTips } from "./tips";

/** Adds pointing, switches, sorting, copying and links below `root`; parts that have them stay as they are. */
export function enhance(root: ParentNode): void {
  addStyle();
  addTips(root);
  addSwitches(root);
  addSorting(root);
  addCopying(root);
  addLinks(root);
  addScrolling(root);
}

/** Changes of a reader to a part of the page. */
export interface ReaderState {
  open: string[];
  off: string[];
  sorted: { table: number; column: number; order: Order }[];
}

/** Reads it before the part is drawn anew. */
export function readerState(root: ParentNode): ReaderState {
  const sorted: ReaderState["sorted"] = [];
  all<HTMLTableElement>(root, "table").forEach((table, index) => {
    headers(table).forEach((header, column) => {
      const order = header.getAttribute("aria-sort");
      if (order === "ascending" || order === "descending") sorted.push({ table: index, column, order });
    });
  });
  const off = all(root, "[data-legend]").filter((entry) => isOff(entry));
  return {
    open: all(root, "details[open]").map(summaryOf),
    off: off.map((entry) => entry.getAttribute("data-legend") ?? ""),
    sorted,
  };
}

/** Does it again to the new drawing. */
export function restoreReaderState(root: ParentNode, state: ReaderState): void {
  for (const part of all<HTMLDetailsElement>(root, "details")) {
    if (state.open.includes(summaryOf(part))) part.open = true;
  }
  for (const entry of all<Element>(root, "[data-legend]")) {
    if (state.off.includes(entry.getAttribute("data-legend") ?? "")) setSwitch(entry, false);
  }
  const tables = all<HTMLTableElement>(root, "table");
  for (const { table, column, order } of state.sorted) {
    const found = tables[table];
    if (found) sortBy(found, column, order);
  }
}

function isOff(entry: Element): boolean {
  return entry.matches('[aria-pressed="false"]') || entry.querySelector('[aria-pressed="false"]') !== null;
}

/** Summaries count things, which change; the words before the first figure do not. */
function summaryOf(part: Element): string {
  return (part.querySelector("summary")?.textContent ?? "").replace(/\d[\d.,\s]*/g, "0");
}

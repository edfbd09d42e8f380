// SPDX-License-Identifier: Apache-2.0
// Paper has nothing to click: what is folded is opened for printing, and closed again.
import { all } from "./dom";

/** Opens folded parts while the page is printed. */
export function openForPrinting(): void {
  let closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    closed = all<HTMLDetailsElement>(document, "details:not([open])");
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of closed) part.open = false;
    closed = [];
  });
}

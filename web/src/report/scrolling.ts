// SPDX-License-Identifier: Apache-2.0
// Wide tables and charts scroll on their own; where they do, they can be scrolled by keyboard.
import { all, once } from "./dom";

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});

/** Makes parts below `root` that scroll sideways reachable. */
export function addScrolling(root: ParentNode): void {
  for (const part of all(root, ".scroll, figure")) {
    if (part.hasAttribute("tabindex") || !once(part, "scrolling")) continue;
    const name = part.querySelector("caption, figcaption")?.textContent?.trim();
    if (name && !part.hasAttribute("aria-label")) part.setAttribute("aria-label", name);
    if (part.localName !== "figure") part.setAttribute("role", "group");
    sizes.observe(part);
  }
}

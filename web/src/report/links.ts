// SPDX-License-Identifier: Apache-2.0
// Links of sections to themselves, to send somebody to one.
import { all, make, once } from "./dom";

/** Puts a link behind the heading of every section below `root`. */
export function addLinks(root: ParentNode): void {
  for (const section of all(root, "section[id]")) {
    const heading = section.querySelector(":scope > h2, :scope > h3, :scope > header > h2");
    if (!heading || !once(heading, "link")) continue;
    const label = `Link to this section: ${heading.textContent}`;
    heading.append(make("a", { class: "here", href: `#${section.id}`, "aria-label": label }, "#"));
  }
}

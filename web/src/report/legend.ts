// SPDX-License-Identifier: Apache-2.0
// Entries of a legend as switches: each hides what is drawn of its arm, in its own figure.
import { all, make, once } from "./dom";

/** Makes a switch of every entry of a legend below `root`. */
export function addSwitches(root: ParentNode): void {
  for (const entry of all<HTMLElement | SVGElement>(root, "[data-legend]")) {
    if (!once(entry, "switch")) continue;
    const button = entry instanceof SVGElement ? drawn(entry) : wrapped(entry);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => flip(entry, button));
  }
}

/** Switches an entry as a click would, where its state differs from `on`. */
export function setSwitch(entry: Element, on: boolean): void {
  const button = entry.matches("[aria-pressed]") ? entry : entry.querySelector("[aria-pressed]");
  if (button && (button.getAttribute("aria-pressed") === "true") !== on) flip(entry, button);
}

function wrapped(entry: HTMLElement): Element {
  const button = make("button", { type: "button", class: "switch" });
  button.append(...Array.from(entry.childNodes));
  entry.append(button);
  return button;
}

function drawn(entry: SVGElement): Element {
  entry.setAttribute("role", "button");
  entry.setAttribute("tabindex", "0");
  // A picture may not hold what can be focused; a group may.
  entry.ownerSVGElement?.setAttribute("role", "group");
  if (!entry.hasAttribute("aria-label")) entry.setAttribute("aria-label", entry.getAttribute("data-legend") ?? "");
  entry.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    entry.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  });
  return entry;
}

function flip(entry: Element, button: Element): void {
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(on));
  const figure = entry.closest("figure, section") ?? document.body;
  const name = entry.getAttribute("data-legend");
  for (const part of all<Element>(figure, "[data-series]")) {
    if (part.getAttribute("data-series") === name && !part.contains(entry)) part.classList.toggle("off", !on);
  }
}

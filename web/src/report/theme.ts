// SPDX-License-Identifier: Apache-2.0
// Light, dark, or as the system says. The page's own sheet follows the system; here its media rules are turned on
// or off, so that colours are written once.
import { make } from "./dom";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const KEY = "plimsoll-theme";
const SYSTEM = /prefers-color-scheme:\s*(dark|light)/;

/** A button that goes through the themes; what was chosen is remembered where there is a place for it. */
export function themeButton(): HTMLButtonElement {
  let theme = remembered();
  const button = make("button", { type: "button", class: "plain" });
  const apply = (): void => {
    setTheme(theme);
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    remember(theme);
    apply();
  });
  apply();
  return button;
}

/** Shows the page in a theme. */
export function setTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  for (const sheet of Array.from(document.styleSheets)) {
    for (const rule of Array.from(sheet.cssRules)) {
      if (rule instanceof CSSMediaRule) setRule(rule, theme);
    }
  }
  document.dispatchEvent(new CustomEvent("plimsoll-theme"));
}

/** The media text that each rule came with. */
const written = new WeakMap<CSSMediaRule, string>();

function setRule(rule: CSSMediaRule, theme: Theme): void {
  const text = written.get(rule) ?? rule.media.mediaText;
  const of = SYSTEM.exec(text)?.[1];
  if (of === undefined) return;
  written.set(rule, text);
  rule.media.mediaText = theme === "auto" ? text : theme === of ? "screen" : "not all";
}

function remembered(): Theme {
  try {
    const found = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === found) ?? "auto";
  } catch {
    return "auto"; // pages from files, and private windows, may have no storage
  }
}

function remember(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The choice then lasts as long as the page.
  }
}

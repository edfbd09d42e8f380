// SPDX-License-Identifier: Apache-2.0
// Colours change when the user or the system says so.

// One object: a listener can be removed only from the one it was added to.
const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Calls `draw` when the colours change, until what this gives is called. */
export function onTheme(draw: () => void): () => void {
  document.addEventListener("plimsoll-theme", draw);
  DARK.addEventListener("change", draw);
  return () => {
    document.removeEventListener("plimsoll-theme", draw);
    DARK.removeEventListener("change", draw);
  };
}

// SPDX-License-Identifier: Apache-2.0
// How the elements look that only exist with scripts. The sheet is made by script, so that the page's content
// policy needs no exception for it, and a page without scripts carries none of it.
import text from "./report.css?inline";

/** Adds the sheet to the document; a second call changes nothing. */
export function addStyle(): void {
  if (added) return;
  added = true;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

let added = false;

// SPDX-License-Identifier: Apache-2.0
// The script of the static report. Without it everything is there; with it, it can be pointed at.
import { make } from "./dom";
import { enhance } from "./enhance";
import { openForPrinting } from "./print";
import { themeButton } from "./theme";

function start(): void {
  enhance(document);
  const tools = make("div", { class: "tools" });
  tools.append(themeButton());
  (document.querySelector("main") ?? document.body).prepend(tools);
  openForPrinting();
  performance.mark("plimsoll-ready");
}

if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();

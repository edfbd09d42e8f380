// SPDX-License-Identifier: Apache-2.0
// A page with every attribute that the report's script knows, and nothing else: what the script does is tested here
// mark by mark. Reports of real runs are tested in report.test.mjs, too.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");

export function fixture() {
  const script = read("../../dist/report.js");
  const style = read("../../../crates/plimsoll-report/src/page.css");
  const hash = createHash("sha256").update(script).digest("base64");
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${hash}'`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}"><meta name="viewport" content="width=device-width">
<title>A page of marks</title><style>${style}</style></head><body><main><h1>A page of marks</h1>
<section id="chart"><h2>Which is faster?</h2><figure><figcaption>Rates</figcaption>
<p><span data-legend="fast">fast</span> <span data-legend="slow">slow</span></p>
<svg viewBox="0 0 400 100" role="img" aria-label="Rates of two systems">${marks("fast", 20)}${marks("slow", 70)}</svg>
</figure></section>
<section id="table"><h2>How much?</h2><div class="scroll"><table><caption>Rates</caption>
<thead><tr><th scope="col">System</th><th scope="col" class="n">Rate</th></tr></thead><tbody>
<tr class="first"><td>fast</td><td class="n" data-n="900">900</td></tr>
<tr><td></td><td class="n" data-n="890">890</td></tr>
<tr class="first"><td>middle</td><td class="n" data-n="1200">1.2 k</td></tr>
<tr class="first"><td>slow</td><td class="n" data-n="80">80</td></tr></tbody></table></div>
<details><summary>More</summary><p>What is folded.</p></details></section>
<section id="command"><h2>Which command?</h2><pre class="command" tabindex="0">plimsoll compare a b</pre></section>
</main><script>${script}</script></body></html>`;
}

function marks(arm, y) {
  const mark = (i) => {
    const text = `${arm}, block ${i}: ${i * 10} ops/s`;
    return `<circle cx="${20 + i * 40}" cy="${y}" r="4" class="dot" data-tip="${text}"><title>${text}</title></circle>`;
  };
  return `<g data-series="${arm}" class="${arm === "fast" ? "c0" : "c1"}">${[1, 2, 3].map(mark).join("")}</g>`;
}

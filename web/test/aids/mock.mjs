// SPDX-License-Identifier: Apache-2.0
// A server that speaks the interface of docs/design/0013-pages.md with made-up answers: for what cannot be had of the
// real one at will, such as a million rows, a server that goes away, and names full of markup.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const read = (path) => readFileSync(new URL(path, import.meta.url));
const FILES = {
  "/": ["text/html", read("../../dist/live.html")],
  "/assets/live.js": ["text/javascript", read("../../dist/live.js")],
  "/assets/live.css": ["text/css", read("../../dist/live.css")],
  "/assets/report.css": ["text/css", read("../../../crates/plimsoll-report/src/page.css")],
};

export const NASTY = "<img src=x onerror=alert(1)>\u202egnp";
const ARMS = ["raid1", "nbd", "raid1 (control)"];
const at = "2026-01-02T03:04:05Z";
const run = (id, title, state) => ({
  id,
  title,
  subtitle: "2 systems, varmail",
  began_at: at,
  state,
  command: "plimsoll compare raid1 nbd -w varmail",
  answer: { tone: "good", text: "nbd carries 12 % more", detail: "9 to 15 %" },
});
const RUNS = [run("a", "raid1 and nbd", "running"), run("b", "raid1 and nbd", "complete"), run("c", NASTY, "stopped")];

const section = (trials) => ({
  answer: `<ul class="headline"><li><span class="chip good">better</span><div><p>After ${trials} trials</p></div></li></ul>`,
  sections: [
    {
      id: "rates",
      title: "Which is faster?",
      html: `<section id="rates"><h2>Which is faster?</h2><p>${trials} trials</p><details><summary>All ${trials}
        trials</summary><p>Figures</p></details></section>`,
    },
  ],
});

/** Series of a million seconds, thinned to a number of points. */
function series(query, rows) {
  const from = Number(query.get("from") ?? 0);
  const to = Math.min(Number(query.get("to") ?? rows), rows);
  const points = Math.min(Number(query.get("points")), to - from);
  const step = (to - from) / points;
  const line = (arm, i) => {
    const t = Array.from({ length: points }, (_, k) => from + k * step);
    const mid = t.map((s) => 1000 + 200 * i + 150 * Math.sin(s / 900) + 60 * Math.sin(s / 17));
    return { arm, workload: "varmail", t, mid, low: mid.map((v) => v - 40), high: mid.map((v) => v + 60) };
  };
  return { from_s: from, to_s: to, full_to_s: rows, quantity: "IOPS", series: ARMS.map(line) };
}

/** Starts it on a free port; `trial` tells listeners that a trial has ended. */
export async function mock(rows = 600) {
  const listeners = new Set();
  const asked = [];
  let trials = 3;
  const progress = () => ({ trials_done: trials, trials_planned: 8, blocks_planned: 4, began_at: at, ends_in_s: 95,
    now: { block: 2, arm: "nbd", workload: "varmail", phase: "measuring" } });
  const answers = {
    "GET session": () => ({ csrf: "c" }),
    "POST session": () => ({ csrf: "c" }),
    "GET server": () => ({ version: "0", host: "here", runs: "D", started_at: at }),
    "GET runs": () => ({ runs: RUNS, count: RUNS.length, pages: 1 }),
    "GET runs/a": () => ({ ...RUNS[0], progress: progress(), job: "1", workloads: ["varmail"],
      arms: ARMS.map((name, i) => ({ name, colour: i % 2, control: i === 2 })) }),
    "GET runs/a/sections": () => section(trials),
    "GET runs/a/series": (query) => series(query, rows),
    "GET stacks": () => [],
    "GET jobs": () => [],
    "GET catalogue": () => ({ workloads: [{ name: "varmail", text: "Mail", settings: [] }], stacks: [], layers: [],
      faults: [], conditions: [], inventories: [], targets: [] }),
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const file = FILES[url.pathname];
    response.setHeader("content-security-policy", POLICY);
    if (file) return response.setHeader("content-type", file[0]).end(file[1]);
    const path = url.pathname.replace("/api/v1/", "");
    asked.push({ method: request.method, path, csrf: request.headers["x-plimsoll-csrf"] });
    if (path === "runs/a/events") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`event: progress\ndata: ${JSON.stringify(progress())}\n\n`);
      listeners.add(response);
      return request.on("close", () => listeners.delete(response));
    }
    const answer = answers[`${request.method} ${path}`];
    response.setHeader("content-type", "application/json");
    if (answer) return response.end(JSON.stringify(answer(url.searchParams)));
    response.statusCode = path === "runs" ? 400 : 404;
    const text = path === "runs" ? "invalid target 'nowhere': it is not offered" : "there is no such thing";
    const mistakes = path === "runs" ? [{ at: "target[0]", text }] : [];
    response.end(JSON.stringify({ error: { text, hint: "start the server with --target", mistakes } }));
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address();
  return {
    address: `http://127.0.0.1:${port}/`,
    asked,
    trial: () => {
      trials += 1;
      for (const to of listeners) to.write(`event: trial\ndata: {}\n\n`);
    },
    tell: (name, data) => {
      for (const to of listeners) to.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    },
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
    again: () => listen(port),
  };
}

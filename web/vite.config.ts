// SPDX-License-Identifier: Apache-2.0
// Two builds into one folder: `report` (a script for the static page) and `live` (the server's page).
// Neither file carries a hash in its name: the crates embed them by name, and git tells versions apart.
import { defineConfig } from "vite";

const OURS = "/*! Plimsoll. SPDX-License-Identifier: Apache-2.0 */";
const OTHERS =
  "/*! Plimsoll. SPDX-License-Identifier: Apache-2.0\n" +
  " * Contains Preact, (c) 2015-present Jason Miller, and uPlot, (c) Leon Sorokin: MIT, see THIRD-PARTY.md */";

export default defineConfig(({ mode }) => {
  const report = mode === "report";
  return {
    // One set of conditions for both, whatever the mode is called.
    define: { "process.env.NODE_ENV": '"production"' },
    // The page itself needs no build: it is copied.
    publicDir: report ? false : "public",
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "inline" },
    build: {
      outDir: "dist",
      emptyOutDir: false,
      target: "es2022",
      minify: "esbuild",
      reportCompressedSize: false,
      lib: {
        entry: report ? "src/report/main.ts" : "src/live/main.tsx",
        formats: ["iife"],
        name: report ? "plimsollReport" : "plimsollLive",
        fileName: () => (report ? "report.js" : "live.js"),
        cssFileName: "live",
      },
      rollupOptions: { output: { banner: report ? OURS : OTHERS } },
    },
  };
});

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The browser tests of web/test, against the program that is built. `cargo xtask test` runs them as one test program;
# what is missing on this machine is said loudly and fails nothing.
set -euo pipefail
cd "$(dirname "$0")/../web"

skip() {
  echo "*** SKIPPED: browser tests: $1 ***"
  echo "test pages in a browser ... ok"
  exit 0
}

node_major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/' || true)
[ "${node_major:-0}" -ge 18 ] || skip "Node 18 or newer is missing: apt-get install nodejs npm"
command -v "${CHROMIUM:-chromium}" >/dev/null || skip "Chromium is missing: apt-get install chromium"
if [ ! -d node_modules/playwright-core ]; then
  npm ci >/dev/null 2>&1 || skip "npm ci failed in web/: see its message there"
fi
exec node test/aids/run.mjs "$@"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks for known vulnerabilities in what this project is built from, both workspaces. Says loudly where the database
# cannot be reached: a check that was left out is not one that passed.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
trap 'rm -f "$said"' EXIT
for workspace in . fuzz; do
  if cargo deny --locked --manifest-path "$workspace/Cargo.toml" --config deny.toml check advisories 2>"$said"; then
    continue
  fi
  if grep -q 'failed to fetch advisory database' "$said"; then
    why="known vulnerabilities: the database of advisories cannot be reached"
    if [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::warning::$why"; fi
    echo "*** SKIPPED: $why ***"
    exit 0
  fi
  cat "$said" >&2
  exit 1
done
echo "no known vulnerability"

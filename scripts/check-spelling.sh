#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks for misspelled words in code, documents and scripts; words of others are in .codespellrc.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v codespell >/dev/null; then
  echo "SKIPPED: spelling: codespell is missing: apt-get install codespell"
  exit 0
fi
find .ci/run Makefile ./*.md crates docs examples fuzz/fuzz_targets fuzz/targets scripts xtask -type f \
  \( -name '*.rs' -o -name '*.md' -o -name '*.sh' -o -name '*.toml' -o -name Makefile -o -path .ci/run \) -print0 |
  xargs -0 codespell

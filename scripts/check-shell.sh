#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks for mistakes in all shell scripts of this repository.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v shellcheck >/dev/null; then
  echo "SKIPPED: scripts: shellcheck is missing: apt-get install shellcheck"
  exit 0
fi
find .ci/run scripts crates examples xtask -type f \( -name '*.sh' -o -path .ci/run \) -print0 |
  xargs -0 shellcheck --severity=warning

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A gate for continuous integration: is the second system worse than the first? Writes a JUnit file and a summary, and
# ends with the exit code of the comparison: 0 passed, 10 worse, 12 lost data.
#   examples/ci/gate.sh DIRECTORY BASE CANDIDATE -w WORKLOAD [OPTION…]
set -euo pipefail

plimsoll=${PLIMSOLL:-plimsoll}
out=${1:?usage: gate.sh DIRECTORY BASE CANDIDATE -w WORKLOAD [OPTION…]}
shift

code=0
"$plimsoll" compare --fail-on worse --output="$out" "$@" || code=$?
# Also what a run that was stopped has measured.
if [ -f "$out/manifest.json" ]; then
  "$plimsoll" report --export="$out/junit.xml,$out/summary.md" --force -- "$out" >/dev/null
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"; fi
fi
exit "$code"

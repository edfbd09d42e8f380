#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on one machine: from a production recording to a verdict between storage systems.
# Everything it makes lies in ./demo; everything it starts is taken down again.
set -euo pipefail
cd "$(dirname "$0")/.."

plimsoll=${PLIMSOLL:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/plimsoll}
demo=demo
mkdir -p "$demo"
export PLIMSOLL_STATE=$PWD/demo/state

say() { printf '\n== %s\n' "$*"; }

cleanup() { "$plimsoll" raze >/dev/null; }
trap cleanup EXIT
# What a demo that was killed left behind.
"$plimsoll" raze >/dev/null

say "1. A production recording: the archives of the PCP tutorial 'Comparing storage performance'"
scripts/fetch-recordings.sh "$demo"
recording=$demo/pcp/diskmodel/nasdata
ls "$recording".*

say "2. The workload of its disk sdi between 11:00 and 12:00"
"$plimsoll" fit "$recording" --disk sdi --from 11:00 --to 12:00 \
  --working-set 512M -o "$demo/nas.toml" --force

say "3. What this machine can do"
"$plimsoll" doctor

if "$plimsoll" stack up iscsi raid1 --dry-run >/dev/null 2>"$demo/why"; then
  systems=(local iscsi raid1)
  say "4. Three systems over the same disk: ${systems[*]}"
  "$plimsoll" stack up "${systems[@]}"
else
  mkdir -p "$demo/a" "$demo/b"
  systems=("$demo/a" "$demo/b")
  say "4. Left out: the stacks iscsi and raid1, because"
  cat "$demo/why"
  echo "Two directories of this disk are compared instead."
fi

# Trials of 10 s: in 5 s a single hiccup of a busy machine decides the mean of a hundred requests a
# second. So the recorded load itself, which asks for little more, is left to its multiple.
say "5. Side by side: a multiple of the recorded load that all should carry, and varmail"
results=$demo/results-$(date +%Y%m%d-%H%M%S)
"$plimsoll" compare "${systems[@]}" -w "$demo/nas.toml@auto" -w varmail \
  --blocks 5 --for 10s --seed 20100714 -o "$results"

say "6. Everything is taken down"
trap - EXIT
"$plimsoll" raze
echo "The report: $results/report.html"

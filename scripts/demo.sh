#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on one machine: from a production recording to a verdict between storage systems.
# Everything it makes lies in ./demo; everything it starts is taken down again.
#
#   demo.sh [--announce]      with --announce it only prints what `make demo` does, takes and leaves
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --announce ]; then
  cat <<'TEXT'
make demo goes from a production recording to a verdict between storage systems, in about 12 minutes on two processors:
  builds     plimsoll, in ./target (5 minutes, 1 GiB)
  installs   missing Debian packages for iSCSI and RAID, as root only; without root two directories are compared
  measures   local, iscsi and raid1 on this disk (6 minutes of load, at most 8 GiB of files); keep the machine quiet
  leaves     two reports and a workload in ./demo. Mounts, servers and data files are removed, also after Ctrl-C
TEXT
  exit
fi

plimsoll=${PLIMSOLL:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/plimsoll}
demo=demo
mkdir -p "$demo"
export PLIMSOLL_STATE=$PWD/demo/state

say() { printf '\n== %s\n' "$*"; }

cleanup() { "$plimsoll" raze >/dev/null; }
trap cleanup EXIT
# Remains of a demo that was killed.
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

stamp=$(date +%Y%m%d-%H%M%S)

# Twenty seconds and a fifth: a first answer in minutes. Ten minutes and 5 % are the defaults.
say "5. The load line: how many times the recorded load does each carry with p99 below 20 ms?"
"$plimsoll" loadline "${systems[@]}" -w "$demo/nas.toml" --slo 'p99 < 20ms' \
  --for 20s --width 20% --budget 4m --seed 20100714 -o "$demo/line-$stamp"

say "6. Side by side under varmail, as long as a verdict needs"
"$plimsoll" compare "${systems[@]}" -w varmail --effect 20% --budget 2m --seed 20100714 \
  -o "$demo/compare-$stamp"

say "7. Everything is taken down"
trap - EXIT
"$plimsoll" raze
echo "The reports: $demo/line-$stamp/report.html and $demo/compare-$stamp/report.html"

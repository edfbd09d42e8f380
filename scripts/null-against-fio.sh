#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the generator itself costs: plimsoll and fio on their null engines, interleaved, five
# rounds; operations per second and CPU time per operation. Quote the ratio, not the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
plimsoll=${PLIMSOLL:-$PWD/target/release/plimsoll}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PLIMSOLL_STATE=$work/state

number() { sed -n "s/^[[:space:]]*\"$1\"[[:space:]]*:[[:space:]]*\([0-9.]*\),*$/\1/p" "$2" | head -n 1; }

printf '%-6s %14s %14s %16s %16s\n' round 'plimsoll op/s' 'fio op/s' 'plimsoll ns/op' 'fio ns/op'
for round in 1 2 3 4 5; do
  "$plimsoll" run randread null --for 2s --warmup 200ms --json -o "$work/p$round" >"$work/p" 2>/dev/null
  fio --name=null --ioengine=null --rw=randread --bs=4k --iodepth=32 --size=1g --norandommap=1 \
    --time_based=1 --runtime=2 --output-format=json >"$work/f" 2>/dev/null
  ops=$(number ops "$work/p") ns=$(number length_ns "$work/p") cpu=$(number generator_cpu_ns "$work/p")
  iops=$(number iops "$work/f") usr=$(number usr_cpu "$work/f") sys=$(number sys_cpu "$work/f")
  awk -v r=$round -v ops="$ops" -v ns="$ns" -v cpu="$cpu" -v iops="$iops" -v usr="$usr" -v sys="$sys" \
    'BEGIN { printf "%-6s %14.0f %14.0f %16.1f %16.1f\n", r, ops / ns * 1e9, iops, cpu / ops, (usr + sys) / 100 * 1e9 / iops }'
done

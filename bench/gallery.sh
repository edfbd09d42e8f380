#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the reports of docs/gallery anew, on this machine. As root, for the stacks; takes some 20 minutes, alone on the
# machine.
#   bench/gallery.sh PLIMSOLL [NAME…]      default: all of them
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?usage: gallery.sh PLIMSOLL [NAME…]}")
shift
wanted=("${@:-all}")
room=target/gallery
mkdir -p "$room/a" "$room/b" docs/gallery
export PLIMSOLL_STATE=$PWD/$room/state PLIMSOLL_CONFIG=/dev/null

# One report: its name, the minutes that it may take, and the words of the command.
make_report() {
  local name=$1 budget=$2 out=$room/run-$1 code=0
  shift 2
  if [ "${wanted[0]}" != all ] && [[ " ${wanted[*]} " != *" $name "* ]]; then return; fi
  rm -rf "$out"
  "$program" "$@" ${budget:+--budget "$budget"} -o "$out" >"$out.txt" 2>"$out.log" || code=$?
  # 10 to 12 are answers as well.
  case $code in 0 | 10 | 11 | 12) ;; *) echo "gallery.sh: $name: exit code $code" >&2; tail -n 3 "$out.log" >&2; return ;; esac
  # The place of this tree and of the program is no part of a report.
  sed -e "s|$program|plimsoll|g" -e "s|$PWD|/plimsoll|g" "$out"/*.html >"docs/gallery/$name.html"
  echo "$name: $(stat -c %s "docs/gallery/$name.html") bytes, exit code $code"
}

campaign() { make_report "$1" "$2" run "examples/gallery/$1.toml"; }

make_report check 3m check "$room/a"
campaign compare 90s
campaign load-line 150s
campaign cannot-carry ""
campaign same ""
campaign layers 2m
campaign failover 3m
campaign degraded 2m
campaign fit-for 2m
make_report durability "" durability files --vary method=fsync,rename,append --loads 4 --cuts 3 --blocks 2
"$program" raze >/dev/null
rm -rf "$room/a" "$room/b"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether this build of plimsoll is slower than another one: of a commit, or a program that is there already.
#   scripts/self-watch.sh REFERENCE [OPTION OF GATE…]
# PLIMSOLL is the program that measures both (default: the one on PATH).
set -euo pipefail

cd "$(dirname "$0")/.."
reference=${1:?usage: self-watch.sh REFERENCE [OPTION…]}
shift
plimsoll=${PLIMSOLL:-plimsoll}
data=target/self-watch

mkdir -p "$data"
[ -f "$data/requests.csv" ] || python3 bench/self-watch/data.py "$data/requests.csv"
# A run of an old format, so that every build can read it: its report is what is measured.
if [ ! -d "$data/run" ]; then
  cp -r crates/plimsoll-archive/tests/fixtures/2.6 "$data/run"
fi
exec "$plimsoll" gate --against "$reference" --campaign bench/self-watch/gate.toml \
  --trust bench/self-watch/gate.toml --directory "$data/gate" "$@"

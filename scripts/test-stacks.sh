#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stands every stack up for real and shows that nothing is left of it.
#   scripts/test-stacks.sh up [STACK...]           up, checks, 5 s of varmail, of 4 KiB random
#                                                  reads and of writes, down; a table of the seconds each took
#   scripts/test-stacks.sh kill [-n N] [STACK...]  N times (20): `kill -9` at a random moment of
#                                                  standing up, running or taking down, then raze
# What is on the machine before and after (mounts, loop devices, namespaces, interfaces, processes
# of ours, rules of the firewall, files) must be the same every time.
set -euo pipefail
cd "$(dirname "$0")/.."

STACKS=(local nbd iscsi nfs raid1 raid5 raid10
  'gluster(distribute)' 'gluster(replicate)' 'gluster(disperse)'
  'gluster(distribute)+tenant(tls)' iscsi+crypt 'gluster(distribute)+tenant(tls)+crypt'
  ./docs/stacks/own.toml)
SIZE=${SIZE:-512M}
SECONDS_EACH=${SECONDS_EACH:-5}
PLIMSOLL=${PLIMSOLL:-$PWD/target/release/plimsoll}

mode=${1:-up}
shift || true
rounds=20
if [ "${1:-}" = -n ]; then
  rounds=$2
  shift 2
fi
[ $# -gt 0 ] && STACKS=("$@")

if [ "$(id -u)" != 0 ]; then
  echo "test-stacks: loop devices, mounts and namespaces need root: run it with sudo" >&2
  exit 1
fi
[ -x "$PLIMSOLL" ] || make --no-print-directory build

# Short: the paths of sockets are limited.
place=$(mktemp -d /var/tmp/plst.XXXXXX)
export PLIMSOLL_STATE=$place/state
trap '"$PLIMSOLL" raze >/dev/null 2>&1 || true; rm -rf --one-file-system "$place"' EXIT

# Everything on this machine that a stack could leave behind, one thing a line.
look() {
  sed 's/^/mount /' /proc/self/mounts
  losetup --list --noheadings --output NAME,BACK-FILE 2>/dev/null | sed 's/^/loop /' || true
  for dir in /run/netns /sys/class/net /var/tmp /tmp /dev/shm; do
    find "$dir" -maxdepth 1 -mindepth 1 2>/dev/null | grep -v '/bash_jobs' | sed 's/^/entry /' || true
  done
  find "$place" -mindepth 1 -not -path "$place/out*" -not -path "$place/look*" \
    -not -path "$place/state" -not -path "$place/state/journals" | sed 's/^/file /'
  # Processes that were started from here, whatever became of their parents; they may end while we
  # look. This script and its tools have no mark.
  { grep -laz '^PLIMSOLL_MARK=' $(grep -laz "^PLIMSOLL_STATE=$place/state$" /proc/[0-9]*/environ) \
    /dev/null || true; } 2>/dev/null | sed 's/^/process /'
  for rules in 'iptables-save' 'ip6tables-save' 'nft list ruleset'; do
    command -v "${rules%% *}" >/dev/null && $rules 2>/dev/null | grep -v '^#' | sed 's/^/rule /'
  done
  true
}

before() { look | sort >"$place/look.before"; }

# Fails when something is there that was not, or gone that was.
same() {
  look | sort >"$place/look.after"
  # What others do on this machine in their own directories is not ours.
  if ! diff "$place/look.before" "$place/look.after" >"$place/look.diff"; then
    local ours
    ours=$(grep -E "plimsoll|plst|$place|^[<>] (loop|process|rule)" "$place/look.diff" || true)
    if [ -n "$ours" ]; then
      echo "test-stacks: $1 left this behind:" >&2
      echo "$ours" >&2
      return 1
    fi
  fi
}

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# One command on a stack, its output shown only when it fails.
quietly() {
  if ! "$@" >"$place/out" 2>&1; then
    echo "test-stacks: failed: $*" >&2
    cat "$place/out" >&2
    return 1
  fi
}

# Runs a workload on the stack that is being tested.
load() {
  rm -rf "$place/out-run"
  quietly "$PLIMSOLL" run "$1" "$2" --for "$3" --size "$SIZE" --no-verify -o "$place/out-run" || return 1
  rm -rf "$place/out-run"
}

# Called where a failure is counted, which switches `set -e` off: every step says so itself.
stand_up() {
  local stack=$1 began up down checks
  before
  began=$(now)
  quietly "$PLIMSOLL" stack up "$stack" --size "$SIZE" || return 1
  up=$(since "$began")
  began=$(now)
  quietly "$PLIMSOLL" stack check "$stack" || return 1
  checks=$(since "$began")
  load varmail "$stack" "${SECONDS_EACH}s" || return 1
  load randread,size=64M,bs=4k,depth=4 "$stack" "${SECONDS_EACH}s" || return 1
  load randwrite,size=64M,bs=4k,depth=4 "$stack" "${SECONDS_EACH}s" || return 1
  began=$(now)
  quietly "$PLIMSOLL" stack down "$stack" || return 1
  down=$(since "$began")
  same "$stack" || return 1
  printf '%-42s %8s %8s %8s  nothing left\n' "$stack" "$up" "$checks" "$down"
}

kill_once() {
  local stack=$1 delay=$2 pid
  before
  # Its whole life is at the mercy of the killer: up, a short run, down.
  "$PLIMSOLL" run randread,size=16M "$stack" --for 500ms --no-verify --size "$SIZE" \
    -o "$place/out-run" >"$place/out" 2>&1 &
  pid=$!
  sleep "$delay"
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  quietly "$PLIMSOLL" raze || return 1
  rm -rf "$place/out-run"
  same "$stack killed after $delay s"
}

# How long a whole life takes, so that moments are drawn from all of it.
life_of() {
  local began
  began=$(now)
  load randread,size=16M "$1" 500ms || return 1
  since "$began"
}

failed=0
case $mode in
up)
  printf '%-42s %8s %8s %8s\n' stack 'up s' 'checks s' 'down s'
  for stack in "${STACKS[@]}"; do
    if ! stand_up "$stack"; then
      failed=$((failed + 1))
      "$PLIMSOLL" raze >/dev/null 2>&1 || true
    fi
  done
  ;;
kill)
  seed=${SEED:-$$}
  echo "seed $seed; $rounds moments each"
  RANDOM=$seed
  for stack in "${STACKS[@]}"; do
    if ! life=$(life_of "$stack"); then
      failed=$((failed + 1))
      continue
    fi
    clean=0
    for ((n = 0; n < rounds; n++)); do
      delay=$(awk -v life="$life" -v r=$RANDOM 'BEGIN { printf "%.3f", life * r / 32768 }')
      if kill_once "$stack" "$delay"; then clean=$((clean + 1)); else failed=$((failed + 1)); fi
    done
    printf '%-42s life %5s s, killed %d times, nothing left %d times\n' "$stack" "$life" "$rounds" "$clean"
  done
  ;;
*)
  sed -n '3,9p' "$0" >&2
  exit 2
  ;;
esac
if [ $failed -gt 0 ]; then
  echo "test-stacks: $failed failed" >&2
  exit 1
fi
echo "test-stacks: all passed"

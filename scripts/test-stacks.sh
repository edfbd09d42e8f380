#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stands every stack up for real and shows that nothing is left of it.
#   scripts/test-stacks.sh up [STACK...]           up, checks, 5 s of varmail, of 4 KiB random
#                                                  reads and of writes, down; a table of the seconds each took
#   scripts/test-stacks.sh kill [-n N] [STACK...]  N times (20): `kill -9` at a random moment of
#                                                  standing up, changing (growing, losing a node,
#                                                  getting it back) or taking down, then raze. What
#                                                  is done stands in LOG: the same SEED goes on there
# State of the machine before and after (mounts, loop devices, namespaces, interfaces, processes
# of ours, rules of the firewall, files) must be the same every time.
set -euo pipefail
cd "$(dirname "$0")/.."

STACKS=(local nbd iscsi nfs raid1 raid5 raid10
  'gluster(distribute)' 'gluster(replicate)' 'gluster(disperse)'
  'gluster(distribute)+tenant' iscsi+crypt 'gluster(distribute)+tenant+crypt'
  ./examples/stacks/own.toml)
SIZE=${SIZE:-512M}
SECONDS_EACH=${SECONDS_EACH:-5}
PLIMSOLL=${PLIMSOLL:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/plimsoll}

mode=${1:-up}
shift || true
rounds=20
if [ "${1:-}" = -n ]; then
  rounds=$2
  shift 2
fi
[ $# -gt 0 ] && STACKS=("$@")
TRUST=()
for stack in "${STACKS[@]}"; do
  if [[ $stack == *.toml ]]; then TRUST+=(--trust "$stack"); fi
done

if [ "$(id -u)" != 0 ]; then
  echo "test-stacks: loop devices, mounts and namespaces need root: run it with sudo" >&2
  exit 1
fi
[ -x "$PLIMSOLL" ] || make --no-print-directory build

# Short: the paths of sockets are limited.
place=$(mktemp -d /var/tmp/plst.XXXXXX)
export PLIMSOLL_STATE=$place/state
# Ends what goes on in the background: the script's part and the program it runs, not what that
# has started.
end() {
  local pid child
  for pid in "$@"; do
    # Who would start the next command is held first.
    kill -STOP "$pid" 2>/dev/null || continue
    child=$(pgrep -P "$pid" || true)
    # shellcheck disable=SC2086 # none or one
    [ -z "$child" ] || kill -9 $child 2>/dev/null || true
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    while [ -n "$child" ] && grep -qsz "^PLIMSOLL_STATE=$place/state$" "/proc/$child/environ"; do
      sleep 0.01
    done
  done
}

leave() {
  # shellcheck disable=SC2046 # numbers
  end $(jobs -p)
  # What could not be undone stays known.
  if "$PLIMSOLL" raze >/dev/null; then rm -rf --one-file-system "$place"; fi
}
trap leave EXIT

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
  # shellcheck disable=SC2046 # names in /proc, without spaces
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
    ours=$(grep -E "$place|^[<>] (process|rule)|(netns|net)/plimsoll" "$place/look.diff" || true)
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
  quietly "$PLIMSOLL" run "$1" "$2" --for "$3" --size "$SIZE" "${TRUST[@]}" --no-self-test -o "$place/out-run" || return 1
  rm -rf "$place/out-run"
}

# Called where a failure is counted, which switches `set -e` off: every step says so itself.
stand_up() {
  local stack=$1 began up down checks
  before
  began=$(now)
  quietly "$PLIMSOLL" stack up "$stack" --size "$SIZE" "${TRUST[@]}" || return 1
  up=$(since "$began")
  began=$(now)
  quietly "$PLIMSOLL" stack check "$stack" "${TRUST[@]}" || return 1
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

# Changes of a stack between up and down, where it allows them.
changes_of() {
  case $1 in
  *+*) ;;
  raid* | 'gluster(distribute)') echo grow degrade rebuild ;;
  gluster*) echo degrade rebuild ;;
  esac
}

# The whole life of a stack, as short as it can be: no load, small disks.
life() {
  local stack=$1 verb
  "$PLIMSOLL" stack up "$stack" --size 256M "${TRUST[@]}" || return 1
  for verb in $(changes_of "$stack"); do
    if [ "$verb" = grow ]; then
      "$PLIMSOLL" stack grow "$stack" || return 1
    else
      "$PLIMSOLL" stack "$verb" "$stack" || return 1
    fi
  done
  "$PLIMSOLL" stack down "$stack"
}

kill_once() {
  local stack=$1 delay=$2 pid
  before
  life "$stack" >"$place/out" 2>&1 &
  pid=$!
  sleep "$delay"
  end "$pid"
  quietly "$PLIMSOLL" raze || return 1
  same "$stack killed after $delay s"
}

# How long a whole life takes, so that moments are drawn from all of it.
life_of() {
  local began
  began=$(now)
  quietly life "$1" || return 1
  since "$began"
}

# The same moment for the same seed, stack and number, whatever ran before: a part of 32768.
moment() { echo $(($(printf '%s' "$1" | cksum | cut -d' ' -f1) % 32768)); }

# A line of the log: SEED, STACK, then `life SECONDS` or `kill NUMBER DELAY clean|left`.
note() { printf '%s\t' "$seed" "$@" >>"$LOG"; echo >>"$LOG"; }
noted() { awk -F'\t' -v seed="$seed" -v stack="$1" -v what="$2" -v n="${3:-}" '
  $1 == seed && $2 == stack && $3 == what && (n == "" || $4 == n) { found = $4; n_found++ }
  END { if (n_found) print found }' "$LOG"; }

kill_all() {
  local stack=$1 life delay n
  life=$(noted "$stack" life)
  if [ -z "$life" ]; then
    if ! life=$(life_of "$stack"); then
      "$PLIMSOLL" raze >/dev/null 2>&1 || true
      failed=$((failed + 1))
      return
    fi
    note "$stack" life "$life"
  fi
  for ((n = 1; n <= rounds; n++)); do
    [ -z "$(noted "$stack" kill $n)" ] || continue
    delay=$(awk -v life="$life" -v r="$(moment "$seed $stack $n")" \
      'BEGIN { printf "%.3f", life * r / 32768 }')
    if kill_once "$stack" "$delay"; then
      note "$stack" kill "$n" "$delay" clean
    else
      note "$stack" kill "$n" "$delay" left
      "$PLIMSOLL" raze >/dev/null 2>&1 || true
    fi
  done
}

table() {
  printf '%-42s %8s %8s %14s\n' stack 'life s' killed 'nothing left'
  awk -F'\t' -v seed="$seed" '
    $1 != seed { next }
    !($2 in seen) { seen[$2] = 1; order[++count] = $2 }
    $3 == "life" { life[$2] = $4 }
    $3 == "kill" { killed[$2]++; clean[$2] += $6 == "clean" }
    END { for (i = 1; i <= count; i++) { s = order[i]
      printf "%-42s %8s %8d %14d\n", s, life[s], killed[s], clean[s]
      all += killed[s]; well += clean[s] }
      printf "%-42s %8s %8d %14d\n", "all", "", all, well
      exit all != well }' "$LOG"
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
  LOG=${LOG:-$PWD/target/kill-stacks.log}
  mkdir -p "$(dirname "$LOG")"
  touch "$LOG"
  echo "$rounds moments each; to go on after a break: SEED=$seed LOG=$LOG $0 kill -n $rounds"
  for stack in "${STACKS[@]}"; do kill_all "$stack"; done
  table || failed=$((failed + 1))
  ;;
*)
  sed -n '3,11p' "$0" >&2
  exit 2
  ;;
esac
if [ $failed -gt 0 ]; then
  echo "test-stacks: $failed failed" >&2
  exit 1
fi
echo "test-stacks: all passed"

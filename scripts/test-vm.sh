#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Virtual machines from nothing to nothing: makes the image (a folder of images in IMAGES is used
# instead); boots three nodes and a client, and has a SAN of RAID 5 on them whose active node loses its power
# under load and gets its leg rebuilt; says how long all that took. Commands are killed in the middle, and go on.
# Then it raises other stacks, loads them
# (iscsi from here, the others, most of them served by a kernel, from the client); tests the SAN's resource
# agent against its standard, and cuts the power of a SAN that exports files; cuts the power of a node and
# switches it on again; makes an appliance that is joined over ssh; takes all down, and looks for what is left.
set -euo pipefail
cd "$(dirname "$0")/.."
PLIMSOLL=${PLIMSOLL:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/plimsoll}

if [ "$(id -u)" != 0 ]; then
  echo "test-vm: the network of machines needs root: run it with sudo" >&2
  exit 1
fi
# Short: sockets lie in it.
place=$(mktemp -d /var/tmp/plvm.XXXXXX)
export PLIMSOLL_STATE=$place/s
mkdir "$PLIMSOLL_STATE"
[ -z "${IMAGES:-}" ] || ln -s "$IMAGES" "$PLIMSOLL_STATE/images"
leave() {
  if "$PLIMSOLL" raze >/dev/null; then rm -rf --one-file-system "$place"; fi
}
trap leave EXIT

began=$SECONDS
step() {
  local from=$SECONDS
  "$PLIMSOLL" "$@" >"$place/out" 2>&1 || { cat "$place/out" >&2; echo "test-vm: failed: $*" >&2; exit 1; }
  printf '%4d s  %s\n' $((SECONDS - from)) "$*"
}
# SIGKILL at a random tenth of so many seconds.
kills=0 met=0
killed() {
  local within=$1 pid
  shift
  "$PLIMSOLL" "$@" >"$place/killed" 2>&1 &
  pid=$!
  sleep "$(shuf -i "1-$((within * 10))" -n 1 | sed 's/.$/.&/')"
  kills=$((kills + 1))
  if kill -9 "$pid" 2>/dev/null; then met=$((met + 1)); fi
  wait "$pid" 2>/dev/null || true
}
links() { ip -brief link | awk '{ print $1 }' | sort; }

links >"$place/before"
step vm image
# The image is there until the next one is.
image=$("$PLIMSOLL" vm image --json)
killed 60 vm image --renew
if [ "$("$PLIMSOLL" vm image --json)" != "$image" ]; then
  echo "test-vm: the image is another one after a kill" >&2
  exit 1
fi
step vm up --node-count 3 --client-count 1 --memory 640M --disk 2G -o "$place/lab.toml"
san='san(raid=5)'
step stack up "$san" --on "$place/lab.toml" --size 256M
# Ends with 12 when a write that was acknowledged is missing.
step failover "$san" --fault power-cut --victim active --repeat 1 --rate 5 --file-size 1M --recovery-timeout 300s \
  -o "$place/failover"
step stack scrub "$san"
again() {
  killed 8 stack "$@"
  step stack "$@"
}
# A new machine with the old name has no directory of ours. Peers that miss one cut its power, so it comes once they
# have done that.
emptied() {
  step vm off "$1"
  local left=120
  until "$PLIMSOLL" vm shell "$2" 'crm_mon --one-shot' 2>/dev/null | grep -q "OFFLINE: .* $1 "; do
    left=$((left - 1))
    [ $left -gt 0 ] || { echo "test-vm: $1 was not fenced" >&2; exit 1; }
    sleep 2
  done
  step vm on "$1"
  step vm shell "$1" 'rm -rf /data/plimsoll; sync'
}
again switch "$san"
emptied n1 n3
again replace "$san" n1
again switch "$san"
emptied n2 n3
again replace "$san" n2
again degrade "$san"
again rebuild "$san"
step stack scrub "$san"
step stack down "$san"
echo "$kills kills, of which $met met a living process; the same command went on"
echo "a SAN of RAID 5 that outlived a power cut took $((SECONDS - began)) s, from no image until it was down"
load() {
  step stack up "$1" --on "$place/lab.toml" --size 512M
  step run randwrite,size=16M "$@" --for 5s -o "$place/run-$1"
  step stack down "$1"
}
for stack in nfs 'nfs(server=knfsd)' nvmetcp 'iscsi(target=lio)'; do
  load "$stack" --clients c1 --on "$place/lab.toml"
done
load iscsi
step stack up san --on "$place/lab.toml" --size 256M
from=$SECONDS
PLIMSOLL=$PLIMSOLL scripts/test-agent.sh n1 /data/plimsoll/plimsoll-san >"$place/out" 2>&1 || {
  cat "$place/out" >&2
  exit 1
}
printf '%4d s  %s\n' $((SECONDS - from)) "$(tail -n 1 "$place/out")"
step stack scrub san
step stack down san
san='san(export=nfs)'
step stack up "$san" --on "$place/lab.toml" --size 256M
step failover "$san" --fault power-cut --victim active --repeat 1 --rate 5 --file-size 1M --recovery-timeout 300s \
  -o "$place/files"
step stack down "$san"
step vm shell n1 'echo synced >/data/kept; sync'
step vm off n1
if "$PLIMSOLL" vm shell n1 true 2>/dev/null; then echo "test-vm: n1 answers without power" >&2; exit 1; fi
step vm on n1
step vm shell n1 'grep synced /data/kept'
step vm shell c1 '/lab/power off n2'
"$PLIMSOLL" vm status | grep -q '^n2 .* off$' || { echo "test-vm: n2 is not off" >&2; exit 1; }
step vm on n2
step vm down
from=$SECONDS
IMAGES=$(realpath "$PLIMSOLL_STATE/images") PLIMSOLL=$PLIMSOLL scripts/test-appliance.sh >"$place/out" 2>&1 || {
  cat "$place/out" >&2
  exit 1
}
printf '%4d s  an appliance, and a stack on it\n' $((SECONDS - from))
links >"$place/after"
if ! diff "$place/before" "$place/after"; then echo "test-vm: interfaces are left" >&2; exit 1; fi
if grep -lsz "^PLIMSOLL_MARK=plimsoll-vm-" /proc/[0-9]*/environ | grep -q .; then
  echo "test-vm: processes are left" >&2
  exit 1
fi
echo "all of it took $((SECONDS - began)) s; nothing is left"

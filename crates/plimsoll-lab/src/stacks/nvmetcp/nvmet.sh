#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A disk by NVMe over TCP from kernel to kernel: nvmet serves it, nvme-tcp attaches it.
#
#   nvmet.sh up NAME ADDRESS DEVICE             serves a device of this machine
#   nvmet.sh down NAME ADDRESS                  serves it no more
#   nvmet.sh attach NAME ADDRESS SECONDS LINK   makes LINK lead to the disk of another machine
#   nvmet.sh detach NAME ADDRESS LINK           lets go of it, unless it is mounted
set -eu
verb=$1 nqn=nqn.2026-01.lab.plimsoll:$2 address=$3
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/$nqn

# The disk of the subsystem on this machine, if it is there.
disk() {
  for found in /sys/class/nvme-subsystem/*; do
    if [ "$(cat "$found/subsysnqn" 2>/dev/null)" = "$nqn" ]; then
      for name in "$found"/nvme*n* "$found"/nvme*/nvme*n*; do
        name=${name##*/}
        if [ -b "/dev/$name" ]; then
          echo "/dev/$name"
          return
        fi
      done
    fi
  done
}

case $verb in
up)
  modprobe -a nvmet nvmet-tcp
  mkdir "$subsystem"
  echo 1 >"$subsystem/attr_allow_any_host"
  mkdir "$subsystem/namespaces/1"
  echo "$4" >"$subsystem/namespaces/1/device_path"
  echo 1 >"$subsystem/namespaces/1/enable"
  number=1
  while ! mkdir "$nvmet/ports/$number" 2>/dev/null; do
    number=$((number + 1))
    [ $number -lt 100 ] || exit 1
  done
  port=$nvmet/ports/$number
  echo tcp >"$port/addr_trtype"
  echo ipv4 >"$port/addr_adrfam"
  echo "$address" >"$port/addr_traddr"
  echo 4420 >"$port/addr_trsvcid"
  ln -s "$subsystem" "$port/subsystems/$nqn"
  ;;
down)
  for link in "$nvmet"/ports/*/subsystems/"$nqn"; do
    if [ -L "$link" ]; then
      rm "$link"
      rmdir "${link%/subsystems/*}"
    fi
  done
  if [ -d "$subsystem" ]; then
    for part in "$subsystem/namespaces/1" "$subsystem"; do
      [ ! -d "$part" ] || rmdir "$part"
    done
  fi
  ;;
attach)
  modprobe nvme-tcp
  if [ -z "$(disk)" ]; then
    nvme connect --transport=tcp --traddr="$address" --trsvcid=4420 --nqn="$nqn" --ctrl-loss-tmo="$4"
  fi
  n=0
  while [ $n -lt 100 ]; do
    found=$(disk)
    [ -z "$found" ] || exec ln -s "$found" "$5"
    n=$((n + 1))
    sleep 0.2
  done
  echo "the disk of $nqn did not appear within 20 s" >&2
  exit 1
  ;;
detach)
  found=$(disk)
  if [ -z "$found" ] || ! grep -q "^$found " /proc/mounts; then
    [ ! -e /dev/nvme-fabrics ] || nvme disconnect --nqn="$nqn" >/dev/null
  fi
  rm -f "$4"
  ;;
*)
  exit 2
  ;;
esac

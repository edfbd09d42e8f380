#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A disk by iSCSI from kernel to kernel: LIO serves it, open-iscsi attaches it.
#
#   lio.sh up NAME ADDRESS DEVICE             serves a device of this machine
#   lio.sh down NAME ADDRESS                  serves it no more
#   lio.sh attach NAME ADDRESS SECONDS LINK   makes LINK lead to the disk of another machine
#   lio.sh detach NAME ADDRESS LINK           lets go of it, unless it is mounted
set -eu
verb=$1 iqn=iqn.2026-01.lab.plimsoll:$2 address=$3
core=/sys/kernel/config/target/core/iblock_0/plimsoll-$2
target=/sys/kernel/config/target/iscsi/$iqn
group=$target/tpgt_1
node="iscsiadm --mode node --targetname $iqn --portal $address:3260"
started=/run/plimsoll-iscsid

# The disk of the target on this machine, if it is there.
disk() {
  for session in /sys/class/iscsi_session/session*; do
    if [ "$(cat "$session/targetname" 2>/dev/null)" = "$iqn" ]; then
      for found in "$session"/device/target*/*/block/*; do
        if [ -b "/dev/${found##*/}" ]; then
          echo "/dev/${found##*/}"
          return
        fi
      done
    fi
  done
}

# A daemon that was there stays there. One that is started here must outlive the step that does so:
# without a mark, since what a step leaves behind is ended by it.
daemon() {
  pidof iscsid >/dev/null || { env -u PLIMSOLL_MARK iscsid && : >"$started"; }
}

case $verb in
up)
  modprobe -a target_core_mod target_core_iblock iscsi_target_mod
  mkdir -p "$core"
  echo "udev_path=$4" >"$core/control"
  echo "$2" >"$core/wwn/vpd_unit_serial"
  echo 1 >"$core/enable"
  mkdir -p "$group/lun/lun_0" "$group/np/$address:3260"
  ln -s "$core" "$group/lun/lun_0/disk"
  # Whoever reaches it may have it: the network is the lab's own.
  for word in authentication=0 generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0; do
    echo "${word#*=}" >"$group/attrib/${word%=*}"
  done
  echo 1 >"$group/enable"
  ;;
down)
  if [ -d "$group" ]; then
    echo 0 >"$group/enable"
    rm -f "$group/lun/lun_0/disk"
    for part in "$group/lun/lun_0" "$group/np/$address:3260" "$group" "$target"; do
      [ ! -d "$part" ] || rmdir "$part"
    done
  fi
  [ ! -d "$core" ] || rmdir "$core"
  ;;
attach)
  modprobe -a iscsi_tcp sd_mod
  daemon
  if [ -z "$(disk)" ]; then
    $node --op new >/dev/null
    $node --op update --name node.session.timeo.replacement_timeout --value "$4"
    $node --login >/dev/null
  fi
  n=0
  while [ $n -lt 100 ]; do
    found=$(disk)
    [ -z "$found" ] || exec ln -s "$found" "$5"
    n=$((n + 1))
    sleep 0.2
  done
  echo "the disk of $iqn did not appear within 20 s" >&2
  exit 1
  ;;
detach)
  found=$(disk)
  if [ -n "$found" ] && ! grep -q "^$found " /proc/mounts; then
    daemon
    n=0
    # One that was just started finds the sessions first.
    until $node --logout >/dev/null 2>&1 || [ -z "$(disk)" ]; do
      n=$((n + 1))
      if [ $n -ge 20 ]; then
        echo "the session of $iqn does not end" >&2
        exit 1
      fi
      sleep 0.5
    done
    $node --op delete >/dev/null 2>&1 || :
  fi
  if [ -e "$started" ] && [ -z "$(disk)" ]; then
    ! pidof iscsid >/dev/null || iscsiadm --kill 0
    rm "$started"
  fi
  rm -f "$4"
  ;;
*)
  exit 2
  ;;
esac

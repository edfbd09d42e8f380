#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a guest that writes a ledger until its power is cut, and checks it afterwards: the first disk is
# the one that is cut, the second keeps ledgers and certificate.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin HOME=/run
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /run
mkdir -p /tmp && mount -t tmpfs none /tmp
for module in virtio_pci virtio_blk; do modprobe "$module"; done
exec >/dev/ttyS1 2>&1
stty raw <&1
for word in $(cat /proc/cmdline); do
  case $word in
    cut_seed=*) number="${word#*=}" ;;
    cut_phase=*) phase="${word#*=}" ;;
  esac
done
mkdir -p /kept
mount -t ext4 /dev/vdb /kept
ledger=/kept/$number.ledger
cd /run || exit
case $phase in
  write)
    plimsoll ledger write /dev/vda --destroy=/dev/vda --ledger "$ledger" --until-death --size 16MiB --rate 100 &
    while [ ! -s "$ledger" ]; do sleep 0.1; done
    echo "# begins"
    wait
    ;;
  ask)
    plimsoll ledger check /dev/vda --ledger "$ledger" --certificate /kept/certificate
    echo "# code $?"
    sync
    umount /kept
    ;;
esac
echo "# ends"
while :; do sleep 1; done

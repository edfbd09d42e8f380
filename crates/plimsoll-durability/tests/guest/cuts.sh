#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of the guest. The second serial line is the one that cuts.py reads.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in virtio_pci virtio_blk; do modprobe "$module"; done
exec >/dev/ttyS1
stty raw <&1
for word in $(cat /proc/cmdline); do
  case $word in
    cut_method=*) export METHOD="${word#*=}" ;;
    cut_seed=*) export SEED="${word#*=}" ;;
    cut_mount=*) options="${word#*=}" ;;
    cut_phase=*) phase="${word#*=}" ;;
  esac
done
export CLIENTS=4
if ! mount -t ext4 -o "$options" /dev/vda /disk; then
  echo "# does not mount"
elif [ "$phase" = ask ] || [ -d /disk/data ]; then
  cd /disk/data 2>/dev/null && sh /have.sh
else
  mkdir /disk/data && cd /disk/data && sync
  echo "# begins"
  sh /ack.sh
fi
echo "# ends"
while :; do sleep 1; done

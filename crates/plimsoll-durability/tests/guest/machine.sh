#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a guest whose disks plimsoll cuts: it lays a file system over both of them, says "# ready", and
# does what it is told on its second serial line: write SEED CLIENTS METHOD, have.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /run
mkdir -p /run/lock /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery
for module in virtio_pci virtio_blk; do modprobe "$module"; done
for word in $(cat /proc/cmdline); do
  case $word in guest_layout=*) layout=${word#*=} ;; esac
done
exec </dev/ttyS1 >/dev/ttyS1
stty raw -echo

device=/dev/vda
case $layout in
  md)
    modprobe raid1
    device=/dev/md0
    mdadm --assemble $device /dev/vda /dev/vdb --run >&2 ||
      mdadm --create $device --level=1 --raid-devices=2 --assume-clean --bitmap=internal --run /dev/vda /dev/vdb >&2
    ;;
  lvm)
    modprobe dm-mod
    device=/dev/guest/data
    lvm vgchange --config 'activation{udev_sync=0 udev_rules=0}' -ay guest >&2 || {
      lvm pvcreate -ff -y /dev/vda /dev/vdb >&2
      lvm vgcreate guest /dev/vda /dev/vdb >&2
      lvm lvcreate --config 'activation{udev_sync=0 udev_rules=0}' -Zn -Wn -i 2 -l 100%FREE -n data guest >&2
    }
    lvm vgmknodes >&2
    ;;
esac
mkdir -p /disk /view
mount -t ext4 $device /disk || { mkfs.ext4 -q $device >&2 && mount -t ext4 $device /disk; } || echo "# does not mount"
mkdir -p /disk/data
sync

serve_nfs() {
  ifconfig lo 127.0.0.1 up
  for module in nfsd nfsv4; do modprobe "$module"; done
  mount -t nfsd none /proc/fs/nfsd
  echo "/disk *($1,rw,no_root_squash,fsid=0,no_subtree_check,insecure)" >/etc/exports
  exportfs -r
  rpc.mountd --no-nfs-version 3 >&2
  rpc.nfsd --no-nfs-version 3 2 >&2
  echo Y >/proc/fs/nfsd/v4_end_grace
  mount -t nfs4 -o vers=4.2,sec=sys 127.0.0.1:/ /view
}
case $layout in
  nfs_sync) serve_nfs sync ;;
  nfs_async) serve_nfs async ;;
  *) mount --bind /disk /view ;;
esac
cd /view/data && echo "# ready" || echo "# has no directory"
while read -r command seed clients method; do
  case $command in
    write)
      SEED=$seed CLIENTS=$clients METHOD=$method sh /ack.sh &
      writers=$!
      ;;
    have)
      [ -z "$writers" ] || killall dd sh 2>/dev/null
      # A writer may have been killed in the middle of a line.
      sleep 0.2
      echo
      sh /have.sh
      echo "# ends"
      ;;
  esac
done

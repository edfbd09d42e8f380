#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs what build.sh unpacked: pack.sh FOLDER IMAGE
#
# FOLDER holds our own files besides. IMAGE-VERSION, by the version of the kernel, appears whole or not
# at all: a folder with root.erofs (read by every machine at once), initrd, initrd-node (of appliances), vmlinuz,
# and which packages are in it. What machines have open is never written again.
set -eu
folder=$1
root=$folder/root
version=$(basename "$(echo "$folder"/kernel/lib/modules/*)")
image=$2-$version
from=$folder/kernel/lib/modules/$version
to=$root/lib/modules/$version

mkdir -p "$to/kernel"
# Storage, networks and what they are made of; sound, graphics and the like stay out.
for part in arch block crypto fs lib net \
  drivers/block drivers/char drivers/md drivers/nvme drivers/scsi drivers/target drivers/virtio drivers/watchdog drivers/ata \
  drivers/net/vmxnet3 drivers/net/virtio_net.ko drivers/net/net_failover.ko drivers/net/dummy.ko drivers/net/ifb.ko drivers/net/veth.ko; do
  if [ -e "$from/kernel/$part" ]; then
    mkdir -p "$to/kernel/$(dirname "$part")"
    cp -a "$from/kernel/$part" "$to/kernel/$part"
  fi
done
cp "$from"/modules.order "$from"/modules.builtin* "$to/"
chroot "$root" depmod "$version" 2>/dev/null

mkdir -p "$root/lab" "$root/data"
for file in rc ports power mount-data; do
  install -m 755 "$folder/$file" "$root/lab/$file"
done
install -m 644 "$folder/inittab" "$root/etc/inittab"
mkdir "$root/lab/node"
for file in inittab sshd_config keys lease greet; do
  install -m 755 "$folder/node-$file" "$root/lab/node/$file"
done
for program in reboot poweroff; do ln -sf /bin/busybox "$root/usr/sbin/$program"; done
# Its package made keys of a host. An appliance makes its own when it first boots.
rm -f "$root"/etc/ssh/ssh_host_*
# There is no systemd to start it: the initiator is told to start the daemon itself.
if [ -f "$root/etc/iscsi/iscsid.conf" ]; then
  sed -i 's/^iscsid.startup.*/#&/' "$root/etc/iscsi/iscsid.conf"
fi
# Nobody answers for names in the machines' network: without this each question would wait.
rm -f "$root/etc/resolv.conf"
sed -i 's/^hosts:.*/hosts: files/' "$root/etc/nsswitch.conf"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/info/* "${root:?}/boot"

new=$folder/new
mkdir "$new"
# A very small first system: reaches the image and puts a writable layer over it.
first() {
  first=$folder/first-$1
  mkdir -p "$first/bin" "$first/modules" "$first/dev" "$first/proc" "$first/image" "$first/layer" "$first/new"
  cp "$root/bin/busybox" "$first/bin/busybox"
  install -m 755 "$folder/init" "$first/init"
  for module in $2; do
    chroot "$root" modprobe -S "$version" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
    cp "$root$path" "$first/modules/"
    basename "$path" >>"$first/modules/order"
  done
  (cd "$first" && find . | cpio --quiet -o -H newc | gzip -9) >"$new/$1"
}
first initrd "virtio_pci virtio_blk erofs overlay"
# Controllers of disks that an appliance may meet: of QEMU, of VMware, and the oldest that everybody has.
first initrd-node "virtio_pci virtio_blk virtio_scsi vmw_pvscsi ata_piix sd_mod erofs overlay"
cp "$folder/kernel/boot/vmlinuz-$version" "$new/vmlinuz"
# Not compressed: an emulated processor takes longer to unpack than a disk to read.
mkfs.erofs -x-1 "$new/root.erofs" "$root" >/dev/null
dpkg-query --admindir="$root/var/lib/dpkg" --show >"$new/packages"
sync "$new"/*
mkdir -p "$(dirname "$image")"
# One that is renewed is there until then; it goes with this folder.
if [ -e "$image" ]; then mv -T "$image" "$folder/old"; fi
mv -T "$new" "$image"

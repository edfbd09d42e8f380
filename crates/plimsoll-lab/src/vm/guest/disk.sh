#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts an appliance's disk together: disk.sh FOLDER IMAGE BOOT SYSTEM DATA END
#
# FOLDER holds grub.cfg and authorized_keys; FOLDER/disk.raw appears, of END bytes. Its parts begin at BOOT
# (kernel, initrd), SYSTEM (the image) and DATA (what the node keeps): whole MiB, counted in bytes. Nothing
# is mounted, so nobody has to be root.
set -eu
folder=$1 image=$2 boot=$3 system=$4 data=$5 end=$6
disk=$folder/disk.raw
export PATH="$PATH:/usr/sbin:/sbin"

mkdir "$folder/boot" "$folder/data" "$folder/data/node"
cp "$image/vmlinuz" "$folder/boot/vmlinuz"
cp "$image/initrd-node" "$folder/boot/initrd"
cp "$folder/authorized_keys" "$folder/data/node/authorized_keys"

truncate -s "$end" "$disk"
sfdisk --quiet "$disk" <<END
label: dos
start=$((boot / 512)), size=$(((system - boot) / 512)), type=83, bootable
start=$((system / 512)), size=$(((data - system) / 512)), type=83
start=$((data / 512)), size=$(((end - data) / 512)), type=83
END
mke2fs -q -t ext2 -d "$folder/boot" -E root_owner=0:0,offset="$boot" "$disk" $(((system - boot) / 1024))k
dd if="$image/root.erofs" of="$disk" bs=1M seek=$((system >> 20)) conv=notrunc,sparse status=none
mke2fs -q -t ext4 -d "$folder/data" \
  -E root_owner=0:0,lazy_itable_init=1,lazy_journal_init=1,offset="$data" "$disk" $(((end - data) / 1024))k

# The boot sector of GRUB looks for the rest of it in the sector behind, where no partition begins yet.
grub=/usr/lib/grub/i386-pc
grub-mkimage -O i386-pc -d "$grub" -c "$folder/grub.cfg" -p /boot -o "$folder/core.img" \
  biosdisk part_msdos ext2 linux
[ "$(stat -c %s "$folder/core.img")" -le $((boot - 512)) ]
dd if="$grub/boot.img" of="$disk" bs=440 count=1 conv=notrunc status=none
dd if="$folder/core.img" of="$disk" bs=512 seek=1 conv=notrunc status=none

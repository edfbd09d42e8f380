#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs an appliance for those who import OVA: ova.sh FOLDER NAME
#
# FOLDER holds disk.raw and NAME.ovf, in which @SIZE@ stands for the size of the packed disk. FOLDER/NAME.ova
# appears. The order of its files is the standard's: who reads it in passing knows what comes.
set -eu
cd "$1"
name=$2
disk=$name-disk1.vmdk
qemu-img convert -q -O vmdk -o subformat=streamOptimized,adapter_type=lsilogic disk.raw "$disk"
sed -i "s/@SIZE@/$(stat -c %s "$disk")/" "$name.ovf"
for file in "$name.ovf" "$disk"; do
  echo "SHA256($file)= $(sha256sum "$file" | cut -d ' ' -f 1)"
done >"$name.mf"
tar --format=ustar --owner=0 --group=0 --numeric-owner --mode=0644 -cf "$name.ova" "$name.ovf" "$name.mf" "$disk"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Boots the guest of machine.toml in the data directory: boot.sh IMAGE LAYOUT.
exec qemu-system-x86_64 -machine accel=tcg -cpu max -m 256 -nodefaults -display none \
  -kernel "$1/vmlinuz" -initrd "$1/initrd" -append "console=ttyS0 quiet panic=-1 rdinit=/machine.sh guest_layout=$2" \
  -chardev "file,id=kernel,path=$RUN/kernel" -serial chardev:kernel \
  -chardev "socket,id=lines,path=$RUN/console,server=on,wait=off,logfile=$RUN/lines" -serial chardev:lines \
  -drive "if=none,id=a,file=$DATA/a.img,format=raw,cache=writeback" -device virtio-blk-pci,drive=a \
  -drive "if=none,id=b,file=$DATA/b.img,format=raw,cache=writeback" -device virtio-blk-pci,drive=b

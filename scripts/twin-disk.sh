#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A disk on which twins can be compared: a file in memory behind a loop device, at a fixed rate and
# number of operations per second, with ext4 on it. Its speed is known and does not drift, and
# programs that are run with little memory cannot answer from the page cache.
#
#   scripts/twin-disk.sh up DIR            makes and mounts it at DIR (root, cgroup version 1)
#   scripts/twin-disk.sh run COMMAND...    runs a command with 192 MiB of memory and page cache, on
#                                          processor 0 and there ahead of what other sessions do
#   scripts/twin-disk.sh down DIR          removes all of it
#
# SIZE_MIB (2048), INODES (300000), OPS_PER_S (25000), BYTES_PER_S (419430400), 0 for no limit, and
# MEMORY_BYTES (201326592) may be set in the environment.
set -eu

size_mib=${SIZE_MIB:-2048}
inodes=${INODES:-300000}
bytes_per_s=${BYTES_PER_S:-419430400}
ops_per_s=${OPS_PER_S:-25000}
memory_bytes=${MEMORY_BYTES:-201326592}
blkio=/sys/fs/cgroup/blkio
group=/sys/fs/cgroup/memory/plimsoll-twins
# The kernel shares processors among sessions (autogroup), whatever their scheduling class is, and fio
# begins one of its own for every job; a group goes before all of them, for both twins alike.
cpu_group=/sys/fs/cgroup/cpu/plimsoll-twins
cpu_shares=10240
# The loop device works in a work queue of the kernel's. Whether that runs where the program waits or
# on another processor is chance, and makes a read of 4 KiB at a time 1.5 times as fast or as slow,
# so both are kept to processor 0.
queues=/sys/devices/virtual/workqueue/cpumask
queues_before=/run/plimsoll-twins.cpumask
image=/dev/shm/plimsoll-twins.img

limit() {
	for way in read write; do
		echo "$1 $2" >"$blkio/blkio.throttle.${way}_bps_device"
		echo "$1 $3" >"$blkio/blkio.throttle.${way}_iops_device"
	done
}

case "${1:-}" in
up)
	# Written once before: memory that is touched for the first time is slow.
	dd if=/dev/zero of="$image" bs=1M count="$size_mib" status=none
	mkfs.ext4 -q -N "$inodes" -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$image"
	mkdir -p "$2"
	mount -o loop,nodiscard,noatime "$image" "$2"
	limit "$(lsblk -no MAJ:MIN "$(findmnt -no SOURCE "$2")" | tr -d ' ')" "$bytes_per_s" "$ops_per_s"
	mkdir "$group"
	echo "$memory_bytes" >"$group/memory.limit_in_bytes"
	cat "$queues" >"$queues_before"
	echo 1 >"$queues"
	mkdir "$cpu_group"
	echo "$cpu_shares" >"$cpu_group/cpu.shares"
	;;
run)
	shift
	echo $$ >"$group/cgroup.procs"
	echo $$ >"$cpu_group/cgroup.procs"
	exec taskset -c 0 "$@"
	;;
down)
	limit "$(lsblk -no MAJ:MIN "$(findmnt -no SOURCE "$2")" | tr -d ' ')" 0 0
	umount "$2"
	cat "$queues_before" >"$queues"
	rm "$queues_before"
	rmdir "$group" "$cpu_group"
	rm -f "$image"
	;;
*)
	sed -n '3,13s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

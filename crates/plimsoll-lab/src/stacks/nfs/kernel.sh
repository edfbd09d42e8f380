#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The NFS server of this machine's kernel:
#
#   kernel.sh check                                 nothing speaks RPC here yet
#   kernel.sh up DIRECTORY VERSION sync|async BYTES CLIENT...
#                                                   serves the directory to these alone, and there to
#                                                   root alone: from ports below 1024
#   kernel.sh down DIRECTORY                        serves nothing any more
set -eu
verb=$1
control=/proc/fs/nfsd

# As after every start of the machine.
control() {
  modprobe nfsd
  [ -e $control/threads ] || mount -t nfsd nfsd $control
}

case $verb in
check)
  control
  threads=$(cat $control/threads)
  if [ "$threads" != 0 ]; then
    echo "the kernel serves NFS here already ($threads threads), and it has one server only" >&2
    exit 1
  fi
  if grep -q '^ *[0-9]*: [0-9A-F]*:006F [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
    echo "a port mapper runs here already (TCP port 111): end it, or choose another node" >&2
    exit 1
  fi
  ;;
up)
  directory=$2 version=$3 commit=$4 bytes=$5
  control
  echo "$bytes" >$control/max_block_size
  shift 5
  for client; do
    exportfs -i -o "rw,$commit,no_root_squash,no_subtree_check,secure,fsid=1" "$client:$directory"
  done
  other=$((7 - version))
  # Clients that had files open before a power cut may take them up again for ten seconds.
  rpc.nfsd --no-udp --grace-time 10 --lease-time 10 --nfs-version "$version" --no-nfs-version "$other" 8
  ;;
down)
  directory=$2
  if [ -e $control/threads ]; then
    rpc.nfsd 0
    while read -r where client; do
      [ "$where" != "$directory" ] || exportfs -u "${client%%(*}:$directory"
    done </var/lib/nfs/etab
  fi
  ;;
*)
  exit 2
  ;;
esac

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The NFS server of this machine's kernel:
#
#   kernel.sh check                                 nothing speaks RPC here yet
#   kernel.sh up DIRECTORY VERSION sync|async BYTES serves the directory
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
  exportfs -i -o "rw,$commit,no_root_squash,no_subtree_check,insecure,fsid=1" "*:$directory"
  other=$((7 - version))
  # Clients that had files open before a power cut may take them up again for ten seconds.
  rpc.nfsd --no-udp --grace-time 10 --lease-time 10 --nfs-version "$version" --no-nfs-version "$other" 8
  ;;
down)
  directory=$2
  if [ -e $control/threads ]; then
    rpc.nfsd 0
    exportfs -u "*:$directory"
  fi
  ;;
*)
  exit 2
  ;;
esac

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An appliance from its making to a stack on it: makes it, looks at what the OVA file holds, boots the disk
# in it on the hardware that its descriptor names (controller and network adapter of VMware, as QEMU has
# them), boots the qcow2 file, compares the key that its console tells, joins it as a host of an inventory,
# raises a stack on it, loads that and takes it down. The image is made, or one of the folder IMAGES.
#
# The node runs in a network of its own, in which its address is this machine's, and what comes to it goes on
# to the node: nothing of that is left when this ends.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLIMSOLL=${PLIMSOLL:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/plimsoll}
fail() { echo "test-appliance: $*" >&2; exit 1; }

if [ "${1:-}" != alone ]; then
  place=$(mktemp -d /var/tmp/plapp.XXXXXX)
  export PLIMSOLL_STATE=$place/s
  leave() {
    if "$PLIMSOLL" raze >/dev/null; then rm -rf --one-file-system "$place"; fi
  }
  trap leave EXIT
  mkdir "$PLIMSOLL_STATE"
  [ -z "${IMAGES:-}" ] || ln -s "$IMAGES" "$PLIMSOLL_STATE/images"
  ssh-keygen -q -t ed25519 -N '' -f "$place/key"
  "$PLIMSOLL" vm appliance -o "$place/node" --key "$place/key.pub" --data 2G
  [ "$(echo "$place"/node/*)" = "$place/node/plimsoll-node.ova $place/node/plimsoll-node.qcow2" ] \
    || fail "other files are there"
  unshare --net "$0" alone "$place"
  exit
fi
place=$2
machine=
leave() {
  "$PLIMSOLL" raze >/dev/null || true
  [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
}
trap leave EXIT
address=10.93.7.15
ip link set lo up
ip address add $address/32 dev lo
# Who calls the node must not seem to be the node.
ip route replace local $address dev lo src 127.0.0.1 table local

# Order and checksums of the OVA file.
mkdir "$place/ova"
tar -tf "$place/node/plimsoll-node.ova" >"$place/names"
printf 'plimsoll-node%s\n' .ovf .mf -disk1.vmdk | diff - "$place/names"
tar -C "$place/ova" -xf "$place/node/plimsoll-node.ova"
(cd "$place/ova" && sed 's/^SHA256(\(.*\))= \(.*\)$/\2  \1/' plimsoll-node.mf | sha256sum --quiet -c)
grep -q "ovf:size=\"$(stat -c %s "$place/ova/plimsoll-node-disk1.vmdk")\"" "$place/ova/plimsoll-node.ovf"
qemu-img info "$place/ova/plimsoll-node-disk1.vmdk" | grep -q 'create type: streamOptimized'

# boot DISK FORMAT OPTION...: what the node writes goes into a file of its own.
boot() {
  local disk=$1 format=$2 forwards=
  shift 2
  for port in 22 2049 3260 13260; do forwards+=,hostfwd=tcp:$address:$port-$address:$port; done
  rm -f "$place/console"
  qemu-img create -q -f qcow2 -b "$disk" -F "$format" "$place/disk"
  qemu-system-x86_64 -accel tcg -m 1024 -display none -nodefaults -no-user-config -device VGA \
    -serial "file:$place/console" -drive "file=$place/disk,if=none,id=disk" \
    -netdev "user,id=net,restrict=on,net=10.93.7.0/24,dhcpstart=$address$forwards" "$@" &
  machine=$!
  local n=0
  until grep -q 'dir = "/data' "$place/console" 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 600 ] || { cat "$place/console" >&2; fail "the node does not come up"; }
    kill -0 $machine || fail "the machine has ended"
    sleep 0.5
  done
  key=$(sed -n 's/^ *host key *\(SHA256:[^ ]*\).*/\1/p' "$place/console" | tail -n 1)
}
off() {
  kill $machine
  wait $machine || true
  machine=
}

boot "$place/ova/plimsoll-node-disk1.vmdk" vmdk -device pvscsi -device scsi-hd,drive=disk \
  -device vmxnet3,netdev=net,romfile=
first=$key
off
boot "$place/node/plimsoll-node.qcow2" qcow2 -device virtio-blk-pci,drive=disk \
  -device virtio-net-pci,netdev=net,romfile=
[ "$key" != "$first" ] || fail "two nodes have the same host key"

# Joined as its console says: the key compared, its lines added to an inventory.
n=0
until ssh-keyscan -T 30 -t ed25519 $address >"$place/known" 2>"$place/scan" && [ -s "$place/known" ]; do
  n=$((n + 1))
  [ $n -lt 20 ] || { cat "$place/scan" >&2; fail "its sshd does not answer"; }
  sleep 0.5
done
[ "$(ssh-keygen -l -f "$place/known" | cut -d ' ' -f 2)" = "$key" ] || fail "the console tells another key"
printf 'Host *\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n' "$place/key" "$place/known" \
  >"$place/ssh_config"
{
  echo 'ssh_config = "ssh_config"'
  tr -d '\r' <"$place/console" | sed -n '/^ *\[\[node/,/^ *dir = /p'
} >"$place/lab.toml"
if ssh -F "$place/ssh_config" -o BatchMode=yes -o PubkeyAuthentication=no root@$address true 2>/dev/null; then
  fail "the node lets in who has no key"
fi
# One that a kernel serves, as the SAN does, and one that this machine can load by itself.
for stack in 'iscsi(target=lio)' iscsi; do
  "$PLIMSOLL" stack up "$stack" --on "$place/lab.toml" --size 256M
  [ "$stack" != iscsi ] || "$PLIMSOLL" run randwrite,size=16M "$stack" --for 5s -o "$place/run"
  "$PLIMSOLL" stack down "$stack"
done
ssh -F "$place/ssh_config" root@$address 'test ! -e /data/plimsoll && poweroff' || fail "something is left on the node"
wait $machine || true
machine=

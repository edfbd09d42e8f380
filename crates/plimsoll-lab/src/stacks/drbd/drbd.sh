#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One half of a disk that DRBD mirrors over two machines:
#
#   drbd.sh up DIRECTORY ADDRESS ADDRESS DEVICE   takes part, with a device of this machine
#   drbd.sh new DIRECTORY                         both halves are empty: takes them for equal
#   drbd.sh primary DIRECTORY                     uses the disk here
#   drbd.sh format DIRECTORY                      makes a file system on it
#   drbd.sh met DIRECTORY                         ends with 0 when the halves know each other
#   drbd.sh whole DIRECTORY                       ends with 0 when both halves are the same
#   drbd.sh down DIRECTORY                        takes part no more
set -eu
verb=$1 dir=$2
minor=30
name=plimsoll

admin() {
  drbdadm --config-file="$dir/drbd.conf" "$@"
}

# The line of /proc/drbd that tells of it.
line() {
  grep "^ *$minor: " /proc/drbd 2>/dev/null || :
}

case $verb in
up)
  # Its questions would go to programs that do not know this configuration.
  modprobe drbd usermode_helper=disabled
  case $(line) in
  '' | *cs:Unconfigured*) ;;
  *)
    echo "device /dev/drbd$minor is used here already" >&2
    exit 1
    ;;
  esac
  cat >"$dir/drbd.conf" <<X
global { usage-count no; }
resource $name {
  device /dev/drbd$minor;
  disk $5;
  meta-disk internal;
  net { protocol C; ping-timeout 20; }
  floating $3:7789 { }
  floating $4:7789 { }
}
X
  if [ ! -e "$dir/made" ]; then
    admin create-md --force "$name" >/dev/null 2>&1
    : >"$dir/made"
  fi
  # It is needed again when the machine has lost its power.
  sync "$dir/drbd.conf" "$dir/made"
  admin up "$name"
  ;;
new)
  admin new-current-uuid --clear-bitmap "$name/0"
  ;;
primary)
  admin primary "$name"
  ;;
format)
  mkfs.ext4 -q -E nodiscard,assume_storage_prezeroed=1 "/dev/drbd$minor"
  ;;
whole)
  case $(line) in
  *cs:Connected*ds:UpToDate/UpToDate*) ;;
  *) exit 1 ;;
  esac
  ;;
met)
  # Connected, or that and copying.
  case $(line) in
  *cs:Connected* | *cs:Sync* | *cs:PausedSync*) ;;
  *) exit 1 ;;
  esac
  ;;
down)
  [ ! -e "$dir/drbd.conf" ] || admin down "$name"
  ;;
*)
  exit 2
  ;;
esac

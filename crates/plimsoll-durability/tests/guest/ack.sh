#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writers that make new files in the working directory, and print `ack KEY SUM` of each. Settings: METHOD (fsync,
# none), SEED, CLIENTS. Runs in a guest with busybox alone, and as the witness of guest.toml.
writer() {
  n=0
  while :; do
    key=k-$SEED-$1-$n
    blocks=$((1 + n % 7))
    case $METHOD in
      fsync)
        dd if=/dev/urandom of="$key" bs=1500 count="$blocks" conv=fsync 2>/dev/null
        sync .
        ;;
      none) dd if=/dev/urandom of="$key" bs=1500 count="$blocks" 2>/dev/null ;;
    esac
    sum=$(md5sum <"$key")
    echo "ack $key ${sum%% *}"
    n=$((n + 1))
  done
}
for client in $(seq "$CLIENTS"); do
  writer "$client" &
done
wait

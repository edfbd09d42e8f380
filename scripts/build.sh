#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program, and the agent that it copies to other machines (docs/stacks/inventory.md) and that
# lies beside it. Both are static: the agent because a node may lack our libraries, the program so that
# one file runs on every Linux. With a target it builds for that one, into a folder of that name.
#
#   build.sh [x86_64-unknown-linux-gnu|aarch64-unknown-linux-gnu]
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-}
folder=${CARGO_TARGET_DIR:-target}
of_target=()
if [ -n "$target" ]; then
  of_target=(--target "$target")
  folder=$folder/$target
fi
if [ "$target" = aarch64-unknown-linux-gnu ]; then
  # Debian's compiler has this name on every machine, also where it is the machine's own.
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
fi

# The flags are for these two alone: macros of the compiler cannot be static. Of the program the names of
# functions stay for back-traces, and a panic says its line without them.
static=(-C target-feature=+crt-static -C "link-arg=-Wl,--build-id")
cargo rustc --locked "${of_target[@]}" --profile agent --package plimsoll-agent --bin plimsoll-agent -- \
  "${static[@]}"
cargo rustc --locked "${of_target[@]}" --release --package plimsoll --bin plimsoll -- \
  "${static[@]}" -C strip=debuginfo
cp "$folder/agent/plimsoll-agent" "$folder/release/"

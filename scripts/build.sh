#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program, and those that lie beside it: the agent that it copies to other machines
# (docs/stacks/inventory.md), and the server of its page (docs/serve.md). For this machine or for the target that
# is named; those of this machine are also put into target/release.
#
#   build.sh [--program-alone] [x86_64-unknown-linux-gnu|aarch64-unknown-linux-gnu]
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(plimsoll plimsoll-server)
has_agent=yes
# What one machine needs to measure itself.
if [ "${1:-}" = --program-alone ]; then
  programs=(plimsoll)
  has_agent=
  shift
fi
target=${1:-$(uname -m)-unknown-linux-gnu}
folder=${CARGO_TARGET_DIR:-target}/$target
if [ "$target" = aarch64-unknown-linux-gnu ]; then
  # Debian's compiler has this name on every machine, also where it is the machine's own.
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
fi

# The flags are those of .cargo/config.toml, which RUSTFLAGS would replace. Of the program the names of functions
# stay for back-traces, and a panic says its line without them.
static=(-C target-feature=+crt-static -C "link-arg=-Wl,--build-id")
if [ "$has_agent" ]; then
  cargo rustc --locked --target "$target" --profile agent --package plimsoll-agent --bin plimsoll-agent -- \
    "${static[@]}"
fi
for program in "${programs[@]}"; do
  cargo rustc --locked --target "$target" --release --package "$program" --bin "$program" -- \
    "${static[@]}" -C strip=debuginfo
done
if [ "$has_agent" ]; then
  install -m 755 "$folder/agent/plimsoll-agent" "$folder/release/"
  programs+=(plimsoll-agent)
fi
if [ $# -eq 0 ]; then
  install -D -m 755 -t "$folder/../release" "${programs[@]/#/$folder/release/}"
fi

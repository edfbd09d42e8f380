#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compiler of workflows, of one exact version, whose warnings are the same on every day. A machine without rustup
# gets it, by a checksum that is kept here. Later steps of a job find both through $GITHUB_PATH and $GITHUB_ENV.
set -euo pipefail
cd "$(dirname "$0")/.."

rust=1.95.0
rustup=1.29.0
platform=$(uname -m)-unknown-linux-gnu
case $platform in
  x86_64-*) digest=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10 ;;
  aarch64-*) digest=9732d6c5e2a098d3521fca8145d826ae0aaa067ef2385ead08e6feac88fa5792 ;;
  *) echo "ci-rust.sh: no checksum of rustup for $platform" >&2; exit 1 ;;
esac

export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
if ! command -v rustup >/dev/null; then
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  curl --proto '=https' --tlsv1.2 --fail --silent --show-error --retry 3 --output "$place/rustup-init" \
    "https://static.rust-lang.org/rustup/archive/$rustup/$platform/rustup-init"
  echo "$digest  $place/rustup-init" | sha256sum --check --quiet
  chmod 700 "$place/rustup-init"
  "$place/rustup-init" -y --quiet --no-modify-path --default-toolchain none
fi
rustup toolchain install "$rust" --no-self-update --profile minimal --component clippy,rustfmt
echo "${CARGO_HOME:-$HOME/.cargo}/bin" >>"${GITHUB_PATH:-/dev/null}"
echo "RUSTUP_TOOLCHAIN=$rust" >>"${GITHUB_ENV:-/dev/null}"
# A checkout belongs to another user than the one in the container.
git config --global --add safe.directory "$PWD"

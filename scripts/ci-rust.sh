#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the compiler that Cargo.toml names, on a machine of a CI that has none, and nothing where it is.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if [ "$(rustc --version 2>/dev/null | sed 's/rustc \([0-9]*\.[0-9]*\)\..*/\1/')" != "$wanted" ]; then
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
    sh -s -- -y --profile minimal --component clippy,rustfmt --default-toolchain "$wanted"
fi
if [ -n "${GITHUB_PATH:-}" ]; then echo "${CARGO_HOME:-$HOME/.cargo}/bin" >>"$GITHUB_PATH"; fi
# A checkout belongs to another user than the one in the container.
git config --global --add safe.directory "$PWD"

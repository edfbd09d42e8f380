#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the release twice, from two clones of this commit in two places, with two places for the sources of
# its dependencies, and compares every file. The first one becomes target/dist. Two whole builds: not for CI on
# every change, but for every release.
#
#   dist-check.sh [x86_64] [aarch64]     as scripts/dist.sh
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
unset CARGO_TARGET_DIR
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  echo "dist-check.sh: what is not committed is left out" >&2
fi
revision=$(git rev-parse HEAD)
tags=$(git tag --points-at HEAD)
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")

# Paths of different lengths, which stay: what was built there need not be built again.
make_in() {
  local place=$1
  shift
  mkdir -p "$place/cargo"
  if [ ! -d "$place/tree/.git" ]; then git clone --quiet --no-checkout . "$place/tree"; fi
  git fetch --quiet . "$revision"
  git -C "$place/tree" fetch --quiet "$PWD" "$revision"
  git -C "$place/tree" checkout --quiet --detach "$revision"
  for tag in $tags; do git -C "$place/tree" tag --force "$tag" "$revision" >/dev/null; done
  # The registry as it is configured here, with sources of its own.
  if [ -f "$cargo_home/config.toml" ]; then cp "$cargo_home/config.toml" "$place/cargo/"; fi
  CARGO_HOME=$(realpath "$place/cargo") "$place/tree/scripts/dist.sh" "$@"
}
make_in "$target/dist-a" "$@"
make_in "$target/dist-check/another-place" "$@"

first=$target/dist-a/tree/target/dist second=$target/dist-check/another-place/tree/target/dist
cat "$first/SHA256SUMS"
if ! diff "$first/SHA256SUMS" "$second/SHA256SUMS"; then
  echo "dist-check.sh: the two builds differ" >&2
  exit 1
fi
echo "$(grep -c . "$first/SHA256SUMS") files, in both builds equal to the byte"
rm -rf "$target/dist"
cp -r "$first" "$target/dist"

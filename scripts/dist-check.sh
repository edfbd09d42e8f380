#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the release twice: here, and from a clone in another place with sources of its dependencies in another
# place, and compares every file. Two whole builds: for every release, not for every change.
#
#   dist-check.sh [x86_64] [aarch64]     as scripts/dist.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  echo "dist-check.sh: the clone would lack what is not committed: commit it first" >&2
  exit 1
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/dist-check/another-place
revision=$(git rev-parse HEAD)
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")

# Builds there stay, and are not repeated.
mkdir -p "$place/cargo"
if [ ! -d "$place/tree/.git" ]; then git clone --quiet --no-checkout . "$place/tree"; fi
git -C "$place/tree" fetch --quiet "$PWD" "$revision"
git -C "$place/tree" checkout --quiet --detach "$revision"
for tag in $(git tag --points-at HEAD); do git -C "$place/tree" tag --force "$tag" "$revision" >/dev/null; done
# The registry as it is configured here, with sources of its own.
for name in config.toml config; do
  if [ -f "$cargo_home/$name" ]; then cp "$cargo_home/$name" "$place/cargo/"; fi
done

scripts/dist.sh "$@"
(unset CARGO_TARGET_DIR && CARGO_HOME=$place/cargo "$place/tree/scripts/dist.sh" "$@")

first=$target/dist/SHA256SUMS
if ! diff "$first" "$place/tree/target/dist/SHA256SUMS"; then
  echo "dist-check.sh: the two builds differ" >&2
  exit 1
fi
cat "$first"
echo "$(grep -c . "$first") files, in both builds equal to the byte"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An OCI image of a staged tree (scripts/dist.sh), as an archive, with umoci: without a daemon, and without
# a base image, since the programs are static. It runs loads, fits recordings, shows and serves runs; stacks
# need programs that only a system has.
#
#   dist-image.sh TREE ARCHITECTURE VERSION FILE.oci.tar
set -euo pipefail
umask 022
tree=$1 arch=$2 version=$3 out=$4
: "${SOURCE_DATE_EPOCH:?the time of the commit}"
time=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/share/doc/plimsoll" "$root/tmp" "$root/work"
cp -a "$tree/bin/." "$root/usr/bin"
cp -a "$tree/lib/." "$root/usr/lib"
cp "$tree/share/doc/plimsoll/third-party.txt" "$tree/share/doc/plimsoll/plimsoll.cdx.json" \
  "$root/usr/share/doc/plimsoll"
cp "$(dirname "$0")/../LICENSE" "$root/usr/share/doc/plimsoll"
# Whoever is named to run it may work in these.
chmod 1777 "$root/tmp" "$root/work"
find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

image=$work/image:$(tr '~' '-' <<<"$version")
umoci init --layout "$work/image"
umoci new --image "$image"
umoci insert --rootless --image "$image" --history.created "$time" --history.created_by scripts/dist-image.sh \
  "$root" /
umoci config --image "$image" --no-history --created "$time" --architecture "$arch" --os linux \
  --config.user 65532:65532 --config.entrypoint /usr/bin/plimsoll --config.cmd --help --config.workingdir /work \
  --config.label org.opencontainers.image.title=plimsoll \
  --config.label "org.opencontainers.image.version=$version" \
  --config.label org.opencontainers.image.licenses=Apache-2.0
# Files from before the last step are in no manifest.
umoci gc --layout "$work/image" >/dev/null
chmod -R u=rwX,go=rX "$work/image"
tar --create --directory "$work/image" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" \
  --owner=0 --group=0 --numeric-owner --file "$out" .

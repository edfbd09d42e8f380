#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the production recordings of the PCP tutorial "Comparing storage performance" (a file
# server and a database) from Debian's package pcp-doc, unpacked but not installed, into DIR/pcp.
# They are not part of this repository: their licence is the GPL.
set -euo pipefail

dir=${1:?usage: fetch-recordings.sh DIR}
[ -e "$dir/pcp/diskmodel/nasdata.0" ] && exit 0
mkdir -p "$dir/pcp"
dir=$(cd "$dir" && pwd)
# Nothing in the user's directory but what is asked for: what is unpacked is removed by its own name.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# apt downloads as a user of its own.
chmod 755 .
if ! apt-get download pcp-doc >apt.log 2>&1; then
  # A machine that has never asked for the lists of packages has none.
  if ! { [ "$(id -u)" -eq 0 ] && apt-get update >>apt.log 2>&1 && apt-get download pcp-doc >>apt.log 2>&1; }; then
    cat apt.log >&2
    echo "fetch-recordings.sh: Debian's package pcp-doc could not be downloaded" >&2
    exit 1
  fi
fi
dpkg-deb --extract pcp-doc_*.deb unpacked
tar --extract --gzip --directory "$dir/pcp" --file unpacked/usr/share/pcp/demos/tutorials/diskmodel.tar.gz

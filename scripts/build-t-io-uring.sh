#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds t/io_uring, the bare ring loop in fio's sources, which Debian does not package, into
# target/fio/t/. The sources are Debian's own, fetched by apt with lists of their own, so nothing of
# the system changes.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}/fio
if [ -x "$target/t/io_uring" ]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/parts"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# From where this machine has its packages.
site=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" | head -n 1)
cat >"$work/parts/source.sources" <<END
Types: deb-src
URIs: $site
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
options=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/parts"
  -o "Dir::State::lists=$work/lists" -o "APT::Sandbox::User=root")
if ! {
  cd "$work"
  apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only fio &&
    dpkg-source --extract fio_*.dsc fio && cd fio && ./configure --disable-native && make t/io_uring
} >"$work/log" 2>&1; then
  tail -n 20 "$work/log" >&2
  echo "build-t-io-uring.sh: could not build t/io_uring; the benches leave it out" >&2
  exit 1
fi
mkdir -p "$target/t"
cp "$work/fio/t/io_uring" "$target/t/io_uring"
echo "built $target/t/io_uring"

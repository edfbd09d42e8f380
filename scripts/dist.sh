#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes everything that a release has, in target/dist: for each processor a tarball, a Debian package, an OCI
# image, a Python wheel, a bill of materials, and the checksums of all. Nothing in them depends on where or when they are
# made (docs/releasing.md). Installs nothing; scripts/setup.sh dist does.
#
#   dist.sh [x86_64] [aarch64]     default: this machine's processor, and the other if it can be built for
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
root=$PWD
export LC_ALL=C TZ=UTC

die() { echo "dist.sh: $*" >&2; exit 1; }

# Where this tree, its dependencies and the compiler lie is no part of what is built.
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/dist-build
sysroot=$(rustc --print sysroot)
remaps=("$sysroot/lib/rustlib/src/rust=/rust" "$cargo_home=/cargo" "$root=/plimsoll" "$CARGO_TARGET_DIR=/build")
flags=()
for remap in "${remaps[@]}"; do flags+=("--remap-path-prefix=$remap"); done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
CFLAGS=$(printf -- '-ffile-prefix-map=%s ' "${remaps[@]}")
export CARGO_ENCODED_RUSTFLAGS CFLAGS
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
revision=$(git rev-parse HEAD)

version=$(sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)
# A tagged commit makes the version itself; any other one that comes before it.
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  version=$version~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).${revision:0:10}.changed
elif ! git tag --points-at HEAD | grep -qxF "v$version"; then
  version=$version~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).${revision:0:10}
fi

ours=$(uname -m)
wanted=("$@")
if [ $# -eq 0 ]; then wanted=("$ours"); fi
for machine in x86_64 aarch64; do
  [ $# -eq 0 ] && [ "$machine" != "$ours" ] || continue
  if rustup target list --installed 2>/dev/null | grep -qx "$machine-unknown-linux-gnu" &&
    command -v "$machine-linux-gnu-gcc" >/dev/null; then
    wanted+=("$machine")
  else
    echo "SKIPPED: $machine: no standard library or no C compiler for it: scripts/setup.sh dist"
  fi
done

dist=$(dirname "$CARGO_TARGET_DIR")/dist
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

built() { echo "$CARGO_TARGET_DIR/$1-unknown-linux-gnu/release"; }

# A build that has one of our paths in it is another one elsewhere.
check_program() {
  local path
  for path in "$root" "$cargo_home" "$CARGO_TARGET_DIR" "$sysroot"; do
    if grep -qaF "$path/" "$1"; then die "$1 contains the path $path: it would differ elsewhere"; fi
  done
}

# Everything that is installed, as it is below /usr or /usr/local.
stage() {
  local machine=$1 prefix=$2 doc=$2/share/doc/plimsoll program
  for program in plimsoll plimsoll-agent plimsoll-server; do
    check_program "$(built "$machine")/$program"
    install -D -m 755 "$(built "$machine")/$program" "$prefix/lib/plimsoll/$program"
  done
  mkdir -p "$prefix/bin" "$prefix/share/man"
  ln -s ../lib/plimsoll/plimsoll "$prefix/bin/plimsoll"
  cp -r "$work/man1" "$prefix/share/man/man1"
  install -D -m 644 "$work/bash" "$prefix/share/bash-completion/completions/plimsoll"
  install -D -m 644 "$work/zsh" "$prefix/share/zsh/site-functions/_plimsoll"
  install -D -m 644 "$work/fish" "$prefix/share/fish/vendor_completions.d/plimsoll.fish"
  mkdir -p "$doc"
  install -m 644 README.md CHANGELOG.md SECURITY.md "$doc"
  # Committed files alone: what else lies there is not part of a release.
  git ls-files -z examples 'docs/*.md' 'docs/pictures/*' | xargs -0 cp --parents -t "$doc"
  chmod -R u=rwX,go=rX "$doc"
  # The task itself is built as always, where it is built already.
  env -u CARGO_ENCODED_RUSTFLAGS -u CFLAGS CARGO_TARGET_DIR="$(dirname "$CARGO_TARGET_DIR")" \
    cargo xtask sbom "$machine-unknown-linux-gnu" "$doc" "$version" \
    "$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" "$(glibc_of "$machine")"
}

# The version of the C library that is linked into the programs.
glibc_of() {
  local package=libc6-dev
  if [ "$1" != "$ours" ]; then package=libc6-dev-$(debian_name "$1")-cross; fi
  # shellcheck disable=SC2016 # a field of dpkg-query
  dpkg-query --show --showformat '${Version}' "$package"
}

debian_name() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "unknown processor '$1': expected x86_64 or aarch64" ;;
  esac
}

for machine in "$ours" "${wanted[@]}"; do
  debian_name "$machine" >/dev/null
done
# This machine's own program makes the pages for all of them.
scripts/build.sh "$ours-unknown-linux-gnu"
mkdir "$work/man1"
"$(built "$ours")/plimsoll" man --dir "$work/man1"
# Results are for their owner alone; pages of the manual are for everybody.
chmod 644 "$work/man1"/*.1
for shell in bash zsh fish; do
  "$(built "$ours")/plimsoll" completions "$shell" >"$work/$shell"
done

for machine in "${wanted[@]}"; do
  name=plimsoll-$version-$machine-linux
  if [ "$machine" != "$ours" ]; then scripts/build.sh "$machine-unknown-linux-gnu"; fi
  stage "$machine" "$work/$name"
  cp "$work/$name/share/doc/plimsoll/plimsoll.cdx.json" "$dist/$name.cdx.json"
  tar --create --directory "$work" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner "$name" | gzip -9n >"$dist/$name.tar.gz"
  debian=$(debian_name "$machine")
  scripts/dist-image.sh "$work/$name" "$debian" "$version" "$dist/$name.oci.tar"
  scripts/dist-deb.sh "$work/$name" "$debian" "$version" "$dist/plimsoll_${version}_$debian.deb"
  python3 scripts/dist-wheel.py "$work/$name" "$machine" "$version" "$dist"
done
(cd "$dist" && sha256sum -- plimsoll* >SHA256SUMS)
{
  echo "Made of the commit $revision with:"
  rustc --version
  cargo --version
  for machine in "${wanted[@]}"; do
    "$machine-linux-gnu-gcc" --version | sed -n 1p
    echo "C library for $machine: $(glibc_of "$machine")"
  done
  ld --version | sed -n 1p
  dpkg-deb --version | sed -n 1p
  umoci --version
} >"$dist/BUILT-WITH"
ls -l "$dist"

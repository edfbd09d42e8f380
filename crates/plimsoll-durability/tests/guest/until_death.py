#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the power of guests in which `plimsoll ledger write --until-death` writes, and checks the ledgers.

    until_death.py IMAGE PLIMSOLL KEPT [--cache writeback|unsafe] [--cuts N]

The disk is served by nbdkit with a write-back cache (`unsafe`: one that ignores flushes), which is killed with the
guest. IMAGE is the directory that pack.py made, PLIMSOLL a static program, KEPT a disk image that is made: it has the
ledgers and the certificate, for debugfs. Wants qemu-system-x86, nbdkit, e2fsprogs, cpio.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BOOT_LIMIT_S = 180


def with_program(options):
    """The guest's first files, with the program behind them: the kernel unpacks one archive after the other."""
    root = options.work / "root"
    (root / "sbin").mkdir(parents=True)
    subprocess.run(["strip", "-o", root / "sbin/plimsoll", options.plimsoll], check=True)
    shutil.copy(HERE / "until_death.sh", root / "until_death.sh")
    os.chmod(root / "until_death.sh", 0o755)
    names = "sbin\nsbin/plimsoll\nuntil_death.sh\n"
    more = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=subprocess.PIPE, check=True)
    initrd = options.work / "initrd"
    initrd.write_bytes((options.image / "initrd").read_bytes() + more.stdout)
    return initrd


def booted(options, disk, number, phase):
    lines = options.work / "lines"
    lines.write_bytes(b"")
    words = f"console=ttyS0 quiet panic=-1 rdinit=/until_death.sh cut_seed={number} cut_phase={phase}"
    guest = subprocess.Popen(
        ["qemu-system-x86_64", "-machine", "accel=tcg", "-cpu", "max", "-m", "512", "-nodefaults", "-display", "none"]
        + ["-kernel", options.image / "vmlinuz", "-initrd", options.initrd, "-append", words]
        + ["-chardev", f"file,id=c,path={options.work}/console", "-serial", "chardev:c"]
        + ["-chardev", f"file,id=l,path={lines}", "-serial", "chardev:l"]
        + ["-drive", f"if=none,id=d,{disk}", "-device", "virtio-blk-pci,drive=d,serial=subject"]
        + ["-drive", f"if=none,id=k,file={options.kept},format=raw,cache=writeback", "-device", "virtio-blk-pci,drive=k"]
    )
    wanted = {"write": "# begins", "ask": "# ends"}[phase]
    for _ in range(BOOT_LIMIT_S * 10):
        said = lines.read_bytes().decode(errors="replace").replace("\r", "").split("\n")
        if wanted in said:
            return guest, said
        if guest.poll() is not None:
            break
        time.sleep(0.1)
    guest.kill()
    raise SystemExit(f"no '{wanted}' within {BOOT_LIMIT_S} s:\n" + "\n".join(said[-30:]))


def cut(options, image, number):
    nbd = options.work / "nbd"
    nbd.unlink(missing_ok=True)
    server = subprocess.Popen(["nbdkit", "-f", "-U", nbd, "--filter=cache", "file", image, f"cache={options.cache}"])
    while not nbd.exists():
        time.sleep(0.02)
    guest = None
    try:
        guest, _ = booted(options, f"file=nbd+unix:///?socket={nbd},format=raw,cache=writeback", number, "write")
        time.sleep(options.seconds)
    finally:
        server.kill()
        server.wait()
        if guest:
            guest.kill()
            guest.wait()
    guest, said = booted(options, f"file={image},format=raw,cache=writeback", number, "ask")
    guest.kill()
    guest.wait()
    return said


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("image", type=pathlib.Path)
    words.add_argument("plimsoll", type=pathlib.Path)
    words.add_argument("kept", type=pathlib.Path)
    words.add_argument("--cache", default="writeback", choices=["writeback", "unsafe"])
    words.add_argument("--cuts", type=int, default=10)
    words.add_argument("--seconds", type=float, default=3)
    options = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="until-death-") as work:
        options.work = pathlib.Path(work)
        options.initrd = with_program(options)
        subprocess.run(["mkfs.ext4", "-q", "-F", options.kept, "200M"], check=True, stdout=subprocess.DEVNULL)
        for number in range(1, options.cuts + 1):
            image = options.work / "disk"
            image.unlink(missing_ok=True)
            with open(image, "wb") as file:
                file.truncate(64 << 20)
            said = cut(options, image, number)
            print(number, [line for line in said if line.startswith("# code")], " ".join(said[-8:])[:700], flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    main()

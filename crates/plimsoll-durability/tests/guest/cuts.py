#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the power of real guests, and tells of each cut which acknowledged files are gone.

Nothing of plimsoll is used: what `plimsoll durability` finds with guest.toml is held against this. `reset` resets the
machine, whose disk keeps all that it was given (a protected cache); `cache` kills nbdkit, whose write-back cache is
then lost (a volatile one), and the guest with it.

Wants IMAGE, the directory that pack.py made, and qemu-system-x86, nbdkit, e2fsprogs.
"""

import argparse
import collections
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

BOOT_LIMIT_S = 120


class Guest:
    """A guest that runs until it is ended."""

    def __init__(self, options, drive, number, phase):
        self.work, self.lines = options.work, options.work / "lines"
        self.lines.write_bytes(b"")
        words = f"console=ttyS0 quiet panic=-1 rdinit=/cuts.sh cut_method={options.method} cut_seed={number} "
        words += f"cut_mount={options.mount} cut_phase={phase}"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", f"accel={options.accel}", "-cpu", "max", "-m", "160", "-nodefaults", "-display", "none"]
            + ["-kernel", options.image / "vmlinuz", "-initrd", options.image / "initrd", "-append", words]
            + ["-chardev", f"file,id=c,path={self.work}/console", "-serial", "chardev:c"]
            + ["-chardev", f"file,id=l,path={self.lines}", "-serial", "chardev:l"]
            + ["-drive", f"if=none,id=d,{drive}", "-device", "virtio-blk-pci,drive=d"]
            + ["-qmp", f"unix:{self.work}/qmp,server=on,wait=off"],
        )

    def said(self):
        """The complete lines so far."""
        return self.lines.read_bytes().decode(errors="replace").replace("\r", "").split("\n")[:-1]

    def wait_for(self, line, behind=0):
        for _ in range(BOOT_LIMIT_S * 20):
            if line in self.said()[behind:]:
                return
            if self.process.poll() is not None:
                raise SystemExit(f"the guest ended; see {self.work}/console")
            time.sleep(0.05)
        raise SystemExit(f"no '{line}' within {BOOT_LIMIT_S} s; see {self.work}/console and {self.lines}")

    def reset(self):
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(f"{self.work}/qmp")
            stream = monitor.makefile("rw")
            stream.readline()
            for command in ["qmp_capabilities", "system_reset"]:
                stream.write(json.dumps({"execute": command}) + "\n")
                stream.flush()
                while "return" not in json.loads(stream.readline()):
                    pass

    def end(self):
        self.process.kill()
        self.process.wait()


def cut_by_reset(options, image, number):
    guest = Guest(options, f"file={image},format=raw,cache=writeback", number, "write")
    try:
        guest.wait_for("# begins")
        time.sleep(options.seconds)
        before = guest.said()
        guest.reset()
        guest.wait_for("# ends", len(before))
        return before, guest.said()[len(before):]
    finally:
        guest.end()


def cut_by_cache(options, image, number):
    nbd = options.work / "nbd"
    nbd.unlink(missing_ok=True)
    server = subprocess.Popen(["nbdkit", "-f", "-U", nbd, "--filter=cache", "file", image, "cache=writeback"])
    try:
        while not nbd.exists():
            time.sleep(0.02)
        guest = Guest(options, f"file=nbd+unix:///?socket={nbd},format=raw,cache=writeback", number, "write")
        try:
            guest.wait_for("# begins")
            time.sleep(options.seconds)
            before = guest.said()
            server.kill()
        finally:
            guest.end()
    finally:
        server.kill()
        server.wait()
    guest = Guest(options, f"file={image},format=raw,cache=writeback", number, "ask")
    try:
        guest.wait_for("# ends")
        return before, guest.said()
    finally:
        guest.end()


def judge(before, after):
    """The flaws of the acknowledged keys, by class."""
    acknowledged = dict(line.split()[1:] for line in before if line.startswith("ack "))
    found = dict(line.split()[1:] for line in after if line.startswith("have ") and len(line.split()) == 3)
    flaws = collections.Counter()
    for key, value in acknowledged.items():
        if key not in found:
            flaws["lost"] += 1
        elif found[key] != value:
            flaws["wrong"] += 1
    if "# does not mount" in after:
        flaws = {"does_not_mount": 1}
    elif acknowledged and not found:
        flaws = {"empty": 1}
    return len(acknowledged), flaws


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("image", type=pathlib.Path)
    words.add_argument("way", choices=["reset", "cache"])
    words.add_argument("--method", default="fsync", choices=["fsync", "none"])
    words.add_argument("--mount", default="rw")
    words.add_argument("--cuts", type=int, default=60)
    words.add_argument("--seconds", type=float, default=2)
    words.add_argument("--accel", default="tcg")
    options = words.parse_args()
    cut = {"reset": cut_by_reset, "cache": cut_by_cache}[options.way]
    states, lossy, all_acknowledged, classes = 0, 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="guest-cuts-") as work:
        options.work = pathlib.Path(work)
        image = options.work / "disk"
        for number in range(1, options.cuts + 1):
            image.unlink(missing_ok=True)
            subprocess.run(["mkfs.ext4", "-q", image, "300M"], check=True, stdout=subprocess.DEVNULL)
            before, after = cut(options, image, number)
            acknowledged, flaws = judge(before, after)
            states, lossy, all_acknowledged = states + 1, lossy + bool(flaws), all_acknowledged + acknowledged
            classes.update(dict.fromkeys(flaws, 1))
            row = {"way": options.way, "method": options.method, "mount": options.mount, "states": states}
            row |= {"states_with_losses": lossy, "acknowledged": all_acknowledged, "classes": dict(classes)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    main()

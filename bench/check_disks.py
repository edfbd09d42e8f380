#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `plimsoll check` against disks whose law is known.

    bench/check_disks.py PLIMSOLL OUT.csv [--only NAME,...] [--rounds N]

As root, on Debian with nbdkit, libnbd-bin, e2fsprogs and fio. Each disk is served by nbdkit with its own filters,
shown as a file by nbdfuse, and mounted as ext4 through a loop device. Where the law puts a use's head-room at three
times what it needs or more, `fits` is right; at a third or less, `does not fit`; other uses are not judged. A flush
and whatever else must be told has its words. Everything that is made is removed, also after Ctrl-C.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ALL = ["etcd", "postgres-wal", "vm-boot", "mail"]
FITS, NOT = "fits", "does not fit"

# nbdkit's words, what must be told of each use, words that must be on the first screen or among the errors, and more
# words of the command.
DISKS = {
    # A write takes 1 ms: a commit two or three of them, one after the other.
    "quick": (["--filter=delay", "memory", "4G", "wdelay=1ms"], dict.fromkeys(ALL, FITS), []),
    # No commit within 10 ms is possible.
    "slow": (["--filter=delay", "memory", "4G", "wdelay=30ms"], {"etcd": NOT, "postgres-wal": NOT, "mail": NOT}, []),
    # 20 Mbit/s after a bucket of two seconds: ten boots need 200 Mbit/s, two thousand mailboxes 260.
    "bucket": (["--filter=rate", "memory", "4G", "rate=20M", "burstiness=2"], {"vm-boot": NOT, "mail": NOT}, [],
               ["--use", "vm-boot,vms=10,size=32MiB", "--use", "mail,mailboxes=2000,size=32MiB"]),
    # A flush that does nothing.
    "lying": (["memory", "4G"], dict.fromkeys(ALL, FITS), ["faster than a medium is written"]),
    # nbdkit syncs the file below.
    "honest": (["file", "@FILE@"], {}, ["believable: each reaches the disk"]),
    "full": (["memory", "4G"], {}, ["may be used"]),
    # One request at a time, 5 ms each, of which another program takes half: the check must spare it.
    "shared": (["--threads=1", "--filter=delay", "memory", "4G", "rdelay=5ms", "wdelay=5ms"], {}, ["ended early: others use"]),
    "memory": (None, dict.fromkeys(ALL, FITS), ["in memory: nothing survives"]),
    "two": (None, {"quick": dict.fromkeys(ALL, FITS), "slow": {"etcd": NOT, "postgres-wal": NOT, "mail": NOT}}, []),
}


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Disk:
    """A mounted ext4 on a disk of nbdkit."""

    def __init__(self, work, name, words):
        self.room = os.path.join(work, name)
        self.mount, self.shown = os.path.join(self.room, name), os.path.join(self.room, "disk")
        self.fuse, self.loop, self.is_mounted = None, None, False
        os.makedirs(self.mount)
        try:
            backing = os.path.join(self.room, "backing")
            if "@FILE@" in words:
                with open(backing, "wb") as file:
                    file.truncate(4 << 30)
            words = [backing if word == "@FILE@" else word for word in words]
            with open(self.shown, "wb"):
                pass
            self.fuse = subprocess.Popen(["nbdfuse", self.shown, "--command", "nbdkit", "-s", *words])
            for _ in range(200):
                if os.path.getsize(self.shown) > 0:
                    break
                time.sleep(0.05)
            self.loop = run("losetup", "--show", "--direct-io=on", "-f", self.shown)
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", self.loop)
            run("mount", self.loop, self.mount)
            self.is_mounted = True
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.is_mounted:
            subprocess.run(["umount", self.mount])
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop])
        if self.fuse:
            subprocess.run(["fusermount3", "-u", self.shown])
            try:
                self.fuse.wait(20)
            except subprocess.TimeoutExpired:
                self.fuse.kill()
        shutil.rmtree(self.room, ignore_errors=True)


def checked(plimsoll, paths, out, more):
    began = time.monotonic()
    done = subprocess.run([plimsoll, "check", *paths, *more, "-o", out], capture_output=True, text=True)
    seconds = time.monotonic() - began
    told = done.stdout + done.stderr
    page = subprocess.run([plimsoll, "report", out, "--json"], capture_output=True, text=True)
    try:
        lines = json.loads(page.stdout)["load_lines"]["lines"]
    except ValueError:
        lines = []
    return lines, " ".join(told.split()), seconds


def judge(expected, lines):
    """Right, not told and wrong answers."""
    counts = {"right": 0, "not known": 0, "wrong": 0}
    for line in lines:
        expect = expected.get(line["requirement"]["name"])
        if expect is None:
            continue
        fit = line["fit"]
        counts["right" if fit == expect else "not known" if fit == "cannot tell" else "wrong"] += 1
    return counts


def one(name, work, options, number):
    words, expected, needed, *more = DISKS[name]
    out = os.path.join(work, f"out-{name}-{number}")
    disks, other = [], None
    try:
        if name == "two":
            disks = [Disk(work, part, DISKS[part][0]) for part in ("quick", "slow")]
            paths = [disk.mount for disk in disks]
        elif name == "memory":
            paths = [os.path.join("/dev/shm", f"check-{os.getpid()}")]
            os.makedirs(paths[0], exist_ok=True)
        else:
            disks = [Disk(work, name, words)]
            paths = [disks[0].mount]
        if name == "full":
            run("fallocate", "-l", "3400M", os.path.join(paths[0], "old"))
        if name == "shared":
            other = subprocess.Popen(
                ["fio", "--name=other", f"--directory={paths[0]}", "--rw=randread", "--direct=1", "--size=64M",
                 "--rate_iops=100", "--time_based", "--runtime=600"], stdout=subprocess.DEVNULL)
            time.sleep(8)
        lines, told, seconds = checked(options.plimsoll, paths, out, sum(more, []))
        counts = {"right": 0, "not known": 0, "wrong": 0}
        if name == "two":
            for part in ("quick", "slow"):
                for key, count in judge(expected[part], [line for line in lines if line["arm"] == part]).items():
                    counts[key] += count
        elif expected:
            counts = judge(expected, lines)
        missing = [part for part in needed if part not in told]
        return counts, missing, seconds, lines, told
    finally:
        if other:
            other.terminate()
            other.wait()
        if name == "memory":
            shutil.rmtree(paths[0], ignore_errors=True)
        for disk in disks:
            disk.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plimsoll")
    parser.add_argument("out")
    parser.add_argument("--only", default=",".join(DISKS))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="check-disks-")
    os.chmod(work, 0o755)
    wrong = 0
    try:
        with open(options.out, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["round", "disk", "seconds", "right", "not_known", "wrong", "words_missing", "answers"])
            for number in range(options.rounds):
                for name in options.only.split(","):
                    counts, missing, seconds, lines, told = one(name, work, options, number)
                    answers = "; ".join(
                        f"{line['arm']} {line['requirement']['name']}: {line['fit']} {line['reach']} "
                        f"{'/'.join(f'{end:.2f}' for end in line['sustained'])}" for line in lines)
                    rows.writerow([number, name, f"{seconds:.0f}", counts["right"], counts["not known"],
                                   counts["wrong"], "; ".join(missing), answers])
                    file.flush()
                    print(number, name, f"{seconds:.0f} s", counts, missing, told[-1500:], flush=True)
                    wrong += counts["wrong"] + len(missing)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants causes on this machine and counts how often `plimsoll report --json` names them first.

Causes: a rate limit with a bucket (nbdkit's rate filter), a page cache (buffered reads of a file that
fits into memory), a busy loop pinned to the client's CPU, one slow disk of two (btrfs over two disks,
nbdkit's delay filter before one), a leaking server (a process of a server of the stack `nbd` that
keeps what it allocates), a slow link (a token bucket filter on a link of our own namespace); and
clean runs.

    bench/explain_causes.py PLIMSOLL [--repeat 3] [--only CAUSE,...] [-o results.json]

Needs root, nbdkit, nbdfuse, btrfs, ip, tc, losetup. Everything is made in a directory and a namespace
of its own and removed at the end. A run counts as right when the planted cause is the first that is
named, and a clean one when nothing is named but what the machine's own neighbours explain: causes in
NEIGHBOURS are set aside (and counted) where this script itself saw the processors busy.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

# What a busy machine does to any run.
NEIGHBOURS = {"other_programs", "stolen_processor", "generator_late", "client_processor"}
# Share of the processors that others (this script's own helpers included) used.
BUSY = 0.25


def sh(*argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout


def cpu_ticks():
    with open("/proc/stat", encoding="ascii") as stat:
        return [int(word) for word in stat.readline().split()[1:]]


class Lab:
    def __init__(self, plimsoll, seconds):
        self.plimsoll, self.seconds = plimsoll, seconds
        self.dir = tempfile.mkdtemp(prefix="plimsoll-explain-", dir="/var/tmp")
        self.undo = contextlib.ExitStack()
        self.undo.callback(shutil.rmtree, self.dir, ignore_errors=True)
        self.env = dict(os.environ, PLIMSOLL_STATE=os.path.join(self.dir, "state"), NO_COLOR="1")
        self.count = 0

    def path(self, name):
        return os.path.join(self.dir, name)

    def spawn(self, *argv, **more):
        child = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more
        )

        def end():
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

        self.undo.callback(end)
        return child

    def run(self, target, workload, *more, prefix=(), blocks=2):
        """The causes that are named, and whether others were at work."""
        self.count += 1
        folder = self.path(f"r{self.count}")
        # A comparison of one system has two entries of it, interleaved in blocks.
        if blocks > 1:
            what = ["compare", target, "-w", workload, "--blocks", str(blocks)]
        else:
            what = ["run", workload, target]
        argv = [*prefix, self.plimsoll, *what, "--for", f"{self.seconds}s", "--warmup", "0s",
                "--no-verify", "--no-record", "-o", folder, *more]
        first = cpu_ticks()
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
        last = cpu_ticks()
        if done.returncode not in (0, 10):
            raise RuntimeError(f"{' '.join(argv)}: {done.returncode}: {done.stderr[-600:]}")
        report = json.loads(
            sh(self.plimsoll, "report", folder, "--json", env=self.env)
        )
        named = [one for arm in report["explanations"] for one in arm["found"]]
        spent = [b - a for a, b in zip(first, last)]
        all_ticks = sum(spent[:8])
        load = sum(t["generator"]["user_cpu_ns"] + t["generator"]["system_cpu_ns"]
                   for t in report["trials"]) / 1e9 * os.sysconf("SC_CLK_TCK")
        busy = (sum(spent[:3]) + spent[5] + spent[6] + spent[7] - load) / max(all_ticks, 1)
        return [(one["cause"], one.get("about", "")) for one in named], busy


def nbd_file(lab, name, *filters_and_params, size="256M"):
    """A disk of nbdkit as a loop device."""
    socket, mount = lab.path(f"{name}.sock"), lab.path(f"{name}.nbd")
    filters = [p for p in filters_and_params if p.startswith("--")]
    params = [p for p in filters_and_params if not p.startswith("--")]
    lab.spawn("nbdkit", "-f", "-U", socket, *filters, "memory", size, *params)
    wait_for(lambda: os.path.exists(socket))
    open(mount, "w", encoding="ascii").close()
    lab.spawn("nbdfuse", mount, f"nbd+unix:///?socket={socket}")
    lab.undo.callback(subprocess.run, ["umount", "-l", mount], check=False, capture_output=True)
    wait_for(lambda: os.path.getsize(mount) > 0)
    device = sh("losetup", "--find", "--show", "--direct-io=on", mount).strip()
    lab.undo.callback(subprocess.run, ["losetup", "-d", device], check=False, capture_output=True)
    return device


def wait_for(is_so, limit=20.0):
    until = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("it did not come up")
        time.sleep(0.05)


def destroy(device):
    return ("--destroy=" + device,)


def clean(lab):
    device = nbd_file(lab, "clean")
    return lab.run(device, "randread,size=64M,depth=4", *destroy(device))


def burst_credit(lab):
    # 4 KiB reads: 16 MBit/s are 488 a second; the bucket holds six seconds of it.
    device = nbd_file(lab, "limited", "--filter=rate", "rate=16M", "burstiness=6")
    return lab.run(device, "randread,size=64M,depth=4", *destroy(device), blocks=1)


def page_cache(lab):
    target = lab.path("cached")
    os.makedirs(target, exist_ok=True)
    return lab.run(target, "randread,size=64M,direct=off")


def other_programs(lab):
    device = nbd_file(lab, "hogged")
    lab.spawn("taskset", "-c", "0", sys.executable, "-c", "while True: pass")
    return lab.run(device, "randread,size=64M,depth=4", *destroy(device),
                   prefix=("taskset", "-c", "0"))


def slow_disk(lab):
    a = nbd_file(lab, "fast")
    b = nbd_file(lab, "slow", "--filter=delay", "delay-read=4ms")
    mount = lab.path("pair")
    os.makedirs(mount)
    sh("mkfs.btrfs", "-q", "-f", "-d", "raid0", "-m", "raid1", a, b)
    sh("mount", a, mount)
    lab.undo.callback(subprocess.run, ["umount", mount], check=False, capture_output=True)
    return lab.run(mount, "randread,size=64M,depth=4")


def slow_link(lab):
    space = f"plx{os.getpid()}"
    here, there = f"plx{os.getpid() % 100000}a", f"plx{os.getpid() % 100000}b"
    sh("ip", "netns", "add", space)
    lab.undo.callback(subprocess.run, ["ip", "netns", "del", space], check=False)
    sh("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
    sh("ip", "addr", "add", "198.18.77.1/30", "dev", here)
    sh("ip", "link", "set", here, "up")
    inside = ("ip", "netns", "exec", space)
    sh(*inside, "ip", "addr", "add", "198.18.77.2/30", "dev", there)
    sh(*inside, "ip", "link", "set", there, "up")
    for way in ([], list(inside)):
        device = there if way else here
        sh(*way, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "40mbit",
           "burst", "16k", "latency", "200ms")
    lab.spawn(*inside, "nbdkit", "-f", "-p", "10977", "memory", "256M")
    time.sleep(0.5)
    target = "nbd://198.18.77.2:10977"
    return lab.run(target, "randread,size=64M,depth=4,bs=64K", "--destroy=" + target)


LEAK = "import time\nkept=[]\nwhile True:\n  kept.append(bytearray(b'x')*(4<<20)); time.sleep(0.5)\n"


def memory_growth(lab):
    sh(lab.plimsoll, "stack", "up", "nbd", env=lab.env)
    lab.undo.callback(
        subprocess.run, [lab.plimsoll, "stack", "down", "nbd"], env=lab.env, check=False,
        capture_output=True,
    )
    mark = None
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            with open(f"/proc/{process}/cmdline", "rb") as file:
                name = file.read().split(b"\0")[0]
            of = variables.get(b"PLIMSOLL_MARK_OF", b"").decode()
            if b"PLIMSOLL_MARK" in variables and name.endswith(b"nbdkit") and lab.dir in of:
                mark = variables[b"PLIMSOLL_MARK"].decode()
    if mark is None:
        raise RuntimeError("the server of the stack was not found")
    lab.spawn(sys.executable, "-c", LEAK, env=dict(lab.env, PLIMSOLL_MARK=mark))
    return lab.run("nbd", "randread,size=64M,depth=4")


CAUSES = {
    "clean": clean,
    "burst_credit": burst_credit,
    "page_cache": page_cache,
    "other_programs": other_programs,
    "slow_disk": slow_disk,
    "memory_growth": memory_growth,
    "slow_link": slow_link,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plimsoll")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--only", default=",".join(CAUSES))
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    plimsoll = os.path.abspath(args.plimsoll)
    rows = []
    for turn in range(args.repeat):
        for cause in args.only.split(","):
            lab = Lab(plimsoll, args.seconds)
            row = {"cause": cause, "turn": turn}
            try:
                with lab.undo:
                    named, busy = CAUSES[cause](lab)
                is_busy = busy >= BUSY
                others = [c for c, _ in named if is_busy and c in NEIGHBOURS and c != cause]
                told = [c for c, _ in named if c not in others]
                right = not told if cause == "clean" else told[:1] == [cause]
                row.update(right=right, named=named, set_aside=others, others_cpu=round(busy, 2))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                row["failed"] = (str(error) + str(getattr(error, "stderr", "") or ""))[-800:]
            rows.append(row)
            print(json.dumps(row), flush=True)
    for cause in args.only.split(","):
        of = [row for row in rows if row["cause"] == cause and "failed" not in row]
        right = sum(row["right"] for row in of)
        print(f"{cause}: {right} of {len(of)} right")
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

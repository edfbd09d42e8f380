#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants causes on this machine and counts how often `plimsoll report --json` names them first.

Twenty causes that hold a result down (CAUSES), and runs with none (CLEAN); each function below says how
it is set up: filters of nbdkit, a disk of `nbd_law.py`, limits of control groups (version 1), mount
options, a neighbour on the same disk, a link of our own namespace.

    bench/explain_causes.py PLIMSOLL [--repeat 3] [--only CAUSE,...] [-o results.json]

Needs root, nbdkit, nbdfuse, ext4, btrfs, ip, tc, losetup. Everything is made in a directory, groups and
a namespace whose names carry MARK and the number of this process; it is removed at the end, also after
SIGINT and SIGTERM, and what an end without warning left is removed by the next start. A run counts as
right when the planted cause is the first that is named, as half when it is named at all, and as wrong
when something is named first that was not there. What a busy machine does to any run (NEIGHBOURS) is set
aside, and counted, where this script itself saw the processors busy.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MARK = "plimsoll-explain-"
GROUPS = "/sys/fs/cgroup"
LAW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nbd_law.py")

# Effects of a busy machine on any run.
NEIGHBOURS = {"other_programs", "stolen_processor", "generator_late", "client_processor"}
# Causes listed in the section and not beside the answer.
IN_SECTION_ONLY = {"data_set_in_memory", "servers_uneven", "thread_starved", "network_bytes"}
# Share of the processors that others (this script's own helpers included) used.
BUSY = 0.25


def sh(*argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout


def cpu_ticks():
    with open("/proc/stat", encoding="ascii") as stat:
        return [int(word) for word in stat.readline().split()[1:]]


class Lab:
    def __init__(self, plimsoll, seconds, keep=None):
        self.plimsoll, self.seconds, self.keep = plimsoll, seconds, keep
        self.dir = tempfile.mkdtemp(prefix=f"{MARK}{os.getpid()}-", dir="/var/tmp")
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
                "--no-self-test", "--no-record", "-o", folder, *more]
        first = cpu_ticks()
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
        last = cpu_ticks()
        if done.returncode not in (0, 10):
            raise RuntimeError(f"{' '.join(argv)}: {done.returncode}: {done.stderr[-600:]}")
        report = json.loads(
            sh(self.plimsoll, "report", folder, "--json", env=self.env)
        )
        if self.keep:
            shutil.copytree(folder, self.keep, dirs_exist_ok=True)
        named = [one for arm in report["explanations"] for one in arm["found"]]
        spent = [b - a for a, b in zip(first, last)]
        all_ticks = sum(spent[:8])
        load = sum(t["generator"]["user_cpu_ns"] + t["generator"]["system_cpu_ns"]
                   for t in report["trials"]) / 1e9 * os.sysconf("SC_CLK_TCK")
        busy = (sum(spent[:3]) + spent[5] + spent[6] + spent[7] - load) / max(all_ticks, 1)
        return [(one["cause"], one.get("about", "")) for one in named], busy


def nbd_file(lab, name, *filters_and_params, size="256M"):
    """A disk of nbdkit as a loop device."""
    filters = [p for p in filters_and_params if p.startswith("--")]
    params = [p for p in filters_and_params if not p.startswith("--")]
    socket = lab.path(f"{name}.sock")
    lab.spawn("nbdkit", "-f", "-U", socket, *filters, "memory", size, *params)
    return looped(lab, name, socket)


def law(lab, name, *options, size=512 << 20):
    """A disk of nbd_law.py as a loop device."""
    socket = lab.path(f"{name}.sock")
    # On a busy machine its times would be those of the scheduler.
    lab.spawn("nice", "-n", "-15", sys.executable, LAW, socket, str(size), *options)
    return looped(lab, name, socket)


def looped(lab, name, socket):
    mount = lab.path(f"{name}.nbd")
    wait_for(lambda: os.path.exists(socket))
    open(mount, "w", encoding="ascii").close()
    lab.spawn("nice", "-n", "-15", "nbdfuse", mount, f"nbd+unix:///?socket={socket}")
    lab.undo.callback(subprocess.run, ["umount", "-l", mount], check=False, capture_output=True)
    wait_for(lambda: os.path.getsize(mount) > 0)
    device = sh("losetup", "--find", "--show", "--direct-io=on", mount).strip()
    lab.undo.callback(subprocess.run, ["losetup", "-d", device], check=False, capture_output=True)
    return device


def mounted(lab, name, device, *options, make=()):
    """A new ext4 on a device."""
    mount = lab.path(name)
    os.makedirs(mount)
    sh("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", *make, device)
    sh("mount", "-o", ",".join(options) or "defaults", device, mount)
    lab.undo.callback(subprocess.run, ["umount", mount], check=False, capture_output=True)
    return mount


def group(lab, controller, **settings):
    """A control group with these limits; what starts a program in it."""
    path = os.path.join(GROUPS, controller, f"{MARK}{os.getpid()}")
    os.makedirs(path, exist_ok=True)

    def end():
        # What was in it has ended; the kernel may need a moment to see it.
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(path)
                return
            time.sleep(0.1)

    lab.undo.callback(end)
    for name, value in settings.items():
        with open(os.path.join(path, name.replace("__", ".")), "w", encoding="ascii") as file:
            file.write(value)
    return ("sh", "-c", f'echo $$ > {path}/cgroup.procs; exec "$@"', "sh")


def number(device):
    about = os.stat(device)
    return f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"


def job(lab, name, **options):
    """A fio job as a workload."""
    path = lab.path(f"{name}.fio")
    lines = [f"[{name}]", *(f"{key}={value}" for key, value in options.items())]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    return path


def wait_for(is_so, limit=20.0):
    until = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("it did not come up")
        time.sleep(0.05)


def destroy(device):
    return ("--destroy=" + device,)


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


def slowed_processor(lab):
    device = nbd_file(lab, "quota")
    prefix = group(lab, "cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="2000")
    return lab.run(device, READS, *destroy(device), prefix=prefix)


STORM = """import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
while True:
    os.pwrite(file, b"x" * 65536, 0)
    os.fsync(file)
"""


def fsync_storm(lab):
    device = nbd_file(lab, "storm", "--filter=delay", "rdelay=1ms", "wdelay=5ms")
    mount = mounted(lab, "shared", device)
    for writer in range(8):
        lab.spawn(sys.executable, "-c", STORM, os.path.join(mount, f"other{writer}"))
    return lab.run(mount, READS)


def device_queue(lab):
    device = nbd_file(lab, "queue", "--filter=delay", "rdelay=2ms")
    setting = f"/sys/block/{os.path.basename(device)}/queue/nr_requests"

    def put(value):
        with open(setting, "w", encoding="ascii") as file:
            file.write(value)

    with open(setting, encoding="ascii") as file:
        # A loop device keeps its settings for who comes next.
        lab.undo.callback(put, file.read().strip())
    put("4")
    return lab.run(device, "randread,size=64M,depth=32", *destroy(device))


def group_ops_limit(lab):
    device = nbd_file(lab, "ops")
    prefix = group(lab, "blkio", blkio__throttle__read_iops_device=f"{number(device)} 200")
    return lab.run(device, READS, *destroy(device), prefix=prefix)


def group_bytes_limit(lab):
    device = nbd_file(lab, "bytes")
    limit = f"{number(device)} {2 << 20}"
    prefix = group(lab, "blkio", blkio__throttle__write_bps_device=limit)
    return lab.run(device, "seqwrite,size=64M,bs=64K,depth=4", *destroy(device), prefix=prefix)


def memory_limit(lab):
    # Twice what the group may keep, read again and again.
    device = nbd_file(lab, "memory", size="1536M")
    mount = mounted(lab, "limited", device)
    prefix = group(lab, "memory", memory__limit_in_bytes="160M")
    return lab.run(mount, "seqread,size=320M,bs=256K,direct=off,depth=2", prefix=prefix)


def discards(lab):
    device = nbd_file(lab, "discards", "--filter=delay", "delay-trim=20ms", "delay-zero=20ms")
    mount = mounted(lab, "trimmed", device, "discard")
    return lab.run(mount, "varmail,nfiles=300,nthreads=2")


def journaled_data(lab):
    device = nbd_file(lab, "journal", "--filter=delay", "wdelay=2ms", size="1G")
    mount = mounted(lab, "journaled", device, "data=journal")
    writes = job(lab, "writes", rw="randwrite", bs="64k", size="64m", fsync="1", numjobs="2")
    return lab.run(mount, writes)


def full_file_system(lab):
    device = nbd_file(lab, "full", size="2G")
    mount = mounted(lab, "filled", device, make=("-m", "0", "-N", "8192"))
    free = os.statvfs(mount)
    fill = free.f_bavail * free.f_frsize - (90 << 20)
    sh("fallocate", "-l", str(fill), os.path.join(mount, "filling"))
    return lab.run(mount, "varmail,nfiles=300,nthreads=2")


def pauses(lab):
    device = law(lab, "pauses", "--pause", "5:300")
    return lab.run(device, READS, *destroy(device))


def stalls(lab):
    device = law(lab, "stalls", "--stall", "0.01:60")
    return lab.run(device, READS, *destroy(device))


def single_server(lab):
    device = law(lab, "single", "--servers", "1", "--mean-ms", "5")
    reads = job(lab, "reads", rw="randread", bs="4k", size="64m", direct="1", iodepth="64",
                rate_iops="130", rate_process="poisson", ioengine="io_uring")
    return lab.run(mounted(lab, "single", device), reads, blocks=3)


def drift(lab):
    device = law(lab, "drift", "--mean-ms", "4", "--drift", "0.8")
    return lab.run(device, READS, *destroy(device), blocks=5)


def sync_mount(lab):
    device = nbd_file(lab, "sync", "--filter=delay", "wdelay=2ms", size="1G")
    mount = mounted(lab, "synced", device, "sync")
    writes = job(lab, "writes", rw="randwrite", bs="4k", size="64m", numjobs="2")
    return lab.run(mount, writes)


READER = """import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
import mmap
page = mmap.mmap(-1, 65536)
while True:
    os.preadv(file, [page], random.randrange(1024) * 65536)
"""


def neighbour_reads(lab):
    device = nbd_file(lab, "read", "--filter=delay", "rdelay=2ms")
    for _ in range(4):
        lab.spawn(sys.executable, "-c", READER, device)
    return lab.run(device, READS, *destroy(device))


def rate_limit(lab):
    device = nbd_file(lab, "rate", "--filter=rate", "rate=8M", "burstiness=0.25")
    return lab.run(device, READS, *destroy(device))


def clean_law(lab):
    device = law(lab, "clean")
    return lab.run(device, READS, *destroy(device))


def clean_delay(lab):
    device = nbd_file(lab, "clean", "--filter=delay", "rdelay=3ms")
    return lab.run(device, "randread,size=64M,depth=8", *destroy(device))


def clean_writes(lab):
    device = nbd_file(lab, "clean", "--filter=delay", "wdelay=1ms", size="1G")
    mount = mounted(lab, "clean", device)
    writes = job(lab, "writes", rw="randwrite", bs="16k", size="64m", fsync="1", numjobs="2")
    return lab.run(mount, writes)


def clean_open(lab):
    device = law(lab, "clean", "--mean-ms", "4")
    reads = job(lab, "reads", rw="randread", bs="4k", size="64m", direct="1", iodepth="64",
                rate_iops="250", rate_process="poisson", ioengine="io_uring")
    return lab.run(mounted(lab, "clean", device), reads)


def clean_files(lab):
    device = nbd_file(lab, "clean")
    return lab.run(mounted(lab, "clean", device), "varmail,nfiles=300,nthreads=2")


def clean_disk(lab):
    target = lab.path("disk")
    os.makedirs(target)
    return lab.run(target, "randread,size=64M,depth=4")


READS = "randread,size=64M,depth=4"

# How each is set up, and the name that is right.
CAUSES = {
    "slowed_processor": (slowed_processor, "slowed_processor"),
    "fsync_storm": (fsync_storm, "other_io"),
    "device_queue": (device_queue, "device_queue"),
    "group_ops_limit": (group_ops_limit, "io_limit"),
    "memory_limit": (memory_limit, "memory_limit"),
    "discards": (discards, "discards"),
    "journaled_data": (journaled_data, "journaled_data"),
    "full_file_system": (full_file_system, "full_file_system"),
    "pauses": (pauses, "pauses"),
    "stalls": (stalls, "stalls"),
    "single_server": (single_server, "single_server"),
    "drift": (drift, "drift"),
    "sync_mount": (sync_mount, "sync_mount"),
    "neighbour_reads": (neighbour_reads, "other_io"),
    "rate_limit": (rate_limit, "rate_limit"),
    "group_bytes_limit": (group_bytes_limit, "io_limit"),
    "burst_credit": (burst_credit, "burst_credit"),
    "slow_disk": (slow_disk, "slow_disk"),
    "slow_link": (slow_link, "slow_link"),
    "page_cache": (page_cache, "page_cache"),
}
CLEAN = {
    "clean_law": clean_law,
    "clean_delay": clean_delay,
    "clean_writes": clean_writes,
    "clean_open": clean_open,
    "clean_files": clean_files,
    "clean_disk": clean_disk,
}
# Not of the twenty: what any busy machine shows, and what limits nothing yet.
MORE = {
    "other_programs": (other_programs, "other_programs"),
    "memory_growth": (memory_growth, "memory_growth"),
}
ALL = CAUSES | {name: (make, None) for name, make in CLEAN.items()} | MORE


def sweep():
    """Removes what runs of this script left that ended without warning."""

    def is_left(name):
        maker = name.removeprefix(MARK).split("-")[0]
        return name.startswith(MARK) and not os.path.exists(f"/proc/{maker}")

    left = [os.path.join("/var/tmp", name) for name in os.listdir("/var/tmp") if is_left(name)]
    for directory in left:
        for line in reversed(open("/proc/self/mounts", encoding="utf-8").readlines()):
            if line.split()[1].startswith(directory):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
        for line in sh("losetup", "--list", "--noheadings", "-O", "NAME,BACK-FILE").splitlines():
            if directory in line:
                subprocess.run(["losetup", "-d", line.split()[0]], check=False)
        shutil.rmtree(directory, ignore_errors=True)
    for controller in ("cpu", "blkio", "memory"):
        base = os.path.join(GROUPS, controller)
        for name in filter(is_left, os.listdir(base) if os.path.isdir(base) else []):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(base, name))


def judged(name, named, is_busy):
    """Whether the answer is right: `right`, `half`, `unnamed` or `wrong`, and what was set aside."""
    expected = ALL[name][1]
    named = [one for one in named if one[0] not in IN_SECTION_ONLY]
    aside = [c for c, _ in named if is_busy and c in NEIGHBOURS and c != expected]
    told = [c for c, _ in named if c not in aside]
    if expected is None:
        return ("wrong" if told else "right"), aside
    if named and named[0][0] == expected:
        return "right", aside
    if expected in told:
        return "half", aside
    return ("wrong" if told else "unnamed"), aside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plimsoll")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--only", default=",".join([*CAUSES, *CLEAN]))
    parser.add_argument("--keep", metavar="DIR", help="keep the run folders in it")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sweep()
    plimsoll = os.path.abspath(args.plimsoll)
    rows = []
    for turn in range(args.repeat):
        for cause in args.only.split(","):
            keep = args.keep and os.path.join(args.keep, f"{cause}-{turn}")
            lab = Lab(plimsoll, args.seconds, keep)
            row = {"cause": cause, "turn": turn}
            try:
                with lab.undo:
                    named, busy = ALL[cause][0](lab)
                answer, aside = judged(cause, named, busy >= BUSY)
                row.update(answer=answer, named=named, set_aside=aside, others_cpu=round(busy, 2))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                row["failed"] = (str(error) + str(getattr(error, "stderr", "") or ""))[-800:]
            rows.append(row)
            print(json.dumps(row), flush=True)
    for kind, causes in (("planted", [*CAUSES, *MORE]), ("clean", CLEAN)):
        of = [row for row in rows if row["cause"] in causes and "failed" not in row]
        counts = {a: sum(r["answer"] == a for r in of)
                  for a in ("right", "half", "unnamed", "wrong")}
        print(f"{kind}: {len(of)} runs: {counts}")
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

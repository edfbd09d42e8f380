#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The closing circle: a load is recorded by another program, fitted, played, and recorded again by it.

    bench/closing_circle.py --plimsoll PROGRAM --work DIRECTORY [--seconds 60] [--only NAME] > circle.csv

Three loads on an ext4 file system of its own (a loop device below DIRECTORY), each with a recorder that is
no part of plimsoll:

    iostat      reads and bursts of writes by fio, recorded by `iostat -xty 1`
    prometheus  pgbench on PostgreSQL, recorded by node_exporter and Prometheus (every second)
    perf        files that are copied, read and removed, recorded by perf's block tracepoints, each request

All figures are computed here from what the recorder wrote, of the load and of its play; plimsoll only fits
and plays. Needs root, fio, sysstat, PostgreSQL, Prometheus, node_exporter and perf. Everything that is
started is ended by its number; the device and the mount are removed.
"""

import argparse
import collections
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

TREE = "/usr/share"


def run(*command, **more):
    """Its standard output."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


@contextlib.contextmanager
def started(*command, **more):
    child = subprocess.Popen(command, start_new_session=True, **more)
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
        child.wait()


@contextlib.contextmanager
def ground(work):
    """A file system on a loop device, and the name of that device."""
    image, mount = work / "disk.img", work / "mount"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(6 << 30)
    loop = run("losetup", "--find", "--show", str(image)).strip()
    try:
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
        run("mount", loop, str(mount))
        try:
            yield mount, loop.removeprefix("/dev/")
        finally:
            run("umount", str(mount))
    finally:
        run("losetup", "-d", loop)
        image.unlink()


# Loads: each goes on until it is left.


def forget(folder):
    """Takes the files of a folder out of the page cache, so that they are read from the device again."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                file = os.open(os.path.join(parent, name), os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)


@contextlib.contextmanager
def repeated(work, pause):
    """Does something again and again in a thread."""
    ended = threading.Event()

    def turns():
        while not ended.wait(pause):
            work()

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def by_fio(mount, _work):
    common = ["fio", "--time_based", "--runtime=1h", "--direct=1", "--ioengine=psync", "--size=512M"]
    reads = ["--name=r", "--rw=randread", "--bs=8k", "--rate_iops=60"]
    writes = ["--name=w", "--rw=write", "--bs=16k", "--rate_iops=400"]
    writes += ["--thinktime=2s", "--thinktime_blocks=400"]
    run(*common[:1], "--name=r", "--rw=write", "--bs=1M", "--size=512M", f"--directory={mount}")
    quiet = {"stdout": subprocess.DEVNULL}
    with started(*common, *reads, f"--directory={mount}", **quiet):
        with started(*common, *writes, f"--directory={mount}", **quiet):
            time.sleep(3)
            yield


@contextlib.contextmanager
def by_pgbench(mount, _work):
    data, bins = mount / "pg", run("pg_config", "--bindir").strip()
    data.mkdir()
    shutil.chown(data, "postgres")
    user = ["runuser", "-u", "postgres", "--"]
    run(*user, f"{bins}/initdb", "-D", str(data))
    options = f"-c listen_addresses= -c unix_socket_directories={data} -c shared_buffers=16MB"
    options += " -c checkpoint_timeout=30s"
    run(*user, f"{bins}/pg_ctl", "-D", str(data), "-w", "-l", f"{data}/log", "-o", options, "start")
    try:
        to = ["-h", str(data), "postgres"]
        run(*user, f"{bins}/pgbench", "-i", "-q", "-s", "20", *to)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with started(*user, f"{bins}/pgbench", "-c", "4", "-R", "60", "-T", "3600", *to, **quiet):
            with repeated(lambda: forget(data / "base"), 0.5):
                time.sleep(5)
                yield
    finally:
        run(*user, f"{bins}/pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(data)


@contextlib.contextmanager
def by_copies(mount, _work):
    tree = mount / "tree"

    def turn():
        run("cp", "-a", f"{TREE}/doc", str(tree))
        run("sync", "-f", str(mount))
        forget(tree)
        # tar reads nothing for /dev/null itself.
        run("bash", "-c", f"tar cf - -C {mount} tree | cat > /dev/null")
        shutil.rmtree(tree)

    with repeated(turn, 1):
        time.sleep(3)
        yield


# Recorders: each has `begin` and `end`, between which it records; `file`, which plimsoll reads; `clock`, by
# which it tells times; and `seconds`, of its own output: the end of each second, and what was counted in it
# (reads, bytes read, writes, bytes written).


class Iostat:
    clock = staticmethod(time.time)

    def __init__(self, work, device, name):
        self.file, self.device = work / f"{name}.txt", device

    def begin(self):
        self.begun = self.clock()
        with open(self.file, "w") as output:
            environment = dict(os.environ, LC_ALL="C", S_TIME_FORMAT="ISO")
            command = ["iostat", "-xty", self.device, "1"]
            self.child = subprocess.Popen(command, stdout=output, env=environment, start_new_session=True)

    def end(self):
        os.killpg(self.child.pid, signal.SIGINT)
        self.child.wait()

    def seconds(self):
        names, rows = None, []
        for line in self.file.read_text().splitlines():
            words = line.split()
            if words[:1] == ["Device"]:
                names = words
            elif words[:1] == [self.device]:
                row = dict(zip(names[1:], map(float, words[1:])))
                counts = (row["r/s"], row["rkB/s"] * 1024, row["w/s"], row["wkB/s"] * 1024)
                rows.append((self.begun + len(rows) + 1, counts))
        return rows


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    clock = staticmethod(time.time)
    NAMES = ["reads_completed", "read_bytes", "writes_completed", "written_bytes"]

    def __init__(self, work, device, name):
        self.file, self.device, self.folder = work / f"{name}.json", device, work / f"{name}.prometheus"

    def begin(self):
        self.folder.mkdir()
        exporter, self.port = free_port(), free_port()
        config = self.folder / "config.yml"
        target = f"    static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]\n"
        every = "    scrape_interval: 1s\n    scrape_timeout: 1s\n"
        config.write_text(f"scrape_configs:\n  - job_name: node\n{every}{target}")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.children = [
            subprocess.Popen(command, **quiet)
            for command in (
                [
                    "prometheus-node-exporter",
                    "--collector.disable-defaults",
                    "--collector.diskstats",
                    "--collector.diskstats.device-exclude=^ram",
                    f"--web.listen-address=127.0.0.1:{exporter}",
                ],
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
            )
        ]
        # The first scrape.
        while not self.asked()["data"]["result"]:
            time.sleep(0.1)
        self.begun = time.time()

    def asked(self):
        span = f"[{int(time.time() - getattr(self, 'begun', time.time())) + 1}s]"
        query = f'{{__name__=~"node_disk_.*",device="{self.device}"}}{span}'
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            return json.load(urllib.request.urlopen(url))
        except OSError:
            return {"data": {"result": []}}

    def end(self):
        self.file.write_text(json.dumps(self.asked()))
        for child in self.children:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()

    def seconds(self):
        series = {}
        for one in json.loads(self.file.read_text())["data"]["result"]:
            name = one["metric"]["__name__"].removeprefix("node_disk_").removesuffix("_total")
            series[name] = [(float(at), float(value)) for at, value in one["values"]]
        columns = []
        for name in self.NAMES:
            samples = series[name]
            columns.append([b[1] - a[1] for a, b in zip(samples, samples[1:])])
        return list(zip([at for at, _ in series[self.NAMES[0]][1:]], zip(*columns)))


Request = collections.namedtuple("Request", "at read offset bytes")


class Perf:
    """What is given to the block layer, before it merges neighbours, which a late play has more of."""

    clock = staticmethod(time.monotonic)

    def __init__(self, work, device, name):
        self.file, self.raw = work / f"{name}.csv", work / f"{name}.perf"
        major, minor = map(int, pathlib.Path(f"/sys/block/{device}/dev").read_text().split(":"))
        self.filter, self.mark = f"dev == {major << 20 | minor}", f" {major},{minor} "

    def begin(self):
        events = ["-e", "block:block_bio_queue", "--filter", self.filter]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = ["perf", "record", "-k", "CLOCK_MONOTONIC", "-o", str(self.raw), "-a", *events]
        self.child = subprocess.Popen(command, start_new_session=True, **quiet)
        time.sleep(2)

    def end(self):
        os.killpg(self.child.pid, signal.SIGINT)
        self.child.wait()
        fields = ["-F", "time,event,trace"]
        text = run("perf", "script", "-i", str(self.raw), *fields, stderr=subprocess.DEVNULL)
        self.requests = sorted(filter(None, map(self.request, text.splitlines())))
        with open(self.file, "w") as file:
            for one in self.requests:
                # As the traces of SPC, whose blocks have 512 bytes here.
                kind = "R" if one.read else "W"
                file.write(f"0,{one.offset // 512},{one.bytes},{kind},{one.at:.6f}\n")

    def request(self, line):
        if self.mark not in line:
            return None
        stamp, _, rest = line.split(None, 2)
        words = rest.split()
        flags, plus = words[1], words.index("+")
        sector, sectors = int(words[plus - 1]), int(words[plus + 1])
        if sectors == 0 or "D" in flags:
            return None
        return Request(float(stamp.rstrip(":")), "R" in flags, sector * 512, sectors * 512)

    def seconds(self):
        first = self.requests[0].at
        rows = [[0, 0, 0, 0] for _ in range(int(self.requests[-1].at - first) + 1)]
        for one in self.requests:
            row, place = rows[int(one.at - first)], 0 if one.read else 2
            row[place] += 1
            row[place + 1] += one.bytes
        return [(first + n + 1, row) for n, row in enumerate(rows)]


# Figures of seconds and requests.


def dispersion(counts):
    mean = statistics.fmean(counts)
    return statistics.pvariance(counts) / mean if mean else 0.0


def grouped(counts, size):
    return [sum(counts[i : i + size]) for i in range(0, len(counts) - size + 1, size)]


def of_seconds(rows):
    reads, read_bytes, writes, written = (list(column) for column in zip(*rows))
    n = len(rows)
    both = [r + w for r, w in zip(reads, writes)]
    return {
        "reads/s": sum(reads) / n,
        "writes/s": sum(writes) / n,
        "read KiB/s": sum(read_bytes) / n / 1024,
        "written KiB/s": sum(written) / n / 1024,
        "read share": sum(reads) / max(sum(both), 1),
        "mean read, KiB": sum(read_bytes) / max(sum(reads), 1) / 1024,
        "mean write, KiB": sum(written) / max(sum(writes), 1) / 1024,
        "95th percentile of operations/s": sorted(both)[int(0.95 * (n - 1))],
        "dispersion, 1 s": dispersion(both),
        "dispersion, 5 s": dispersion(grouped(both, 5)),
    }


def of_requests(requests):
    zones, ends, following = collections.Counter(), {True: None, False: None}, 0
    tenths = collections.Counter(int(one.at * 10) for one in requests)
    for one in requests:
        zones[one.offset >> 20] += 1
        following += one.offset == ends[one.read]
        ends[one.read] = one.offset + one.bytes
    hottest = sorted(zones.values(), reverse=True)
    first, last = int(requests[0].at * 10), int(requests[-1].at * 10)
    return {
        "sequential share": following / len(requests),
        "share of the hottest tenth of zones": sum(hottest[: max(len(hottest) // 10, 1)]) / len(requests),
        "dispersion, 0.1 s": dispersion([tenths[i] for i in range(first, last + 1)]),
    }


def sizes_apart(some, others):
    """Total variation between the mixes of kinds and sizes."""
    shares = []
    for requests in (some, others):
        counts = collections.Counter((one.read, one.bytes) for one in requests)
        shares.append({key: count / len(requests) for key, count in counts.items()})
    keys = shares[0].keys() | shares[1].keys()
    return sum(abs(shares[0].get(key, 0) - shares[1].get(key, 0)) for key in keys) / 2


CIRCLES = {"iostat": (by_fio, Iostat), "prometheus": (by_pgbench, Prometheus), "perf": (by_copies, Perf)}


def played(args, work, model, mount, recorder):
    """Plays a model while it is recorded; when the play begins, by the recorder's clock."""
    recorder.begin()
    folder = work / "run"
    environment = dict(os.environ, PLIMSOLL_STATE=str(work / "state"), NO_COLOR="1")
    command = [args.plimsoll, "run", str(model), str(mount), "--full-replay", "--force-model"]
    command += ["--no-record", "-o", str(folder)]
    with open(work / "run.log", "w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        events = folder / "events.jsonl"
        while child.poll() is None and not (events.exists() and '"interval":{"place"' in events.read_text()):
            time.sleep(0.02)
        # The first second has ended.
        begun = recorder.clock() - 1
        child.wait()
    recorder.end()
    log = (work / "run.log").read_text()
    # A missed gate is told by 14.
    assert child.returncode in (0, 14), log
    told = [line for line in log.splitlines() if "ept up" in line or line.startswith("!")]
    print(*told, sep="\n", file=sys.stderr)
    shutil.rmtree(folder)
    return begun


def circle(args, name, out):
    load, recorder = CIRCLES[name]
    work = pathlib.Path(args.work) / name
    work.mkdir(parents=True)
    with ground(work) as (mount, device):
        one, two = (recorder(work, device, which) for which in ("load", "play"))
        with load(mount, work):
            one.begin()
            time.sleep(args.seconds)
            one.end()
        subprocess.run(["find", str(mount), "-mindepth", "1", "-delete"], check=False)
        run("sync", "-f", str(mount))
        model = work / "model.toml"
        # Of requests the times between them, too.
        how = ["--exact"] if name == "perf" else ["--disk", device]
        fitted = subprocess.run(
            [args.plimsoll, "fit", str(one.file), *how, "-o", str(model)], capture_output=True, text=True
        )
        assert fitted.returncode in (0, 14), fitted.stderr
        begun = played(args, work, model, mount, two)
        end = begun + args.seconds
        rows = [row for _, row in one.seconds()]
        play = [row for at, row in two.seconds() if begun < at <= end]
        figures = [of_seconds(rows), of_seconds(play)]
        if name == "perf":
            two.requests = [one for one in two.requests if begun <= one.at < end]
            for figure, recorded in zip(figures, (one, two)):
                figure.update(of_requests(recorded.requests))
        for metric, of_load in figures[0].items():
            of_play = figures[1][metric]
            error = f"{(of_play - of_load) / of_load * 100:+.2f}" if of_load else ""
            out.writerow([name, metric, f"{of_load:.6g}", f"{of_play:.6g}", error])
        if name == "perf":
            apart = sizes_apart(one.requests, two.requests)
            out.writerow([name, "kinds and sizes, total variation", 0, f"{apart:.4f}", ""])
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", required=True)
    parser.add_argument("--work", required=True, help="a folder that does not exist")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", choices=CIRCLES)
    args = parser.parse_args()
    args.plimsoll = os.path.abspath(args.plimsoll)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["recorder", "metric", "load", "play", "error %"])
    for name in [args.only] if args.only else CIRCLES:
        circle(args, name, out)


main()

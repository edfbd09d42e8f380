# SPDX-License-Identifier: Apache-2.0
"""Holds `plimsoll fit-for` against etcd and PostgreSQL on disks of known delay.

fit_for.py PLIMSOLL OUTPUT.csv [--delays MS,...] [--only etcd|pg] [--jobs N] [--for TIME] [--budget TIME]
           [--fs ext4]

As root, on Debian. Each disk is memory behind nbdkit that answers every read and write after so many
milliseconds; nbdfuse shows it as a file, a loop device makes a disk of it, which is mounted in a directory of
this program. On each disk run, one after the other:

* etcd (Debian's package, unpacked and not installed): 50 puts a second through its own interface. Its metric
  etcd_disk_wal_fsync_duration_seconds and its warnings of slow syncs are read.
* pg_test_fsync, and PostgreSQL with pgbench at 100 commits a second, the log on the disk.
* plimsoll fit-for etcd, and plimsoll fit-for postgres-wal.

Everything that is made here is removed in the end, also after Ctrl-C.
"""

import argparse
import base64
import concurrent.futures
import csv
import glob
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MS = [0.0, 0.5, 1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 8.5, 9.0,
      9.5, 10.0, 11.0, 12.0, 16.0, 25.0, 40.0]
PUTS_PER_S, PUT_SECONDS = 50, 12
COMMITS_PER_S, COMMIT_SECONDS = 100, 10
LIMIT_MS = 10.0
DISK_BYTES = 512 << 20
POSTGRES = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]

PLUGIN = r"""
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <errno.h>

static char *disk;
static int64_t size;
static int64_t delay_ns;

static void wait_for_it (void) {
  struct timespec rest = { delay_ns / 1000000000, delay_ns % 1000000000 };
  while (delay_ns > 0 && nanosleep (&rest, &rest) == -1 && errno == EINTR) { }
}
static int config (const char *key, const char *value) {
  if (strcmp (key, "size") == 0) size = atoll (value);
  else if (strcmp (key, "delay_ns") == 0) delay_ns = atoll (value);
  else { nbdkit_error ("unknown parameter %s", key); return -1; }
  return 0;
}
static int get_ready (void) { disk = calloc (1, size); return disk ? 0 : -1; }
static void *begin (int readonly) { return NBDKIT_HANDLE_NOT_NEEDED; }
static int64_t get_size (void *h) { return size; }
static int can_multi_conn (void *h) { return 1; }
static int pread_ (void *h, void *buf, uint32_t n, uint64_t at, uint32_t flags) {
  wait_for_it (); memcpy (buf, disk + at, n); return 0;
}
static int pwrite_ (void *h, const void *buf, uint32_t n, uint64_t at, uint32_t flags) {
  wait_for_it (); memcpy (disk + at, buf, n); return 0;
}
static int flush (void *h, uint32_t flags) { return 0; }
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
static struct nbdkit_plugin plugin = {
  .name = "delayed", .config = config, .get_ready = get_ready, .open = begin, .get_size = get_size,
  .can_multi_conn = can_multi_conn, .pread = pread_, .pwrite = pwrite_, .flush = flush,
};
NBDKIT_REGISTER_PLUGIN (plugin)
"""

FIELDS = ("delay_ms fs load_1m etcd_syncs etcd_mean_ms etcd_p99_ms etcd_bucket_low_ms etcd_bucket_high_ms "
          "etcd_warnings etcd_side fit_etcd fit_etcd_low fit_etcd_point fit_etcd_high fit_etcd_seconds "
          "pg_test_fsync_ms pgbench_p99_ms pgbench_tps pg_side pgbench_side fit_pg fit_pg_low fit_pg_point "
          "fit_pg_high fit_pg_seconds failure").split()


def run(*words, **more):
    """A command that must succeed; what it printed."""
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def until(what, seconds=20.0):
    """Waits for something to be so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.05)
    raise RuntimeError(f"not so within {seconds} s: {what.__name__}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def packages(work):
    """etcd and nbdkit's header from Debian's packages, unpacked below `work`; the plugin, compiled."""
    room = os.path.join(work, "packages")
    os.makedirs(room)
    run("apt-get", "download", "etcd-server", "nbdkit-plugin-dev", cwd=room)
    for package in glob.glob(os.path.join(room, "*.deb")):
        run("dpkg", "-x", package, room)
    source, plugin = os.path.join(work, "delayed.c"), os.path.join(work, "delayed.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(PLUGIN)
    run("gcc", "-O2", "-shared", "-fPIC", "-I", os.path.join(room, "usr/include"), source, "-o", plugin)
    return os.path.join(room, "usr/bin/etcd"), plugin


class Disk:
    """A mounted file system on a disk of known delay. `close` undoes what was done, in any state."""

    def __init__(self, work, name, plugin, delay_ms, fs):
        self.children, self.loop, self.mounted, self.fused = [], None, False, False
        self.room = os.path.join(work, name)
        self.mount, self.file = os.path.join(self.room, "mnt"), os.path.join(self.room, "disk")
        os.makedirs(self.mount)
        try:
            self.make(plugin, delay_ms, fs)
        except BaseException:
            self.close()
            raise

    def make(self, plugin, delay_ms, fs):
        server = os.path.join(self.room, "nbd.sock")
        self.start("nbdkit", "--foreground", "--threads", "16", "--unix", server, plugin,
                   f"size={DISK_BYTES}", f"delay_ns={round(delay_ms * 1e6)}")
        until(lambda: os.path.exists(server))
        open(self.file, "wb").close()
        self.start("nbdfuse", "-C", "4", self.file, "--unix", server)
        self.fused = True
        until(lambda: os.path.getsize(self.file) == DISK_BYTES)
        self.loop = run("losetup", "--find", "--show", "--direct-io=on", self.file).strip()
        make = {"ext4": ["mkfs.ext4", "-q", "-E", "nodiscard,assume_storage_prezeroed=1"],
                "xfs": ["mkfs.xfs", "-q", "-K"]}[fs]
        run(*make, self.loop)
        run("mount", "-o", "nosuid,nodev", self.loop, self.mount)
        self.mounted = True

    def start(self, *words):
        log = open(os.path.join(self.room, f"{os.path.basename(words[0])}.log"), "wb")
        # A session of its own: Ctrl-C must reach the disk after what uses it.
        self.children.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        log.close()

    def close(self):
        if self.mounted:
            for _ in range(50):
                if subprocess.run(["umount", self.mount], capture_output=True, check=False).returncode == 0:
                    self.mounted = False
                    break
                time.sleep(0.2)
        if self.loop:
            subprocess.run(["losetup", "--detach", self.loop], capture_output=True, check=False)
            self.loop = None
        if self.fused:
            for _ in range(50):
                done = subprocess.run(["fusermount3", "-u", self.file], capture_output=True, check=False)
                if done.returncode == 0 or not os.path.ismount(self.file):
                    break
                time.sleep(0.2)
            self.fused = False
        for child in reversed(self.children):
            stop(child)
        self.children = []


def stop(child):
    """Ends a process that was started here."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


# etcd

def sync_buckets(port):
    """Cumulative counts by upper bound in seconds, their sum in seconds, and their number."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    name, buckets, total = "etcd_disk_wal_fsync_duration_seconds", {}, 0.0
    for line in text.splitlines():
        if line.startswith(name + "_bucket"):
            bound, count = line.split('le="')[1].split('"} ')
            buckets[float(bound.replace("+Inf", "inf"))] = float(count)
        elif line.startswith(name + "_sum"):
            total = float(line.split()[1])
    return buckets, total


def quantile(buckets, q):
    """As Prometheus' histogram_quantile: linear inside the bucket. Its value and the bucket's ends."""
    bounds = sorted(buckets)
    wanted, low, before = q * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if bound == float("inf"):
                return low, low, bound
            inside = buckets[bound] - before
            return low + (bound - low) * (wanted - before) / max(inside, 1e-9), low, bound
        low, before = bound, buckets[bound]
    return low, low, float("inf")


def put_all(port):
    """Puts, so many a second; each waits for the one before."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    value = base64.b64encode(os.urandom(2100)).decode()
    begin = time.monotonic()
    done = 0
    while (now := time.monotonic()) < begin + PUT_SECONDS:
        due = begin + done / PUTS_PER_S
        if now < due:
            time.sleep(due - now)
        key = base64.b64encode(f"key{done % 200}".encode()).decode()
        connection.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": value}))
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd: status {answer.status}")
        done += 1
    connection.close()


def etcd(program, disk, row):
    client, peer = free_port(), free_port()
    data, log = os.path.join(disk.mount, "etcd"), os.path.join(disk.room, "etcd.log")
    local = "http://127.0.0.1:"
    with open(log, "wb") as out:
        child = subprocess.Popen(
            [program, "--data-dir", data, "--listen-client-urls", f"{local}{client}",
             "--advertise-client-urls", f"{local}{client}", "--listen-peer-urls", f"{local}{peer}",
             "--initial-advertise-peer-urls", f"{local}{peer}", "--initial-cluster", f"default={local}{peer}"],
            stdout=out, stderr=out, start_new_session=True)
    try:
        def answers():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", client, timeout=5)
                connection.request("GET", "/health")
                return b"true" in connection.getresponse().read()
            except OSError:
                return False
        until(answers, 60.0)
        before, sum_before = sync_buckets(client)
        put_all(client)
        after, sum_after = sync_buckets(client)
    finally:
        stop(child)
    seen = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    count = seen[float("inf")]
    p99, low, high = quantile(seen, 0.99)
    with open(log, encoding="utf-8", errors="replace") as text:
        warnings = sum("slow fdatasync" in line or "took too long" in line or
                       "failed to send out heartbeat" in line for line in text)
    row.update(etcd_syncs=int(count), etcd_mean_ms=round(1e3 * (sum_after - sum_before) / count, 3),
               etcd_p99_ms=round(1e3 * p99, 3), etcd_bucket_low_ms=1e3 * low,
               etcd_bucket_high_ms=1e3 * high, etcd_warnings=warnings,
               etcd_side="fits" if 1e3 * p99 < LIMIT_MS else "does not fit")
    shutil.rmtree(data)


# PostgreSQL

def as_postgres():
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def own(*paths):
    user = pwd.getpwnam("postgres")
    for path in paths:
        os.chown(path, user.pw_uid, user.pw_gid)


def cluster(work):
    """A cluster to be copied: making one takes longer than measuring it."""
    room = os.path.join(work, "cluster")
    os.makedirs(room)
    own(room)
    run(*as_postgres(), f"{POSTGRES[0]}/initdb", "--no-sync", "-A", "trust", "-D", room, cwd="/")
    return room


def test_fsync(disk, row):
    """Only its first rows are waited for: one 8 KiB write, then fdatasync."""
    child = subprocess.Popen([f"{POSTGRES[0]}/pg_test_fsync", "-s", "3", "-f",
                              os.path.join(disk.mount, "pg_test_fsync.out")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
    try:
        for line in child.stdout:
            words = line.split()
            if words[:1] == ["fdatasync"] and "ops/sec" in words:
                row["pg_test_fsync_ms"] = float(words[words.index("usecs/op") - 1]) / 1e3
                row["pg_side"] = "fits" if row["pg_test_fsync_ms"] < LIMIT_MS else "does not fit"
                break
    finally:
        stop(child)
        child.stdout.close()
    out = os.path.join(disk.mount, "pg_test_fsync.out")
    if os.path.exists(out):
        os.remove(out)


def pgbench(template, disk, row):
    # Of root's directories nothing may belong to others: plimsoll would refuse to measure in them.
    mine, base_of_wal = os.path.join(disk.room, "pg"), os.path.join(disk.mount, "pg")
    os.makedirs(mine)
    os.makedirs(base_of_wal)
    own(mine, base_of_wal)
    room, wal = os.path.join(mine, "data"), os.path.join(base_of_wal, "wal")
    run("cp", "-a", template, room)
    run("cp", "-a", os.path.join(room, "pg_wal"), wal)
    shutil.rmtree(os.path.join(room, "pg_wal"))
    os.symlink(wal, os.path.join(room, "pg_wal"))
    port = free_port()
    script = os.path.join(disk.room, "commit.sql")
    with open(script, "w", encoding="utf-8") as text:
        text.write("INSERT INTO t VALUES (1);\n")
    child = subprocess.Popen(
        [*as_postgres(), f"{POSTGRES[0]}/postgres", "-D", room, "-p", str(port), "-k", mine,
         "-c", "listen_addresses=", "-c", "max_wal_size=256MB"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")
    base = [*as_postgres(), "env", f"PGHOST={mine}", f"PGPORT={port}", "PGDATABASE=postgres"]
    try:
        until(lambda: subprocess.run([*base, f"{POSTGRES[0]}/psql", "-qc", "SELECT 1"], cwd="/",
                                     capture_output=True, check=False).returncode == 0, 60.0)
        run(*base, f"{POSTGRES[0]}/psql", "-qc", "CREATE TABLE t (x int)", cwd="/")
        run(*base, f"{POSTGRES[0]}/pgbench", "-n", "-c", "1", "-R", str(COMMITS_PER_S), "-T",
            str(COMMIT_SECONDS), "-f", script, "-l", "--log-prefix", os.path.join(mine, "commits"), cwd="/")
        times = []
        for path in glob.glob(os.path.join(mine, "commits.*")):
            with open(path, encoding="utf-8") as lines:
                # Time of a transaction and the delay before it began, in microseconds.
                for words in map(str.split, lines):
                    times.append((float(words[2]) - float(words[6])) / 1e3)
        times.sort()
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            stop(child)
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    tps = len(times) / COMMIT_SECONDS
    # Not of the rate: of so few arrivals of a Poisson process one run in 17 has 5 % less by chance.
    fits = p99 < LIMIT_MS
    row.update(pgbench_p99_ms=round(p99, 3), pgbench_tps=round(tps, 1),
               pgbench_side="fits" if fits else "does not fit")
    shutil.rmtree(mine)
    shutil.rmtree(base_of_wal)


# plimsoll

def fit_for(args, disk, use, short, row):
    out = os.path.join(disk.room, f"run-{use}")
    words = [args.plimsoll, "fit-for", use, disk.mount, "--for", args.length, "--budget", args.budget,
             "--seed", "1", "--no-record", "--shared", "--json", "-o", out]
    state = {**os.environ, "PLIMSOLL_STATE": os.path.join(disk.room, "state")}
    done = subprocess.run(words, capture_output=True, text=True, env=state, check=False)
    if done.returncode not in (0, 10, 11):
        raise RuntimeError(f"plimsoll: {done.stderr.strip()[-300:]}")
    line = json.loads(done.stdout)["load_lines"]["lines"][0]
    low, point, high = line["sustained"]
    row.update({f"fit_{short}": line["fit"], f"fit_{short}_low": round(low, 3),
                f"fit_{short}_point": round(point, 3), f"fit_{short}_high": round(high, 3),
                f"fit_{short}_seconds": round(line["trial_seconds"])})


def measure(args, tools, number, delay_ms):
    work, program, plugin, template = tools
    row = {"delay_ms": delay_ms, "fs": args.fs, "load_1m": round(os.getloadavg()[0], 2)}
    disk = Disk(work, f"disk{number}", plugin, delay_ms, args.fs)
    try:
        if args.only != "pg":
            etcd(program, disk, row)
            fit_for(args, disk, "etcd", "etcd", row)
        if args.only != "etcd":
            test_fsync(disk, row)
            pgbench(template, disk, row)
            fit_for(args, disk, "postgres-wal", "pg", row)
    except (RuntimeError, OSError, ValueError, http.client.HTTPException) as why:
        row["failure"] = str(why)[:300]
    finally:
        disk.close()
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plimsoll")
    parser.add_argument("output")
    parser.add_argument("--delays", default=",".join(map(str, MS)))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=["etcd", "pg"])
    parser.add_argument("--fs", default="ext4", choices=["ext4", "xfs"])
    parser.add_argument("--for", dest="length", default="10s")
    parser.add_argument("--budget", default="100s")
    args = parser.parse_args()
    args.plimsoll = os.path.abspath(args.plimsoll)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="fit-for-")
    os.chmod(work, 0o755)
    try:
        program, plugin = packages(work)
        tools = (work, program, plugin, cluster(work))
        delays = [float(one) for one in args.delays.split(",")]
        lock = threading.Lock()
        with open(args.output, "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, FIELDS)
            table.writeheader()

            def one(numbered):
                row = measure(args, tools, *numbered)
                with lock:
                    table.writerow(row)
                    file.flush()
                    print(row, flush=True)

            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                try:
                    list(pool.map(one, enumerate(delays)))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()

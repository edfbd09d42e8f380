#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load lines of systems whose edge is known: how often does the interval hold it?

    bench/load_line_known.py sim PLIMSOLL OUT.csv [COUNT [MORE]]  # simulated queues, virtual time
    bench/load_line_known.py disk PLIMSOLL OUT.csv [COUNT [MORE]] # disks of nbdkit that serve one read at a time

The systems are the same in every run; MORE is added to the seeds of their searches.

Simulated queues have one server with exponential service, or several: the response times of M/M/1 and M/M/c have
closed forms (Kleinrock, Queueing Systems I, 1975, 3.2 and 3.5). An nbdkit with one thread and a delay is M/D/1 under
Poisson arrivals, whose waiting times Erlang gave in 1909; how long a read occupies it is measured beforehand.
"""

import concurrent.futures
import csv
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

BASE_PER_S = 10.0


def erlang_c(servers, load):
    """Probability of waiting in M/M/c with `load` = arrival rate / service rate."""
    total, term = 0.0, 1.0
    for k in range(servers):
        if k:
            term *= load / k
        total += term
    last = term * load / servers * servers / (servers - load)
    return last / (total + last)


def beyond(servers, rate, arrivals, limit_s):
    """Share of response times beyond a limit in M/M/c."""
    if arrivals >= servers * rate:
        return 1.0
    load = arrivals / rate
    wait = erlang_c(servers, load)
    drain = servers * rate - arrivals
    if abs(drain - rate) < 1e-9 * rate:
        return math.exp(-rate * limit_s) * (1 + wait * rate * limit_s)
    both = wait * drain / (drain - rate) * (math.exp(-rate * limit_s) - math.exp(-drain * limit_s))
    return (1 - wait) * math.exp(-rate * limit_s) + wait * math.exp(-drain * limit_s) + both


def edge(servers, rate, limit_s, allowed):
    low, high = 0.0, servers * rate
    for _ in range(200):
        middle = (low + high) / 2
        if beyond(servers, rate, middle, limit_s) <= allowed:
            low = middle
        else:
            high = middle
    return low


def workload(folder, per_s, size, file_bytes):
    path = os.path.join(folder, "w.toml")
    with open(path, "w", encoding="ascii") as file:
        file.write(
            'format = "2.0"\n[workload.blocks]\nname = "w"\n[[workload.blocks.groups]]\nname = "io"\n'
            f"depth = 512\npace = {{ open = {{ poisson = {{ per_s = {per_s} }} }} }}\n"
            f'mix = [ {{ kind = "read", bytes = {size}, weight = 1.0 }} ]\n'
            f'extent = {{ file = "data", bytes = {file_bytes} }}\n'
        )
    return path


def search(plimsoll, folder, target, slo, hold, seed, more):
    began = time.monotonic()
    command = [
        plimsoll, "loadline", "-w", os.path.join(folder, "w.toml"), "--slo", slo, target,
        "--for", hold, "--seed", str(seed), "--json", "-o", os.path.join(folder, f"run-{seed}"), *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    line = json.loads(done.stdout)["load_lines"]["lines"][0]
    return line, time.monotonic() - began


def simulated(plimsoll, count, more_seed):
    """Twenty queues, drawn from a fixed seed."""
    draw = random.Random(20261123)
    for seed in range(1, count + 1):
        servers = draw.choice([1, 1, 2, 4])
        service_ms = draw.choice([2, 5, 10, 20])
        quantile = draw.choice([50, 90, 99])
        rate = 1000.0 / service_ms
        # A limit of some service times, above the quantile of the service alone.
        alone_ms = service_ms * math.log(100 / (100 - quantile))
        limit_ms = round(alone_ms * draw.uniform(1.6, 5.0))
        truth = edge(servers, rate, limit_ms / 1000, 1 - quantile / 100) / BASE_PER_S
        with tempfile.TemporaryDirectory() as folder:
            workload(folder, BASE_PER_S, 4096, 64 << 20)
            target = f"sim(queue,servers={servers},law=exponential,service={service_ms}ms,rate=100000M)"
            slo = f"p{quantile} < {limit_ms}ms"
            more = ["--min", "0.1", "--max", "1000"]
            line, took = search(plimsoll, folder, target, slo, "10m", seed + more_seed, more)
        yield (target, slo, [truth, truth], line, took)


def listening(path):
    for _ in range(200):
        if os.path.exists(path):
            return
        time.sleep(0.05)
    sys.exit("nbdkit does not listen")


class Disk:
    """Memory behind nbdkit with one thread: each read occupies it for so many milliseconds."""

    def __init__(self, folder, delay_ms):
        self.socket = os.path.join(folder, "nbd.sock")
        self.server = subprocess.Popen(
            ["nbdkit", "--foreground", "--exit-with-parent", "--unix", self.socket, "--threads", "1",
             "--filter=delay", "memory", "128M", f"delay-read={delay_ms}ms"]
        )
        listening(self.socket)
        self.target = f"nbd+unix:///?socket={self.socket}"

    def end(self):
        self.server.terminate()
        self.server.wait()


def closed(plimsoll, folder, target, depth):
    """Reads per second and mean response time in s of a closed loop."""
    command = [plimsoll, "run", f"randread,size=64m,depth={depth}", target, "--destroy", "--for", "8s",
               "--no-self-test", "--json", "-o", os.path.join(folder, f"depth-{depth}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    trial = json.loads(done.stdout)["trials"][0]
    return trial["ops"] / (trial["length_ns"] / 1e9), trial["response_ns"]["mean"] / 1e9


def waits_at_most(arrivals, service_s, limit_s):
    """Share of requests that wait no longer than a limit in M/D/1 (Erlang 1909)."""
    load = arrivals * service_s
    if load >= 1 or limit_s < 0:
        return 0.0
    terms = []
    for k in range(int(limit_s / service_s) + 1):
        x = arrivals * (k * service_s - limit_s)
        terms.append(x**k / math.factorial(k) * math.exp(-x))
    return (1 - load) * math.fsum(terms)


def edge_of_disk(service_s, limit_s, share):
    low, high = 0.0, 1 / service_s
    for _ in range(100):
        middle = (low + high) / 2
        if waits_at_most(middle, service_s, limit_s) >= share:
            low = middle
        else:
            high = middle
    return low


def disk(plimsoll, seed, delay_ms, quantile, times):
    """One disk: how long a read occupies it is measured by a closed loop that always has more for it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        one = Disk(folder, delay_ms)
        try:
            per_s, _ = closed(plimsoll, folder, one.target, 8)
            alone_per_s, alone_s = closed(plimsoll, folder, one.target, 1)
            limit_ms = round(times * delay_ms)
            # A disk that waits for its next read takes up to the client's part of a read longer than a busy one.
            truth = [edge_of_disk(1 / each, limit_ms / 1000 - alone_s, quantile / 100) / 20
                     for each in (alone_per_s, per_s)]
            workload(folder, 20, 4096, 64 << 20)
            slo = f"p{quantile} < {limit_ms}ms"
            more = ["--destroy", "--min", "0.2", "--max", "50", "--width", "10%"]
            line, took = search(plimsoll, folder, one.target, slo, "60s", seed, more)
        finally:
            one.end()
    return f"nbdkit {delay_ms} ms, one thread, {alone_per_s:.1f} to {per_s:.1f} reads/s", slo, truth, line, took


def disks(plimsoll, count, more_seed):
    """Disks that serve one read at a time in a known time, five at a time: they hardly need a processor."""
    draw = random.Random(20261124)
    cases = [(seed + more_seed, draw.randrange(3, 16), draw.choice([50, 90]), draw.uniform(2.5, 6.0))
             for seed in range(1, count + 1)]
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        started = [pool.submit(disk, plimsoll, *case) for case in cases]
        for done in concurrent.futures.as_completed(started):
            yield done.result()


def main():
    kind, plimsoll, out = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    more_seed = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    plimsoll = shutil.which(plimsoll) or sys.exit(f"{plimsoll} is not there")
    rows = {"sim": simulated, "disk": disks}[kind](plimsoll, count, more_seed)
    inside = total = 0
    with open(out, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(
            ["system", "limit", "truth_low", "truth_high", "low", "point", "high", "inside", "stop", "trials", "trial_s", "took_s"]
        )
        for target, slo, truth, line, took in rows:
            low, point, high = line["sustained"]
            is_inside = low <= truth[1] and truth[0] <= high
            inside, total = inside + is_inside, total + 1
            table.writerow(
                [target, slo, f"{truth[0]:.4f}", f"{truth[1]:.4f}", f"{low:.4f}", f"{point:.4f}", f"{high:.4f}", int(is_inside),
                 line["stop"], line["trials"], f"{line['trial_seconds']:.0f}", f"{took:.1f}"]
            )
            file.flush()
            print(f"{inside}/{total} {target} {slo}: {truth[0]:.3f} to {truth[1]:.3f} in {low:.3f} to {high:.3f}", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injects random faults into three stacks for hours and kills the controller again and again.

Campaigns of `plimsoll failover` follow each other, with faults drawn from --seed. At random instants the
controller gets SIGKILL (one time in five SIGTERM), `plimsoll raze` follows (and is itself killed one time
in ten), what is left is counted, and the same command resumes the campaign. Beside them one `plimsoll
compare` of two directories runs undisturbed from the first minute to the last. Every ten seconds
the memory, threads and open files of each controller are sampled.

    bench/soak.py PLIMSOLL [--for 7320] [--seed N] [--undisturbed] -o DIR

Needs root and what the stacks need. Everything lies below DIR: state directories, run folders, logs,
`lives.jsonl` (a line for each life of a controller), `memory.csv` and `summary.json`. What counts as left
is what belongs to the journals of this run: mounts, loop devices, namespaces, interfaces,
routing rules, processes, cgroups, tracing instances, files. Exits with 1 when something was lost or left.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

STACKS = ["raid1", "gluster(volume=replicate)", "nbd"]
FAULTS = ["kill", "pause", "slow", "malformed", "link-down", "one-way", "flap", "double", "partition"]
SAMPLE_S = 10.0
# Samples of a life's first minutes are no part of its slope: stacks are made, buffers fill.
SETTLE_S = 120.0
# A controller that was asked to end, or a raze, that takes longer hangs.
END_S = 300.0
RAZE_S = 180.0
PLACES = ["/tmp", "/var/tmp", "/run", "/run/netns", "/dev/shm", "/var/lib"]
PACED = """format = "2.0"
[workload.blocks]
name = "paced-{rate:.0f}"
[[workload.blocks.groups]]
depth = 4
extent = {{ bytes = 8388608 }}
pace = {{ open = {{ poisson = {{ per_s = {rate} }} }} }}
mix = [ {{ kind = "read", bytes = 4096, weight = 0.5 }}, {{ kind = "write", bytes = 4096, weight = 0.5 }} ]
"""


def read(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return default


def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def said(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


class Belongings:
    """What the journals of a state directory own on this machine, gathered while they are there."""

    def __init__(self, root, state):
        self.root, self.state = root, state
        self.ids, self.links = set(), {}
        self.before = {place: set(listed(place)) for place in PLACES}

    def look(self):
        """Notes the journals that are there now, and the interfaces they name with their addresses."""
        for name in listed(f"{self.state}/journals"):
            self.ids.add(name.split(".")[0].removeprefix("plimsoll-"))
            text = read(f"{self.state}/journals/{name}")
            for link in set(re.findall(r"\bplimsoll\d+(?:n\d+)?\b", text)):
                address = read(f"/sys/class/net/{link}/address").strip()
                if address:
                    self.links[link] = address

    def is_ours(self, text):
        return self.root in text or any(one in text for one in self.ids)

    def processes(self):
        for process in filter(str.isdigit, listed("/proc")):
            environ = read(f"/proc/{process}/environ").split("\0")
            names = ("PLIMSOLL_MARK_OF", "PLIMSOLL_STATE")
            if any(f"{name}={self.state}" in environ for name in names):
                command = read(f"/proc/{process}/cmdline").replace("\0", " ").strip()
                yield f"process {process} {command}"

    def left(self):
        """What of all that is still there, and in the state directory beside its fixed files."""
        found = list(self.processes())
        found += [f"mount {m}" for m in read("/proc/self/mountinfo").splitlines() if self.is_ours(m)]
        for disk in listed("/sys/block"):
            file = read(f"/sys/block/{disk}/loop/backing_file").strip()
            # "/" is a file that no path leads to any more: nothing else here has one.
            if file and (self.is_ours(file) or file == "/"):
                found.append(f"loop device {disk} over {file}")
        found += [f"namespace {n}" for n in listed("/run/netns") if self.is_ours(n)]
        for link, address in self.links.items():
            if read(f"/sys/class/net/{link}/address").strip() == address:
                found.append(f"interface {link}")
        there = set(listed("/sys/class/net"))
        numbers = {n for link in self.links for n in re.findall(r"^plimsoll(\d+)", link)}
        for rule in said("ip", "rule", "show"):
            # The number may be somebody else's by now, whose bridge is there.
            found += [f"rule {rule}" for n in numbers
                      if f" 10.92.{n}.0/24" in rule and f"plimsoll{n}" not in there]
        for top, folders, _ in os.walk("/sys/fs/cgroup"):
            found += [f"cgroup {top}/{f}" for f in folders if self.is_ours(f)]
        found += [f"tracing {n}" for n in listed("/sys/kernel/tracing/instances") if self.is_ours(n)]
        for place in PLACES:
            new = set(listed(place)) - self.before[place]
            found += [f"file {place}/{n}" for n in new if self.is_ours(n)]
        for room in ("journals", "stacks", "claims", "runs"):
            for top, _, files in os.walk(f"{self.state}/{room}"):
                found += [f"file {top}/{f}" for f in files]
        return found


class Sampler(threading.Thread):
    """Writes memory, threads and open files of the controllers that live."""

    def __init__(self, path, began, looks):
        super().__init__(daemon=True)
        self.began, self.looks, self.lives = began, looks, {}
        self.stopped = threading.Event()
        self.file = open(path, "w", encoding="ascii", newline="")
        self.rows = csv.writer(self.file)
        self.rows.writerow("at_s controller life age_s rss_kib anon_kib threads open_files".split())

    def run(self):
        due = time.monotonic()
        while not self.stopped.wait(max(0.0, due - time.monotonic())):
            due += SAMPLE_S
            for (controller, life), (process, since) in list(self.lives.items()):
                status = read(f"/proc/{process.pid}/status")
                value = dict(re.findall(r"^(\w+):\s+(\d+)", status, re.M))
                if "VmRSS" not in value:
                    continue
                now = time.monotonic()
                self.rows.writerow([round(now - self.began, 1), controller, life, round(now - since, 1),
                                    value["VmRSS"], value["RssAnon"], value["Threads"],
                                    len(listed(f"/proc/{process.pid}/fd"))])
            self.file.flush()
            self.looks()

    def watch(self, controller, life, process):
        self.lives[controller, life] = (process, time.monotonic())

    def forget(self, controller, life):
        self.lives.pop((controller, life), None)


class Soak:
    def __init__(self, args):
        self.args, self.random = args, random.Random(args.seed)
        self.root = os.path.abspath(args.output)
        os.makedirs(f"{self.root}/runs", exist_ok=True)
        self.plimsoll = self.build = None
        self.take_program()
        self.began = time.monotonic()
        self.state = f"{self.root}/state"
        self.env = dict(os.environ, PLIMSOLL_STATE=self.state, NO_COLOR="1")
        self.owned = Belongings(self.state + "/", self.state)
        self.sampler = Sampler(f"{self.root}/memory.csv", self.began, self.owned.look)
        self.lives, self.life = [], 0
        self.log = open(f"{self.root}/lives.jsonl", "w", encoding="utf-8")

    def take_program(self):
        """Copies the program when it is another one than before, as after a defect was mended."""
        source = os.path.abspath(self.args.plimsoll)
        with open(source, "rb") as file:
            build = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        if build != self.build:
            folder = f"{self.root}/program-{build}"
            os.makedirs(folder, exist_ok=True)
            for name in (source, os.path.join(os.path.dirname(source), "plimsoll-agent")):
                shutil.copy2(name, folder)
            self.plimsoll, self.build = f"{folder}/{os.path.basename(source)}", build

    def now(self):
        return time.monotonic() - self.began

    def start(self, argv, log, env):
        out = open(log, "ab")
        out.write(f"\n$ {' '.join(argv)}\n".encode())
        out.flush()
        return subprocess.Popen([self.plimsoll, *argv], env=env, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=out, cwd=self.root, start_new_session=True)

    def note(self, **row):
        row["at_s"] = round(self.now(), 1)
        self.log.write(json.dumps(row) + "\n")
        self.log.flush()
        print(json.dumps(row), flush=True)
        return row

    def raze(self):
        """Razes; one time in ten it is killed and has to be run again. Gives its exit code."""
        killed = self.random.random() < 0.1
        wait_s = self.random.uniform(0.1, 3.0)
        log = f"{self.root}/raze.log"
        if killed:
            first = self.start(["raze"], log, self.env)
            with contextlib.suppress(subprocess.TimeoutExpired):
                first.wait(wait_s)
                killed = False
            first.kill()
            first.wait()
        begun = time.monotonic()
        code = self.start_and_wait(["raze"], log)
        if code is None:
            # That is a defect, and counted. The stacks can be taken down one by one all the same.
            for stack in STACKS:
                self.start_and_wait(["stack", "down", stack], log)
            self.start_and_wait(["raze"], log)
        return code, killed, round(time.monotonic() - begun, 1)

    def start_and_wait(self, argv, log):
        """The exit code, or None when it did not end within RAZE_S and was killed."""
        process = self.start(argv, log, self.env)
        try:
            return process.wait(RAZE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            return None

    def one_life(self, argv, log, until):
        """One life of the controller, to its end or to its killing; gives the row of it."""
        self.life += 1
        sign = signal.SIGTERM if self.random.random() < 0.2 else signal.SIGKILL
        wait_s = 5.0 + self.random.expovariate(1 / self.args.mean_life)
        begun = time.monotonic()
        process = self.start(argv, log, self.env)
        self.sampler.watch("failover", self.life, process)
        row = {"life": self.life, "began_s": round(self.now(), 1), "ended_by": "itself"}
        try:
            row["code"] = process.wait(max(1.0, min(wait_s, until - self.now())))
        except subprocess.TimeoutExpired:
            self.owned.look()
            row["ended_by"] = sign.name
            process.send_signal(sign)
            try:
                row["code"] = process.wait(END_S)
            except subprocess.TimeoutExpired:
                row["hung"] = True
                process.kill()
                row["code"] = process.wait()
        self.owned.look()
        self.sampler.forget("failover", self.life)
        row["lived_s"] = round(time.monotonic() - begun, 1)
        if row["ended_by"] != "SIGKILL":
            row["left_before_raze"] = self.settled_left()
        row["raze_code"], row["raze_killed"], row["raze_s"] = self.raze()
        row["left"] = self.settled_left()
        return row

    def settled_left(self):
        """What is left; a process that was just ended may take a moment to go."""
        for _ in range(20):
            found = self.owned.left()
            if not found:
                break
            time.sleep(0.25)
        return found

    def campaign(self, number, until):
        self.take_program()
        faults = self.random.sample(FAULTS, 2)
        length = self.random.randint(3, 8)
        run = f"{self.root}/runs/{number:03}"
        argv = ["failover", *STACKS, "--on", "netns", "--size", "512M", "--fault", ",".join(faults),
                "--fault-duration", f"{length}s", "--repeat", "2", "--file-size", "4M", "--rate", "25",
                "--seed", str(self.random.getrandbits(31)), "-o", run]
        for _ in range(100):
            if self.now() >= until:
                return
            row = self.one_life(argv, f"{run}.log", until)
            self.lives.append(self.note(campaign=number, program=self.build, faults=faults, **row))
            if row["ended_by"] == "itself":
                return

    def steady(self):
        """The comparison that nobody disturbs; it has a state directory of its own."""
        places = [f"{self.root}/place-{name}" for name in "ab"]
        workloads = []
        for rate in (200.0, 400.0):
            file = f"{self.root}/paced-{int(rate)}.toml"
            with open(file, "w", encoding="ascii") as text:
                text.write(PACED.format(rate=rate))
            workloads += ["-w", file]
        for place in places:
            os.makedirs(place, exist_ok=True)
        argv = ["compare", *places, *workloads, "--blocks", "1000", "--for", "3s", "--warmup", "0s",
                "--budget", f"{int(self.args.length)}s", "-o", f"{self.root}/steady"]
        env = dict(self.env, PLIMSOLL_STATE=f"{self.root}/steady-state")
        process = self.start(argv, f"{self.root}/steady.log", env)
        self.sampler.watch("steady", 0, process)
        return process

    def run(self):
        shutil.rmtree(self.state, ignore_errors=True)
        steady = self.steady()
        self.sampler.start()
        number = 0
        while not self.args.undisturbed and self.now() < self.args.length - 30:
            number += 1
            self.campaign(number, self.args.length)
        # It ends its trial and writes its report.
        code = steady.wait()
        self.sampler.stopped.set()
        self.sampler.join()
        return self.summary(number, code)

    def summary(self, campaigns, steady_code):
        total = {"seed": self.args.seed, "seconds": round(self.now()), "campaigns": campaigns,
                 "lives": len(self.lives), "steady_code": steady_code}
        for sign in ("SIGKILL", "SIGTERM", "itself"):
            total[f"ended_by_{sign}"] = sum(row["ended_by"] == sign for row in self.lives)
        total["razes_killed"] = sum(row["raze_killed"] for row in self.lives)
        total["razes_hung"] = sum(row["raze_code"] is None for row in self.lives)
        total["razes_failed"] = sum(row["raze_code"] not in (0, None) for row in self.lives)
        total["ends_hung"] = sum(row.get("hung", False) for row in self.lives)
        total["programs"] = sorted({row["program"] for row in self.lives})
        total["left"] = sum(len(row["left"]) for row in self.lives)
        codes = [row["code"] for row in self.lives if row["ended_by"] == "itself"]
        total["codes_of_whole_lives"] = {str(code): codes.count(code) for code in set(codes)}
        faults = {}
        for number in range(1, campaigns + 1):
            self.add(f"{self.root}/runs/{number:03}", faults)
        total["faults"] = faults
        for key in ("injected", "writes_checked", "bad", "sessions", "survived", "errors"):
            total[key] = sum(of[key] for of in faults.values())
        total["steady_trials"] = len(self.report(f"{self.root}/steady").get("trials", []))
        total["memory"] = slopes(f"{self.root}/memory.csv")
        with open(f"{self.root}/summary.json", "w", encoding="utf-8") as file:
            json.dump(total, file, indent=1)
        print(json.dumps(total, indent=1))
        wrong = ("bad", "left", "razes_failed", "razes_hung", "ends_hung", "steady_code")
        return 1 if any(total[key] for key in wrong) else 0

    def report(self, folder):
        done = subprocess.run([self.plimsoll, "report", folder, "--json"], env=self.env,
                              capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            self.note(unread=folder, why=done.stderr[-400:])
            return {}

    def add(self, folder, faults):
        for trial in self.report(folder).get("trials", []):
            fault = trial.get("fault")
            if not fault:
                continue
            of = faults.setdefault(f"{trial['arm']} {fault['fault']}", dict.fromkeys(
                ("injected", "writes_checked", "bad", "sessions", "survived", "errors"), 0))
            sessions = fault["outage"]["sessions"]
            of["injected"] += 1
            of["writes_checked"] += fault["check"]["data"]["written"]
            of["bad"] += sum(fault["check"]["data"]["bad"].values())
            of["sessions"] += len(sessions)
            of["survived"] += sum(session["survived"] for session in sessions)
            of["errors"] += sum(session["errors"] for session in sessions)


def slopes(path):
    """The slope of the memory of each life that is long enough, MiB an hour with a 95 % interval."""
    lives = {}
    with open(path, encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            lives.setdefault((row["controller"], int(row["life"])), []).append(row)
    found = []
    for (controller, life), rows in lives.items():
        late = [row for row in rows if float(row["age_s"]) >= SETTLE_S]
        if len(late) < 12:
            continue
        hours = [float(row["age_s"]) / 3600 for row in late]
        one = {"controller": controller, "life": life, "seconds": round(float(late[-1]["age_s"])),
               "samples": len(late)}
        for name in ("rss_kib", "anon_kib"):
            mib = [int(row[name]) / 1024 for row in late]
            slope, half = line(hours, mib)
            one[name.replace("kib", "mib_per_h")] = [round(slope, 3), round(slope - half, 3),
                                                     round(slope + half, 3)]
            one[name.replace("kib", "mib")] = [round(mib[0], 1), round(max(mib), 1), round(mib[-1], 1)]
        for name in ("threads", "open_files"):
            values = [int(row[name]) for row in late]
            one[name] = [values[0], max(values), values[-1]]
        found.append(one)
    return found


def line(x, y):
    """Slope and half of its interval; neighbouring samples resemble each other, which widens it."""
    n = len(x)
    mean_x, mean_y = sum(x) / n, sum(y) / n
    spread = sum((a - mean_x) ** 2 for a in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / spread
    rest = [b - mean_y - slope * (a - mean_x) for a, b in zip(x, y)]
    power = sum(r * r for r in rest)
    if power == 0:
        return slope, 0.0
    alike = max(0.0, sum(a * b for a, b in zip(rest, rest[1:])) / power)
    wider = (1 + alike) / max(1 - alike, 1 / n)
    return slope, 1.98 * math.sqrt(power / (n - 2) / spread * wider)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plimsoll")
    parser.add_argument("--for", dest="length", type=float, default=7320.0)
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--undisturbed", action="store_true", help="only the comparison, no faults")
    parser.add_argument("--mean-life", type=float, default=170.0)
    parser.add_argument("-o", "--output", required=True)
    return Soak(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())

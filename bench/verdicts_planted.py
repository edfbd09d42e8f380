#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts how often two plimsolls find a planted difference, and call equal systems equivalent.

verdicts_planted.py BEFORE AFTER [options]     (root; nbdkit; PLIMSOLL_STATE as you like)

BEFORE and AFTER are paths of programs, each with its plimsoll-agent beside it. They take turns, in an
order that is drawn for each repetition, and have the same total time. With - for BEFORE only AFTER runs.

planted  two disks of nbdkit over files in memory, one behind nbdkit's delay filter so that its reads take
         about a tenth longer; the delay is calibrated before the first repetition. Counted: "different".
equal    one directory against itself. Counted: "equivalent" (within 5 %), and "different": false alarms.

BEFORE has no design: it gets as many blocks of 10 s as fit into the time. AFTER gets --budget with what
--after-planted and --after-equal say. A row for each run goes to the CSV file at once; a summary is printed
at the end. Run it on a machine with nothing else to do.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Time of a trial of BEFORE beside its measured part, warm-up included: on a disk of 9 ms mostly samples of its
# contents. Measured: five blocks of three trials of 10 s took 242 s.
OVERHEAD_S = 6.1
LENGTH_S = 10
ENTRIES = 3
PLANTED = 1.10
SIZE = "256M"
READS = "randread,size=16m,depth=1"
FIELDS = ["experiment", "repetition", "program", "budget_s", "verdict", "ratio", "low", "high", "blocks",
          "length_s", "end", "seconds", "code", "delay_ms"]


class Disk:
    """An nbdkit over a disk in memory, on a socket of its own, that ends with this program."""

    def __init__(self, folder, name, delay_ms):
        self.socket = os.path.join(folder, name + ".sock")
        # A process that listens nowhere else; the delay is of each read and write.
        command = ["nbdkit", "--foreground", "--exit-with-parent", "--unix", self.socket, "--threads", "16",
                   "--filter=delay", "memory", SIZE, f"delay-read={delay_ms}ms",
                   f"delay-write={delay_ms}ms"]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not os.path.exists(self.socket):
            if self.child.poll() is not None or time.monotonic() > deadline:
                sys.exit("nbdkit did not start: " + " ".join(command))
            time.sleep(0.05)
        self.target = f"nbd+unix:///?socket={self.socket}"

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(timeout=10)


def plimsoll(program, arguments, folder, limit_s):
    """Runs it into a new run folder; its JSON, its exit code and how long it took."""
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    command = [program, *arguments, "--json", "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s + 300)
    took = time.monotonic() - began
    try:
        found = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return found, done.returncode, took


def blocks_before(budget_s):
    """Blocks of BEFORE that fit into the time."""
    return max(2, int(budget_s / (ENTRIES * (LENGTH_S + OVERHEAD_S))))


def row_of(found, code, took):
    """The figures of one comparison."""
    one = next(row for row in found["comparisons"] if not row["is_control"])
    ratio = one["ratio"] or {"estimate": "", "low": "", "high": ""}
    design = found.get("design") or {}
    ended = (design.get("ended") or {}).get("cause", "planned")
    lengths = [trial["length_ns"] / 1e9 for trial in found["trials"]]
    return {"verdict": one["verdict"], "ratio": ratio["estimate"], "low": ratio["low"], "high": ratio["high"],
            "blocks": one["blocks"], "length_s": round(lengths[-1], 2) if lengths else "", "end": ended,
            "seconds": round(took, 1), "code": code}


def one_run(program, which, targets, options, budget_s, folder, extra):
    """A comparison by one of both programs, in this time."""
    arguments = ["compare", *targets, *options, "--no-self-test"]
    if which == "after":
        arguments += ["--budget", f"{budget_s}s", *extra.split()]
    else:
        arguments += ["--blocks", str(blocks_before(budget_s)), "--for", f"{LENGTH_S}s"]
    return row_of(*plimsoll(program, arguments, folder, budget_s))


def calibrated(program, folder, base_ms):
    """The delay with which reads of one disk take a tenth longer than with the other's, in whole ms: the filter
    knows no finer one."""
    fast = Disk(folder, "calibrate", base_ms)
    try:
        read = ["run", READS, fast.target, "--destroy", "--for", "3s", "--no-self-test"]
        found, _, _ = plimsoll(program, read, os.path.join(folder, "calibration"), 60)
    finally:
        fast.end()
    mean_ms = found["trials"][0]["response_ns"]["mean"] / 1e6
    return base_ms + max(1, round((PLANTED - 1) * mean_ms)), mean_ms


def experiment(name, args, programs, targets, options, budget_s, extra, writer, delay_ms):
    """All repetitions of one experiment, the programs in turns."""
    counts = {which: {} for which in programs}
    rng = random.Random(args.seed)
    for repetition in range(args.repetitions):
        turns = list(programs)
        rng.shuffle(turns)
        for which in turns:
            folder = os.path.join(args.folder, f"{name}-{repetition}-{which}")
            row = one_run(programs[which], which, targets, options, budget_s, folder, extra)
            row |= {"experiment": name, "repetition": repetition, "program": which, "budget_s": budget_s,
                    "delay_ms": delay_ms}
            writer.writerow(row)
            args.csv.flush()
            verdicts = counts[which]
            verdicts[row["verdict"]] = verdicts.get(row["verdict"], 0) + 1
            print(f"{name} {repetition + 1}/{args.repetitions} {which}: {row['verdict']} {row['ratio']}"
                  f" after {row['blocks']} blocks, {row['seconds']} s ({row['end']})", flush=True)
    return counts


def planted(args, programs, writer):
    delay_ms, mean_ms = calibrated(programs["after"], args.folder, args.base_delay)
    print(f"reads take {mean_ms:.2f} ms with a delay of {args.base_delay} ms; the slow disk has {delay_ms} ms, "
          f"{100 * (delay_ms - args.base_delay) / mean_ms:.1f} % more")
    disks = [Disk(args.folder, "fast", args.base_delay), Disk(args.folder, "slow", delay_ms)]
    try:
        options = ["-w", READS, "--destroy"]
        return experiment("planted", args, programs, [disk.target for disk in disks], options,
                          args.planted_budget, args.after_planted, writer, delay_ms)
    finally:
        for disk in disks:
            disk.end()


def equal(args, programs, writer):
    place = os.path.join(args.directory or args.folder, "equal")
    os.makedirs(place, exist_ok=True)
    try:
        options = ["-w", args.workload, "--margin", "0.05"]
        return experiment("equal", args, programs, [place, place], options, args.equal_budget,
                          args.after_equal, writer, "")
    finally:
        os.rmdir(place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--repetitions", "-n", type=int, default=10)
    parser.add_argument("--only", choices=["planted", "equal"])
    parser.add_argument("--planted-budget", type=int, default=180, help="seconds (180)")
    parser.add_argument("--equal-budget", type=int, default=600, help="seconds (600)")
    parser.add_argument("--after-planted", default="--effect 10%", help="options of AFTER")
    parser.add_argument("--after-equal", default="--stop fixed", help="options of AFTER")
    parser.add_argument("--base-delay", type=int, default=9, help="delay of both disks in ms (9)")
    parser.add_argument("--directory", help="where the directory of 'equal' is made (else beside the run folders)")
    parser.add_argument("--workload", default="randread,size=256m", help="of 'equal'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="verdicts-planted.csv")
    args = parser.parse_args()
    programs = {"before": os.path.abspath(args.before), "after": os.path.abspath(args.after)}
    if args.before == "-":
        del programs["before"]
    base = tempfile.mkdtemp(prefix="plimsoll-planted-", dir=args.directory)
    args.folder = base
    try:
        with open(args.output, "w", newline="") as args.csv:
            writer = csv.DictWriter(args.csv, FIELDS)
            writer.writeheader()
            for name, carry_out in [("planted", planted), ("equal", equal)]:
                if args.only not in (None, name):
                    continue
                for which, verdicts in carry_out(args, programs, writer).items():
                    print(f"{name}, {which}: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items())))
    finally:
        shutil.rmtree(base)


main()

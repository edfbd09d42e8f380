#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many recordings in one process, and as an array job whose partial results are merged.

    bench/many_recordings.py PLIMSOLL RECORDINGS WORK [--count 10000] [--per-task 100] [-o results.csv]

RECORDINGS has real ones (the folders pcp/ and traces/ of the test data). From them COUNT recordings are made
below WORK: windows of PCP archives of version 2, and of a trace in the form of MSR Cambridge, each with a host
and a day of its own. Then, with the wall time, processor time and peak memory of each:

* one     plimsoll profile of all, in one process (and plimsoll fit of all);
* array   xargs -P 2, a task for each PER-TASK recordings, each writes a partial result; merged by
          plimsoll merge (and merge -o);
* tree    the partial results merged ten at a time, those again, in random order;
* single  a partial result for each recording, all merged at once.

Every output (JSON, page, model, partial result) is compared byte by byte with that of one process. WORK is removed at the
end; --keep leaves it.
"""

import argparse
import csv
import filecmp
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

ARCHIVES = [
    "pcp/diskmodel/nasdata",
    "pcp/diskmodel/dbdata",
    "pcp/good/bozo-disk",
    "pcp/good/20101004-trunc",
    "pcp/good/vldb-disks",
]
TRACE = "traces/msr/msr-cambridge1-sample.csv"
# Every fifth recording is a trace.
TRACE_EVERY = 5
# Records of an archive, and rows of a trace, that a window has.
WINDOW = 160
# 1 November 2026, in seconds since 1970, and in tenths of microseconds since 1601.
DAY_ZERO = 1_793_491_200
DAYS = 28
HOSTS = 500


def records(data):
    """Framed records of a PCP file of version 2."""
    at, found = 0, []
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if length < 8 or at + length > len(data):
            break
        found.append(bytearray(data[at : at + length]))
        at += length
    return found


def relabelled(label, host, start):
    """A label with another host and begin."""
    struct.pack_into(">I", label, 12, start)
    label[24:88] = host.encode().ljust(64, b"\0")
    return label


class Archive:
    def __init__(self, base):
        self.volume = records(pathlib.Path(f"{base}.0").read_bytes())
        self.meta = records(pathlib.Path(f"{base}.meta").read_bytes())
        self.begin = struct.unpack_from(">I", self.volume[1], 4)[0]

    def write(self, path, host, day, window):
        """A window of the archive on another day."""
        results = self.volume[1:]
        first = window * (WINDOW // 2) % max(1, len(results) - WINDOW)
        chosen = results[first : first + WINDOW]
        # To the day, with the time of day of the recording.
        shift = DAY_ZERO + day * 86_400 - self.begin // 86_400 * 86_400
        start = struct.unpack_from(">I", chosen[0], 4)[0] + shift
        with open(f"{path}.0", "wb") as out:
            out.write(relabelled(bytearray(self.volume[0]), host, start))
            for record in chosen:
                record = bytearray(record)
                (at,) = struct.unpack_from(">I", record, 4)
                struct.pack_into(">I", record, 4, (at + shift) & 0xFFFFFFFF)
                out.write(record)
        with open(f"{path}.meta", "wb") as out:
            out.write(relabelled(bytearray(self.meta[0]), host, start))
            for record in self.meta[1:]:
                record = bytearray(record)
                (kind,) = struct.unpack_from(">I", record, 4)
                if kind in (2, 3):
                    # Instances hold from the first sample on.
                    struct.pack_into(">I", record, 8, min(start, 0xFFFFFFFF))
                out.write(record)


class Trace:
    def __init__(self, path):
        rows = pathlib.Path(path).read_text().splitlines()
        self.rows = [row.split(",") for row in rows if row.count(",") == 6]

    def write(self, path, host, day, window):
        first = window * 37 % max(1, len(self.rows) - WINDOW)
        chosen = self.rows[first : first + WINDOW]
        begin = int(chosen[0][0])
        zero = (DAY_ZERO + day * 86_400 + window % 86_400 + 11_644_473_600) * 10_000_000
        with open(path, "w") as out:
            for row in chosen:
                at = zero + int(row[0]) - begin
                out.write(",".join([str(at), host, *row[2:]]) + "\n")


def make(recordings, folder, count):
    """The recordings, a hundred in a folder; their names."""
    archives = [Archive(recordings / name) for name in ARCHIVES]
    trace = Trace(recordings / TRACE)
    names = []
    for number in range(count):
        inside = folder / f"{number // 100:04}"
        inside.mkdir(parents=True, exist_ok=True)
        host, day = f"host{number % HOSTS:03}", number // HOSTS % DAYS
        if number % TRACE_EVERY == TRACE_EVERY - 1:
            name = inside / f"{number:06}.csv"
            trace.write(name, host, day, number)
            names.append(str(name))
        else:
            base = inside / f"{number:06}"
            archives[number % len(archives)].write(base, host, day, number)
            names.append(f"{base}.meta")
    return names


class Bench:
    def __init__(self, work, output):
        self.work, self.output = work, output
        self.rows = [["what", "wall_s", "cpu_s", "peak_mib"]]

    def run(self, what, command, output=None, stdin=None):
        """Runs a command; its wall time, processor time and the peak of its largest process."""
        where = open(output, "wb") if output else subprocess.DEVNULL
        notes = open(self.work / "notes.txt", "ab")
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdout=where, stderr=notes, stdin=open(stdin) if stdin else subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 14):
            sys.exit(f"{what}: exit code {process.returncode}; see {self.work}/notes.txt")
        cpu = usage.ru_utime + usage.ru_stime
        row = [what, f"{wall:.2f}", f"{cpu:.2f}", f"{usage.ru_maxrss / 1024:.1f}"]
        self.rows.append(row)
        print("  ".join(row), flush=True)
        if self.output:
            with open(self.output, "w", newline="") as out:
                csv.writer(out).writerows(self.rows)


def same(one, other):
    if not filecmp.cmp(one, other, shallow=False):
        sys.exit(f"{one} and {other} differ")
    print(f"identical: {one.name} {other.name} ({one.stat().st_size} bytes)", flush=True)


def outputs(bench, what, words, work, page):
    """A profile, from these words of a command, as JSON and as a page."""
    more = ["--json", page, str(work / f"{what}.html")]
    bench.run(f"{what} profile", words + more, output=work / f"{what}.json")


def array(bench, plimsoll, listed, parts, per_task, what):
    """The array job: one task for so many recordings."""
    parts.mkdir()
    # The name of the first recording is that of the part, as an array's index would be.
    task = f'name=$(echo "$1" | tr / _); exec {plimsoll} profile "$@" --partial {parts}/$name.part'
    command = ["xargs", "-a", str(listed), "-n", str(per_task), "-P", "2", "sh", "-c", task, "task"]
    bench.run(f"{what}: tasks of {per_task}", command)
    return sorted(str(part) for part in parts.glob("*.part"))


def tree(bench, plimsoll, parts, work, seed):
    """Merges parts ten at a time, until one is left, in an order that is drawn."""
    draw, level = random.Random(seed), 0
    while len(parts) > 1:
        draw.shuffle(parts)
        merged = []
        for number, first in enumerate(range(0, len(parts), 10)):
            path = str(work / f"tree-{level}-{number}.part")
            command = [plimsoll, "merge", *parts[first : first + 10], "--partial", path]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            merged.append(path)
        parts, level = merged, level + 1
    return parts[0]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("plimsoll")
    arguments.add_argument("recordings", type=pathlib.Path)
    arguments.add_argument("work", type=pathlib.Path)
    arguments.add_argument("--count", type=int, default=10_000)
    arguments.add_argument("--per-task", type=int, default=100)
    arguments.add_argument("--keep", action="store_true")
    arguments.add_argument("-o", "--output")
    given = arguments.parse_args()
    plimsoll, work = os.path.abspath(given.plimsoll), given.work.absolute()
    work.mkdir(parents=True)
    try:
        measure(plimsoll, given, work)
    finally:
        if not given.keep:
            shutil.rmtree(work)


def measure(plimsoll, given, work):
    names = make(given.recordings, work / "recordings", given.count)
    listed = work / "list"
    listed.write_text("".join(f"{name}\n" for name in names))
    files = [path for path in (work / "recordings").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(names)} recordings, {len(files)} files, {size / 1e6:.0f} MB", flush=True)
    bench = Bench(work, given.output)
    outputs(bench, "one", [plimsoll, "profile", *names], work, "-o")
    parts = array(bench, plimsoll, listed, work / "parts", given.per_task, "array")
    total = sum(os.path.getsize(part) for part in parts)
    print(f"{len(parts)} parts, {total / 1e6:.1f} MB", flush=True)
    outputs(bench, "merged", [plimsoll, "merge", str(work / "parts")], work, "--html")
    for end in ("json", "html"):
        same(work / f"one.{end}", work / f"merged.{end}")
    fit = ["--name", "all", "--working-set", "64G", "-o"]
    bench.run("one fit", [plimsoll, "fit", *names, *fit, str(work / "one.toml")])
    command = [plimsoll, "merge", str(work / "parts"), *fit, str(work / "merged.toml")]
    bench.run("merged fit", command)
    same(work / "one.toml", work / "merged.toml")

    whole = work / "whole.part"
    bench.run("merged to one part", [plimsoll, "merge", *parts, "--partial", str(whole)])
    for seed in (1, 2):
        same(whole, pathlib.Path(tree(bench, plimsoll, list(parts), work, seed)))
        for path in work.glob("tree-*.part"):
            path.unlink()
    doubled = parts + parts[::2]
    random.Random(3).shuffle(doubled)
    bench.run("half of the parts twice", [plimsoll, "merge", *doubled, "--json"], work / "twice.json")
    same(work / "one.json", work / "twice.json")

    singles = array(bench, plimsoll, listed, work / "singles", 1, "single")
    print(f"{len(singles)} parts", flush=True)
    bench.run("single merged", [plimsoll, "merge", str(work / "singles"), "--json"], work / "single.json")
    same(work / "one.json", work / "single.json")
    bench.run("single to one part", [plimsoll, "merge", str(work / "singles"), "--partial", str(work / "w2.part")])
    same(whole, work / "w2.part")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts searches of simulated laws: how often their intervals hold the truth, how wide they are, how far the point is.

    LAWS='fresh 60s 2 17 2 Quiet' cargo test --release -p plimsoll-stats --test integration laws::search::rows \\
        -- --ignored --nocapture | bench/load_line_laws.py

Reads the rows of `laws::search::rows`, of files or of standard input; prints a table by setting and group, and one by law.
"""
import fileinput
import statistics
from collections import defaultdict

COLUMNS = 15


def rows(lines):
    head = None
    for line in lines:
        words = line.strip().split(",")
        if words[0] == "setting":
            head = words
        elif head and len(words) == COLUMNS and words[2] in ("Quiet", "Noisy"):
            row = dict(zip(head, words))
            for name in ("truth", "low", "point", "high", "seconds", "window_share", "window_stays"):
                row[name] = float(row[name])
            yield row


def holds(row, *truths):
    """Whether one of these truths is inside, or the interval lies between two of them."""
    return row["low"] <= max(row[t] for t in truths) and row["high"] >= min(row[t] for t in truths)


def percent(found):
    found = list(found)
    return f"{100 * sum(found) / len(found):.1f}"


def cells(all_rows):
    width = sorted(row["high"] / row["low"] for row in all_rows)
    bias = [100 * (row["point"] / row["truth"] - 1) for row in all_rows]
    return [
        len(all_rows),
        percent(holds(row, "truth") for row in all_rows),
        percent(holds(row, "window_share") for row in all_rows),
        percent(holds(row, "window_stays") for row in all_rows),
        percent(holds(row, "truth", "window_share", "window_stays") for row in all_rows),
        percent(row["reach"] == "Between" for row in all_rows),
        f"{statistics.mean(bias):+.1f}",
        f"{statistics.median(bias):+.1f}",
        f"{statistics.median(width):.2f}",
        f"{width[(9 * len(width) - 1) // 10]:.2f}",
        f"{statistics.mean(row['seconds'] for row in all_rows):.0f}",
    ]


def table(groups, first):
    titles = [first, "n", "inside, %", "of its window", "of half its stays", "meets any", "answered, %",
              "bias of the point, %, mean", "median", "width, median", "90th percentile", "seconds, mean"]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for name, found in sorted(groups.items()):
        print(f"| {', '.join(name)} | {' | '.join(map(str, cells(found)))} |")
    print()


def main():
    cell, law = defaultdict(list), defaultdict(list)
    for row in rows(fileinput.input()):
        cell[row["setting"], row["group"].lower()].append(row)
        law[row["setting"], row["group"].lower(), row["law"]].append(row)
    table(cell, "setting, laws")
    table(law, "setting, law")


main()

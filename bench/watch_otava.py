#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Apache Otava on simulated histories: how often it alarms, and how soon it finds a step.

    pip install apache-otava
    cargo run --release -p plimsoll-measurements --bin watch -- histories LAW 0 200 > level.csv
    cargo run --release -p plimsoll-measurements --bin watch -- histories LAW 1.5 200 > step.csv
    bench/watch_otava.py level.csv step.csv

The step is at point 30. Values are logarithms; Otava looks at the exponentials, with its defaults.
"""
import csv
import math
import sys

from otava.analysis import compute_change_points

STEP, WITHIN, LEAST = 30, 8, 8


def histories(file: str, column: str) -> list[list[float]]:
    series: dict[str, list[float]] = {}
    with open(file, encoding="ascii") as rows:
        for row in csv.DictReader(rows):
            series.setdefault(row["series"], []).append(math.exp(float(row[column])))
    return list(series.values())


def places(values: list[float], p_max: float) -> list[int]:
    found = compute_change_points(values, max_pvalue=p_max)
    return [point.index for point in found[0]]


def main() -> None:
    level, step = sys.argv[1:3]
    print("| values | p | alarms, a look a day | alarms, one look | step found within 8 points |")
    print("| --- | --- | --- | --- | --- |")
    for column in ["ratio", "raw"]:
        for p_max in [0.001, 0.01]:
            equal = histories(level, column)
            daily = sum(
                any(places(values[:end], p_max) for end in range(LEAST, len(values) + 1)) for values in equal
            )
            once = sum(bool(places(values, p_max)) for values in equal)
            stepped = histories(step, column)
            found = sum(
                any(
                    any(place >= STEP - 4 for place in places(values[:end], p_max))
                    for end in range(STEP + 1, STEP + WITHIN + 1)
                )
                for values in stepped
            )
            shares = [daily / len(equal), once / len(equal), found / len(stepped)]
            print(f"| {column} | {p_max} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a trace of requests (MSR Cambridge CSV) for ingest and fit: the same bytes from the same seed.

    bench/self-watch/data.py FILE [ROWS]
"""
import random
import sys

# Windows file time: 100 ns since 1601.
BEGIN = 128_166_372_003_061_629


def main() -> None:
    file = sys.argv[1]
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 300_000
    draw = random.Random(7)
    time = BEGIN
    with open(file, "w", encoding="ascii") as out:
        for row in range(rows):
            # Three paces, so that there are phases to be found.
            time += int(draw.expovariate(1.0 / (4_000 * (1 + 3 * (row // 20_000 % 3)))))
            kind = "Read" if draw.random() < 0.6 else "Write"
            offset, size = 4_096 * draw.randrange(2_000_000), 4_096 * draw.randint(1, 8)
            out.write(f"{time},host,0,{kind},{offset},{size},{draw.randint(1_000, 90_000)}\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Searches the load lines of the simulated systems with MLRsearch (PyPI, 1.2.1).

load_line_mlrsearch.py SIMULATOR FIRST COUNT SUSTAINED_S TRIAL:SUM...
SIMULATOR is the built example `load_line_simulator`; a row for each system and each pair of final trial
duration and duration sum (in seconds) goes to standard output.
"""

import subprocess
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult
from MLRsearch import MultipleLossRatioSearch, SearchGoal

# Loads are rounded to whole numbers, so multiples become thousandths.
SCALE = 1e5
OPERATIONS = 10**7
HEAD = "seed,method,kind,steal,drift,memory,edge,low,high,inside,seconds,trials,stop"


class Simulator(AbstractMeasurer):
    """The simulated systems behind their line protocol."""

    def __init__(self, program, sustained):
        pipe = subprocess.PIPE
        arguments = [program, "serve", str(sustained)]
        self.child = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True)

    def ask(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().strip()

    def measure(self, intended_duration, intended_load):
        """A lost packet is an operation beyond its limit: 0.01 of them are allowed."""
        share = float(self.ask(f"try {intended_load / SCALE} {intended_duration}"))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=OPERATIONS,
            loss_count=round(share * OPERATIONS),
        )


def goal(final_trial, duration_sum):
    return SearchGoal(
        loss_ratio=0.01,
        exceed_ratio=0.5,
        relative_width=0.05 / 1.05,
        initial_trial_duration=min(15.0, final_trial),
        final_trial_duration=final_trial,
        duration_sum=duration_sum,
        preceding_targets=2,
        expansion_coefficient=2,
        fail_fast=False,
    )


def searched(simulator, the_goal):
    config = Config()
    config.goals = [the_goal]
    config.max_load = 16.0 * SCALE
    config.min_load = SCALE / 16.0
    config.search_duration_max = 3600.0
    config.warmup_duration = None
    search = MultipleLossRatioSearch(config=config)
    result = search.search(measurer=simulator, debug=lambda _: None)[the_goal]
    low, high = result.relevant_lower_bound, result.relevant_upper_bound
    return (
        float(low) / SCALE if low is not None else 1.0 / 16.0,
        float(high) / SCALE if high is not None else 16.0,
    )


def main():
    program, first, count, sustained, *goals = sys.argv[1:]
    simulator = Simulator(program, sustained)
    print(HEAD)
    for seed in range(int(first), int(first) + int(count)):
        for pair in goals:
            final_trial, duration_sum = map(float, pair.split(":"))
            simulator.ask(f"system {seed}")
            low, high = searched(simulator, goal(final_trial, duration_sum))
            print(simulator.ask(f"end mlrsearch-{pair} {low} {high}"), flush=True)


main()

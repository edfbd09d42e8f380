# SPDX-License-Identifier: Apache-2.0
"""Runs, recordings and verdicts of plimsoll as data frames.

    import plimsoll

    run = plimsoll.compare(["/mnt/a", "/mnt/b"], ["randread"], output="my-run", blocks=5)
    print(run.verdicts[["workload", "arm", "verdict", "ratio", "ratio_low", "ratio_high"]])

Everything is read through the program itself (`plimsoll report`, `plimsoll profile`); nothing is
computed here. docs/python.md describes the frames.
"""

from plimsoll._program import PlimsollError, start

try:
    from plimsoll._recording import Profile, profile
    from plimsoll._run import Run, compare, import_results, load_line, run, runs
except ModuleNotFoundError as error:
    if error.name not in {"pandas", "pyarrow"}:
        raise
    raise ModuleNotFoundError(
        f"data frames need {error.name}: pip install 'plimsoll[frames]'", name=error.name
    ) from error

__all__ = [
    "PlimsollError",
    "Profile",
    "Run",
    "compare",
    "import_results",
    "load_line",
    "profile",
    "run",
    "runs",
    "start",
]
__version__ = "0.1.0"

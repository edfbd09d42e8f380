# SPDX-License-Identifier: Apache-2.0
"""Recordings of production."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from plimsoll._program import Option, Word, start_json


@dataclass(frozen=True)
class Profile:
    """What is in a recording."""

    #: As `plimsoll profile --json` prints it.
    document: dict[str, Any]
    #: What each device did in each interval; `from` and `to` are its ends.
    intervals: pandas.DataFrame

    @property
    def devices(self) -> pandas.DataFrame:
        """A row for each device, those with the most load first."""
        return pandas.DataFrame(self.document["devices"]["devices"])

    @property
    def warnings(self) -> list[str]:
        """What to know of the recording."""
        return list(self.document["warnings"])


def profile(recording: Word, **options: Option) -> Profile:
    """`plimsoll profile RECORDING`: of all devices, or with `disk="sda"` of one; `from_=` and `to=` limit
    the time."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "intervals.parquet"
        document = start_json("profile", recording, parquet=table, **options)
        intervals = pandas.read_parquet(table)
    for end in ("from", "to"):
        instants = pandas.to_datetime(intervals.pop(f"{end}_unix_ns"), unit="ns", utc=True)
        intervals.insert(1 if end == "from" else 2, end, instants)
    return Profile(document, intervals)

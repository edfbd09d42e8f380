# SPDX-License-Identifier: Apache-2.0
"""Run folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas

from plimsoll._program import Option, PlimsollError, Word, read_json, start


class Run:
    """A run folder. Its frames are read when they are first asked for, and kept."""

    def __init__(self, folder: Word) -> None:
        self.folder = Path(folder)
        if not (self.folder / "manifest.json").is_file():
            raise PlimsollError(2, f"{self.folder} is not a run folder: it has no manifest.json")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The whole run as `plimsoll report --export FILE.json` writes it (schemas/run-results.schema.json)."""
        with tempfile.TemporaryDirectory() as place:
            return read_json(self._export(place, "run.json"))

    @cached_property
    def trials(self) -> pandas.DataFrame:
        """Every trial, by kind of operation and with all kinds together (`kind` is `all`)."""
        with tempfile.TemporaryDirectory() as place:
            return pandas.read_parquet(self._export(place, "trials.parquet"))

    @cached_property
    def intervals(self) -> pandas.DataFrame:
        """Every second of every trial, by kind of operation and with all kinds together."""
        with tempfile.TemporaryDirectory() as place:
            return pandas.read_parquet(self._export(place, "intervals.parquet"))

    @cached_property
    def verdicts(self) -> pandas.DataFrame:
        """A row for each workload and system: its verdict, and the ratio with its interval."""
        frame = pandas.json_normalize(self.document["comparisons"], sep="_")
        return frame.rename(columns={"ratio_estimate": "ratio"})

    @cached_property
    def load_lines(self) -> pandas.DataFrame:
        """A row for each load line: the largest multiple that was carried, with its interval."""
        frame = pandas.DataFrame(self.document["load_lines"]["lines"])
        if "sustained" in frame:
            ends = pandas.DataFrame(
                [line or [None] * 3 for line in frame.pop("sustained")],
                columns=["sustained_low", "sustained", "sustained_high"],
                index=frame.index,
            )
            frame = frame.join(ends)
        return frame

    @property
    def answer(self) -> list[str]:
        """What the report says first."""
        return [finding["text"] for finding in self.document["answer"]]

    @property
    def warnings(self) -> list[str]:
        """What to doubt."""
        return [warning["text"] for warning in self.document["warnings"]]

    def _export(self, place: str, name: str) -> Path:
        path = Path(place) / name
        start("report", self.folder, export=path)
        return path


def runs(folder: Word = "plimsoll-results") -> pandas.DataFrame:
    """A row for each run folder below `folder`, the oldest first; `run` is its `Run`."""
    rows = []
    for manifest in sorted(Path(folder).glob("*/manifest.json")):
        found = Run(manifest.parent)
        told = found.document
        rows.append(
            {
                "id": told["id"],
                "began_at": pandas.to_datetime(told["began_at"], utc=True),
                "workloads": [entry["label"] for entry in told["workloads"]],
                "arms": [arm["name"] for arm in told["arms"] if arm["control_of"] is None],
                "complete": told["complete"],
                "answer": "; ".join(found.answer),
                "run": found,
            }
        )
    columns = ["id", "began_at", "workloads", "arms", "complete", "answer", "run"]
    return pandas.DataFrame(rows, columns=columns).sort_values("began_at", ignore_index=True)


def run(workload: Word, target: Word, output: Word, **options: Option) -> Run:
    """`plimsoll run WORKLOAD TARGET -o OUTPUT`."""
    return _made("run", [workload, target], output, options)


def compare(systems: Iterable[Word], workloads: Iterable[Word], output: Word, **options: Option) -> Run:
    """`plimsoll compare SYSTEM… -w WORKLOAD… -o OUTPUT`: the first system is the base."""
    return _made("compare", list(systems), output, {"workload": list(workloads), **options})


def load_line(
    systems: Iterable[Word], workload: Word, slo: Iterable[str], output: Word, **options: Option
) -> Run:
    """`plimsoll loadline SYSTEM… -w WORKLOAD --slo LIMIT… -o OUTPUT`."""
    return _made("loadline", list(systems), output, {"workload": workload, "slo": list(slo), **options})


def import_results(files: Iterable[Word], output: Word, **options: Option) -> Run:
    """`plimsoll import FILE… -o OUTPUT`: results that other programs printed."""
    return _made("import", list(files), output, options)


def _made(command: str, arguments: list[Word], output: Word, options: dict[str, Option]) -> Run:
    start(command, *arguments, output=os.fspath(output), **options)
    return Run(output)

# SPDX-License-Identifier: Apache-2.0
"""Starts the program and reads what it prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

Word = Union[str, "os.PathLike[str]"]
Option = Union[bool, int, float, Word, Iterable[Word], None]

# Exit codes of a run that leaves a whole run folder: different, inconclusive.
_ANSWERED = {0, 10, 11}


class PlimsollError(RuntimeError):
    """The program refused, or failed; `code` is its exit code (`plimsoll --help` lists them)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def program() -> str:
    """The program: `PLIMSOLL` in the environment, else `plimsoll` on the path."""
    found = os.environ.get("PLIMSOLL") or shutil.which("plimsoll")
    if not found:
        raise PlimsollError(127, "plimsoll is not installed: put it on the PATH, or its path into PLIMSOLL")
    return found


def words(options: dict[str, Option]) -> list[str]:
    """Options as the program takes them: `blocks=5` is --blocks=5, `for_="10s"` is --for=10s,
    `restart=True` is --restart, a list repeats the option; None and False leave it out."""
    found: list[str] = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(option)
        elif isinstance(value, (str, int, float, os.PathLike)):
            found.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        else:
            found.extend(f"{option}={os.fspath(one)}" for one in value)
    return found


def start(command: str, *arguments: Word, **options: Option) -> str:
    """Runs `plimsoll COMMAND --options -- ARGUMENTS` to its end and returns what it printed."""
    line = [program(), command, *words(options), "--", *(os.fspath(word) for word in arguments)]
    ended = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode not in _ANSWERED:
        message = ended.stderr.strip() or f"plimsoll {command} ended with {ended.returncode}"
        raise PlimsollError(ended.returncode, message)
    return ended.stdout


def start_json(command: str, *arguments: Word, **options: Option) -> dict[str, Any]:
    """As `start`, with the JSON that it prints."""
    document = json.loads(start(command, *arguments, json=True, **options))
    if not isinstance(document, dict):
        raise PlimsollError(1, f"plimsoll {command} --json printed no object")
    return document


def read_json(path: Path) -> dict[str, Any]:
    """A document that the program wrote."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Facts that an older state of the manual names and a newer one does not: options, values, units, limits, errors,
exit codes, variables, names in code.

    bench/manual_facts.py OLD_ROOT NEW_ROOT [--page docs/loadline.md]

A fact may move to another page; so all pages of NEW_ROOT are read, references of commands among them. Exits with 1
where a fact is missing, and prints where it was. Words of a page, without blocks of code, are counted beside it.
"""

import argparse
import pathlib
import re
import sys

PAGES = ("README.md", "docs/*.md", "docs/stacks/*.md", "docs/workloads/*.md")
ELSEWHERE = ("docs/**/*.md", "crates/**/*.md", "SECURITY.md", "CONTRIBUTING.md", "examples/*.md")
UNITS = (
    r"(?:%|ns|us|µs|ms|s|min|h|seconds?|minutes?|hours?|days?|weeks?|KiB|MiB|GiB|TiB|KB|MB|GB|TB|bytes|sectors|"
    r"blocks|trials|loads|cuts|states|nodes|samples|threads|lines|times|rounds|disks|files|columns|IOPS)"
)
QUANTITY = re.compile(r"(?<![\w.])(\d[\d.,]*(?: \d{3})*)[\s-]?(" + UNITS + r")\b|(?<![\w.])(\d[\d.,]*) ?%")
CODE = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
EXIT = re.compile(r"exit(?:s with| codes?)? (\d+)")
VARIABLE = re.compile(r"\b[A-Z][A-Z_]{4,}\b")


def facts(line):
    """What one line of a page states, in a form that does not depend on the words around it."""
    for code in CODE.findall(line):
        yield "code", " ".join(code.split())
    for option in OPTION.findall(line):
        yield "option", option
    for match in QUANTITY.finditer(line):
        number = (match.group(1) or match.group(3)).rstrip(".,").replace(" ", "")
        yield "quantity", f"{number} {(match.group(2) or '%').rstrip('s') or 's'}"
    for number in EXIT.findall(line):
        yield "exit code", number
    for name in VARIABLE.findall(line):
        yield "variable", name
    if line.strip().startswith(("error:", "hint:")):
        yield "error", line.strip()


def pages(root, patterns):
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def words(text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return sum(len(line.split()) for line in prose.splitlines() if not line.startswith("    "))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--page", action="append", default=[])
    chosen = parser.parse_args()
    everything = "\n".join(page.read_text() for page in pages(chosen.new, PAGES + ELSEWHERE))
    known = {fact for line in everything.splitlines() for fact in facts(line)}
    # Code in a block is code as well.
    flat = " ".join(everything.split())
    missing = before = after = 0
    for page in pages(chosen.old, PAGES):
        name = str(page.relative_to(chosen.old))
        if chosen.page and name not in chosen.page:
            continue
        text = page.read_text()
        newer = chosen.new / name
        counted = (words(text), words(newer.read_text()) if newer.exists() else 0)
        before, after = before + counted[0], after + counted[1]
        print(f"{name}: {counted[0]} words, {counted[1]} now")
        for number, line in enumerate(text.splitlines(), 1):
            for kind, fact in facts(line):
                if (kind, fact) in known or (kind == "code" and fact in flat):
                    continue
                missing += 1
                print(f"  {name}:{number}: {kind} {fact!r} is named nowhere now")
    print(f"{before} words before, {after} after; {missing} facts missing")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a run of the tests is green, from what nextest announced and what it reported.

    verdict.py LIST JUNIT EXIT_CODE

LIST is the output of `cargo nextest list --message-format json`, JUNIT its report, EXIT_CODE that of
`cargo nextest run`. Nextest knows how the process of each test ended. This adds what it cannot know:

* every announced test has a result, and the exit code fits the results;
* the process of a test that passed ended with the closing line of Rust's test runner: a process that
  exits by itself before, with 0, tested nothing;
* no other thread of it panicked: where its result is dropped, the test passes;
* a test that was left out is counted, and its reason is one of `.config/skips.txt`;
* a test that passed only when it was repeated is in `.config/flaky.txt`.

The last line counts tests; the exit code is 0 if all is green, 1 if not.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / ".config"
FLAKY_MAX = 5
SLOWEST = 12
# Exit code of nextest when tests failed, and nothing else did.
TESTS_FAILED = 100
CLOSING = re.compile(r"^test result: ok\. 1 passed; 0 failed; 0 ignored; ", re.MULTILINE)
PANIC = re.compile(r"^thread '(.*?)' (?:\(\d+\) )?panicked at ", re.MULTILINE)
SKIP = re.compile(r"SKIPPED:? *(.*?)[ *]*$", re.MULTILINE)


def listed(name):
    """The entries of a file with one a line; the rest of a line, behind two spaces, says why."""
    lines = (CONFIG / name).read_text(encoding="utf-8").splitlines()
    return [line.split("  ")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def announced(path):
    """Names of the tests that are to run, and of those that are ignored."""
    suites = json.loads(Path(path).read_text(encoding="utf-8"))["rust-suites"]
    run, ignored = set(), set()
    for suite, found in suites.items():
        for name, test in found["testcases"].items():
            if test["filter-match"]["status"] == "matches":
                run.add(f"{suite} {name}")
            elif test["ignored"]:
                ignored.add(f"{suite} {name}")
    return run, ignored


class Verdict:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.flaky = set(), {}, {}, set()
        self.took = {}

    def fail(self, test, why):
        self.failed.setdefault(test, []).append(why)

    def read(self, test, case):
        self.took[test] = float(case.get("time", 0))
        ends = [kind for kind in ("failure", "error") if case.find(kind) is not None]
        for kind in ends:
            self.fail(test, case.find(kind).get("type") or kind)
        if ends or case.find("skipped") is not None:
            return
        self.passed.add(test)
        if case.find("flakyFailure") is not None:
            self.flaky.add(test)
        output = case.findtext("system-out") or ""
        errors = case.findtext("system-err") or ""
        self.check_closing(test, output)
        self.check_threads(test, output + "\n" + errors)
        self.check_skips(test, output + "\n" + errors)

    def check_closing(self, test, output):
        if not CLOSING.search(output):
            self.fail(test, "its process ended with 0 and without a result")

    def check_threads(self, test, text):
        own = test.split(" ", 1)[1]
        for thread in PANIC.findall(text):
            # Rust's test runner judges panics of the thread that it gave the test's name.
            if thread != own:
                self.fail(test, f"thread '{thread}' panicked")

    def check_skips(self, test, text):
        reasons = listed("skips.txt")
        for found in SKIP.finditer(text):
            reason = found.group(1)
            self.skipped[test] = reason
            if not any(known in reason for known in reasons):
                self.fail(test, f"left out for no reason in .config/skips.txt: '{reason}'")

    def check_flaky(self):
        allowed = listed("flaky.txt")
        if len(allowed) > FLAKY_MAX:
            self.fail(".config/flaky.txt", f"{len(allowed)} names, and {FLAKY_MAX} at most are allowed")
        for test in sorted(self.flaky):
            if test not in allowed:
                self.fail(test, "passed only when it was repeated, and is not in .config/flaky.txt")


def judge(list_path, junit_path, code):
    verdict = Verdict()
    run, ignored = announced(list_path)
    reported = set()
    for suite in ElementTree.parse(junit_path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            test = f"{suite.get('name')} {case.get('name')}"
            if test in reported:
                verdict.fail(test, "has two results")
            reported.add(test)
            verdict.read(test, case)
    for test in run - reported:
        verdict.fail(test, "has no result")
    for test in verdict.passed - run:
        verdict.fail(test, "has a result and was not announced")
    for test in ignored:
        verdict.skipped[test] = "takes long, or needs what a change does not have: run it by name"
    if not run:
        verdict.fail("all tests", "none was announced")
    bad_ends = [why for whys in verdict.failed.values() for why in whys if why.startswith("test ")]
    if code not in (0, TESTS_FAILED) or (code == TESTS_FAILED) != bool(bad_ends):
        verdict.fail("cargo nextest run", f"exit code {code} does not fit the results")
    verdict.check_flaky()
    return verdict


def tell(verdict):
    slowest = sorted(verdict.took, key=verdict.took.get, reverse=True)[:SLOWEST]
    print("\nslowest:")
    for test in slowest:
        print(f"  {verdict.took[test]:7.1f} s  {test}")
    for test, reason in sorted(verdict.skipped.items()):
        print(f"skipped: {test}: {reason}")
    for test in sorted(verdict.flaky):
        print(f"flaky: {test}")
    for test, whys in sorted(verdict.failed.items()):
        for why in dict.fromkeys(whys):
            print(f"failed: {test}: {why}")
    passed = verdict.passed - set(verdict.failed) - set(verdict.skipped)
    skipped = set(verdict.skipped) - set(verdict.failed)
    print(f"\n{len(passed)} passed, {len(verdict.failed)} failed, {len(skipped)} skipped")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.split("\n\n")[1])
    verdict = judge(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    tell(verdict)
    sys.exit(1 if verdict.failed else 0)


main()

# SPDX-License-Identifier: Apache-2.0
"""The package against the program that PLIMSOLL names; `crates/plimsoll/tests/integration/cli/python.rs` starts it."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import plimsoll
from plimsoll._program import words

SAMPLES = Path(os.environ.get("PLIMSOLL_SAMPLES", "."))


class Package(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)

    def test_options_are_those_of_the_program(self) -> None:
        options = {"blocks": 5, "for_": "10s", "no_self_test": True, "shared": False, "on": None}
        self.assertEqual(words(options), ["--blocks=5", "--for=10s", "--no-self-test"])
        self.assertEqual(words({"workload": ["a b", Path("c")]}), ["--workload=a b", "--workload=c"])

    def test_a_comparison_is_frames(self) -> None:
        folder = self.place / "run"
        run = plimsoll.compare(["sim(flash)", "sim(disk)"], ["randread"], folder, blocks=3, for_="2s")
        seen = sorted(path.name for path in folder.iterdir())
        [verdict] = run.verdicts[~run.verdicts["is_control"]].to_dict("records")
        self.assertEqual((verdict["arm"], verdict["verdict"]), ("sim(disk)", "different"))
        self.assertLess(verdict["ratio_low"], verdict["ratio"])
        self.assertLess(verdict["ratio"], verdict["ratio_high"])
        every = run.trials[run.trials["kind"] == "all"]
        # Two systems and the control of the first, three times each.
        self.assertEqual(len(every), 9)
        seconds = run.intervals[run.intervals["kind"] == "all"]
        keys = ["workload", "arm", "block"]
        summed = seconds.groupby(keys)["ops"].sum()
        self.assertTrue((summed == every.set_index(keys)["ops"].sort_index()).all())
        self.assertTrue(run.load_lines.empty)
        self.assertIn("sim(disk)", run.answer[0])
        # Reading a run leaves it as it was.
        self.assertEqual(sorted(path.name for path in folder.iterdir()), seen)
        found = plimsoll.runs(self.place)
        self.assertEqual(found["arms"].to_list(), [["sim(flash)", "sim(disk)"]])
        self.assertEqual(found["run"][0].folder, folder)
        self.assertTrue(plimsoll.runs(self.place / "run").empty)

    def test_a_recording_is_frames(self) -> None:
        log = self.place / "lat.log"
        rows = [f"{ms}, 500000, {ms % 2}, 4096, {ms * 4096}, 0\n" for ms in range(10, 2010, 2)]
        rows += [f"{ms}, 500000, 1, 8192, 0, 0\n" for ms in range(2010, 2020)]
        log.write_text("".join(rows))
        profile = plimsoll.profile(log)
        self.assertEqual(profile.devices["name"].to_list(), ["file"])
        self.assertEqual(profile.intervals["reads"].sum(), 1000)
        self.assertEqual(profile.intervals["write_bytes"].sum(), 10 * 8192)
        self.assertTrue((profile.intervals["to"] > profile.intervals["from"]).all())
        self.assertTrue(any("resolution" in warning for warning in profile.warnings))

    def test_a_load_line_has_its_interval(self) -> None:
        run = plimsoll.Run(SAMPLES)
        lines = run.load_lines
        told = json.loads(plimsoll.start("report", SAMPLES, html=self.place / "page.html", json=True))
        self.assertEqual(len(lines), len(told["load_lines"]["lines"]))
        self.assertGreater(len(lines), 0)
        middle = lines["sustained"].dropna()
        self.assertTrue((lines["sustained_low"].dropna() <= middle).all())
        self.assertTrue((middle <= lines["sustained_high"].dropna()).all())

    def test_results_of_others_become_a_run(self) -> None:
        table = self.place / "old.txt"
        table.write_text("[RESULT]  ior-easy-write  1.5 GiB/s : time 301.5 seconds\n")
        run = plimsoll.import_results([table], self.place / "imported")
        self.assertEqual(run.document["arms"][0]["name"], "old")
        self.assertTrue(run.warnings)

    def test_what_the_program_refuses_is_an_error_with_its_words(self) -> None:
        with self.assertRaises(plimsoll.PlimsollError) as caught:
            plimsoll.profile(self.place / "none")
        self.assertEqual(caught.exception.code, 2)
        self.assertIn("find a recording at", str(caught.exception))
        with self.assertRaises(plimsoll.PlimsollError):
            plimsoll.Run(self.place)


if __name__ == "__main__":
    unittest.main()

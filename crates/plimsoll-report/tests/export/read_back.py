# SPDX-License-Identifier: Apache-2.0
"""Reads the exported files of this directory with the libraries that people use, and compares what they
find with expected.json. The argument is the root of the repository, whose docs/exports.md has the snippets."""

import contextlib
import io
import json
import math
import pathlib
import re
import sys

import duckdb
import jsonschema
import openpyxl
import pandas
import xmlschema
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

root = pathlib.Path(sys.argv[1])
expected = json.load(open("expected.json", encoding="utf-8"))
seconds = {(row["place"], row["t_s"]): row for row in expected["seconds"]}


def guarded(name):
    """A name as CSV has it."""
    return "'" + name if name[:1] in "=+-@" else name


def same_time(found, expected_ns, what):
    if expected_ns is None:
        assert found is None or math.isnan(found), (what, found)
    else:
        assert abs(found - expected_ns / 1e9) <= 1e-12 + 1e-9 * abs(found), (what, found, expected_ns)


def in_xml(name):
    """A name as XML can hold it."""
    return name.replace("\ufffe", "\ufffd")


def compare_intervals(rows, what, name=str):
    """Rows are dictionaries of all kinds together."""
    found = {(int(row["place"]), float(row["t_s"])): row for row in rows}
    assert found.keys() == seconds.keys(), what
    for key, row in found.items():
        expect = seconds[key]
        assert row["arm"] == name(expect["arm"]), (what, row["arm"], expect["arm"])
        assert row["workload"] == name(expect["workload"]), (what, row["workload"])
        assert int(row["ops"]) == expect["ops"], (what, row, expect)
        assert int(row["bytes"]) == expect["bytes"], (what, row, expect)
        for column in ("p50", "p99", "max"):
            same_time(row[f"response_{column}_s"], expect[f"{column}_ns"], (what, key, column))


def compare_trials(rows, what, name=str):
    found = {int(row["place"]): row for row in rows}
    assert len(found) == len(expected["trials"]), what
    for expect in expected["trials"]:
        row = found[expect["place"]]
        assert row["arm"] == name(expect["arm"]), (what, row["arm"])
        assert int(row["ops"]) == expect["ops"] and int(row["bytes"]) == expect["bytes"], (what, row)
        same_time(row["response_p99_s"], expect["p99_ns"], what)


def all_kinds(table):
    return table[table["kind"] == "all"].to_dict("records")


def parquet_and_csv():
    compare_intervals(all_kinds(pandas.read_parquet("intervals.parquet")), "pandas, Parquet")
    compare_trials(all_kinds(pandas.read_parquet("trials.parquet")), "pandas, Parquet")
    compare_intervals(all_kinds(pandas.read_csv("intervals.csv")), "pandas, CSV", guarded)
    compare_trials(all_kinds(pandas.read_csv("trials.csv")), "pandas, CSV", guarded)
    for file, name in (("intervals.parquet", str), ("intervals.csv", guarded)):
        query = duckdb.sql(f"SELECT * FROM '{file}' WHERE kind = 'all'")
        rows = [dict(zip(query.columns, row)) for row in query.fetchall()]
        compare_intervals(rows, f"DuckDB, {file}", name)
    kinds = pandas.read_parquet("intervals.parquet")
    parts = kinds[kinds["kind"] != "all"].groupby(["place", "t_s"])["ops"].sum()
    assert parts.to_dict() == {key: row["ops"] for key, row in seconds.items()}


def sheet(book, name):
    rows = book[name].iter_rows(values_only=True)
    columns = next(rows)
    return [dict(zip(columns, row)) for row in rows]


def spreadsheet():
    book = openpyxl.load_workbook("run.xlsx")
    assert book.sheetnames == ["answer", "verdicts", "trials", "intervals"], book.sheetnames
    for name in book.sheetnames:
        kinds = {cell.data_type for row in book[name].iter_rows() for cell in row}
        assert "f" not in kinds, "no cell is a formula"
    compare_intervals([row for row in sheet(book, "intervals") if row["kind"] == "all"], "openpyxl", in_xml)
    compare_trials([row for row in sheet(book, "trials") if row["kind"] == "all"], "openpyxl", in_xml)
    assert sheet(book, "verdicts") and sheet(book, "answer")[0]["answer"]


def histogram_log():
    """The log has the seconds of the trials in the order these ran, which is that of their places."""
    reader = HistogramLogReader("run.hlog", HdrHistogram(1, 1 << 47, 3))
    rows = iter(sorted(seconds.items()))
    count = 0
    while (histogram := reader.get_next_interval_histogram()) is not None:
        _, expect = next(rows)
        assert histogram.get_total_count() == expect["ops"], expect
        for share, name in ((0.5, "p50_ns"), (0.99, "p99_ns"), (1.0, "max_ns")):
            if expect[name]:
                # The library rounds the rank; ours is the first value that so many do not exceed.
                rank = math.ceil(share * expect["ops"])
                found = histogram.get_value_at_percentile(100 * rank / expect["ops"])
                assert abs(found / expect[name] - 1) < 1e-3, (found, expect)
        assert histogram.get_tag() is not None
        count += 1
    assert count == len(seconds), count


def document():
    run = json.load(open("run.json", encoding="utf-8"))
    schema = json.load(open(root / "schemas/run-results.schema.json", encoding="utf-8"))
    jsonschema.validate(run, schema)
    for trial, expect in zip(run["trials"], expected["trials"], strict=True):
        assert sum(kind["ops"] for kind in trial["kinds"].values()) == expect["ops"]
        for second in trial["intervals"]:
            ops = sum(kind["ops"] for kind in second["kinds"].values())
            assert ops == seconds[trial["place"], second["start_ns"] / 1e9]["ops"]


def gate():
    schema = xmlschema.XMLSchema(root / "crates/plimsoll-report/tests/export/junit.xsd")
    schema.validate("run.xml")
    cases = schema.to_dict("run.xml")["testsuite"][0]["testcase"]
    arms = {row["arm"] for row in expected["trials"]}
    told = [case["@name"] for case in cases]
    assert all(any(name.startswith(arm) for name in told) for arm in arms), (arms, told)


def snippets():
    page = (root / "docs/exports.md").read_text(encoding="utf-8")
    count = 0
    for language, code in re.findall(r"```(python|sql)\n(.*?)```", page, re.DOTALL):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, {})
            assert "response_p99_s" in printed.getvalue(), printed.getvalue()
        else:
            for query in code.split(";"):
                if query.strip():
                    assert duckdb.sql(query).fetchall(), query
        count += 1
    return count


parquet_and_csv()
spreadsheet()
histogram_log()
document()
gate()
print(f"read back: 7 formats, {snippets()} snippets")

# SPDX-License-Identifier: Apache-2.0
"""Writes counters of two disks as tables of every form, and what pandas says was counted."""

import json
import sys

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet

folder = sys.argv[1]
ROWS = 500
rng = numpy.random.default_rng(20261127)
disks = ["sda", "nvme0n1"]
time = pandas.date_range("2026-11-21T00:15:32.25Z", periods=ROWS, freq="2s")

frames = []
for disk in disks:
    counts = {
        "reads_completed_total": rng.integers(0, 5_000, ROWS),
        "written_bytes_total": 4096 * rng.integers(0, 50_000, ROWS),
        "read_time_seconds_total": rng.integers(0, 4_000, ROWS) / 1_000,
    }
    risen = {name: numpy.cumsum(rises) + 7 for name, rises in counts.items()}
    frames.append(pandas.DataFrame({"time": time, "device": disk, **risen}))
frame = pandas.concat(frames).sort_values(["time", "device"]).reset_index(drop=True)
figures = list(frame.columns[2:])

# What was counted: of counters and of rates as pandas adds them up.
expected = {}
for disk, rows in frame.groupby("device"):
    expected[disk] = {name: float(rows[name].iloc[-1] - rows[name].iloc[0]) for name in figures}
with open(f"{folder}/expected.json", "w") as file:
    json.dump(expected, file)

frame.to_csv(f"{folder}/comma.csv", index=False)
frame.to_csv(f"{folder}/index.csv")
frame.to_csv(f"{folder}/german.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
frame.to_csv(f"{folder}/tabs.csv", index=False, sep="\t", encoding="utf-16", quoting=1)
frame.to_csv(f"{folder}/comma.csv.gz", index=False)
for unit, divide in [("ns", 1), ("us", 1_000), ("ms", 1_000_000)]:
    per = {"ns": 1, "us": 1_000, "ms": 1_000_000}[frame["time"].dt.unit]
    ns = frame["time"].astype("int64") * per
    frame.assign(time=ns // divide).to_csv(f"{folder}/epoch_{unit}.csv", index=False)
frame.to_json(f"{folder}/lines.json", orient="records", lines=True, date_format="iso")
frame.to_json(f"{folder}/list.json", orient="records", date_format="iso")
long = frame.melt(id_vars=["time", "device"], var_name="metric")
long.to_csv(f"{folder}/long.csv", index=False)
long.sample(frac=1, random_state=3).to_json(f"{folder}/long.json", orient="records", lines=True, date_format="iso")
wide = frame.pivot(index="time", columns="device", values=figures)
wide.columns = [f"{disk} {name}" for name, disk in wide.columns]
wide.to_csv(f"{folder}/wide.csv")
rates = frame.copy()
rates[figures] = rates.groupby("device")[figures].diff() / 2.0
rates.columns = [name.replace("_total", "_per_second") for name in rates.columns]
rates.to_csv(f"{folder}/rates.csv", index=False)
rates.to_parquet(f"{folder}/rates.parquet")

frame.to_parquet(f"{folder}/pandas.parquet")
holes = frame.astype({"reads_completed_total": "Int64"})
holes.to_parquet(f"{folder}/nullable.parquet", row_group_size=64)
wide.reset_index().to_parquet(f"{folder}/wide.parquet", compression="zstd")
long.to_parquet(f"{folder}/long.parquet", compression="gzip")
counted = pyarrow.Table.from_pandas(frame, preserve_index=False)
pyarrow.parquet.write_table(counted, f"{folder}/spark.parquet", flavor="spark", use_deprecated_int96_timestamps=True)
polars.from_arrow(counted).write_parquet(f"{folder}/polars.parquet")
polars.from_arrow(counted).write_ndjson(f"{folder}/polars.ndjson")
polars.from_arrow(counted).write_csv(f"{folder}/polars.csv")
duckdb.sql(f"COPY counted TO '{folder}/duckdb.parquet' (FORMAT PARQUET)")
duckdb.sql(f"COPY counted TO '{folder}/duckdb.csv'")
duckdb.sql(f"COPY counted TO '{folder}/duckdb.json'")

# Files of some kilobytes of which a page would become 40 MB.
bomb = pyarrow.table({"time": pyarrow.array([0], pyarrow.timestamp("us", "UTC")), "disk": ["x" * 40_000_000], "r/s": [0.0]})
for codec in ["snappy", "gzip", "zstd", "lz4"]:
    for plain in [True, False]:
        name = f"{folder}/bomb_{codec}_{plain}.parquet"
        pyarrow.parquet.write_table(bomb, name, compression=codec, use_dictionary=not plain, write_statistics=False)

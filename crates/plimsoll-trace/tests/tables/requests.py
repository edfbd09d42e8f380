# SPDX-License-Identifier: Apache-2.0
"""Writes one table of requests as pandas, pyarrow, polars and DuckDB do, by default and otherwise."""

import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet

folder = sys.argv[1]
ROWS = 10_000
BEGIN = 1_700_000_000_000_000_000

at_ns = [BEGIN + n * 2_000_000 for n in range(ROWS)]
took = [None if n % 7 == 0 else n % 50_000 for n in range(ROWS)]
columns = {
    "took_ns": took,
    "kind": ["READ" if n % 3 else "write" for n in range(ROWS)],
    "device": [f"nvme{n % 2}n1" for n in range(ROWS)],
    "offset": [n * 7919 << 12 for n in range(ROWS)],
    "bytes": [4096 if n % 5 else 65536 for n in range(ROWS)],
}

frame = pandas.DataFrame({"at_ns": pandas.to_datetime(at_ns, utc=True), **columns})
frame["took_ns"] = frame["took_ns"].astype("Int64")
frame.to_parquet(f"{folder}/pandas_default")
frame.assign(device=frame["device"].astype("category")).to_parquet(f"{folder}/pandas_category")

plain = pyarrow.table({"at_ns": pyarrow.array(at_ns, pyarrow.int64()), **columns})
for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
    for version in ["1.0", "2.0"]:
        pyarrow.parquet.write_table(
            plain,
            f"{folder}/pyarrow_{codec}_{version}",
            compression=codec,
            data_page_version=version,
            row_group_size=3_000,
        )
pyarrow.parquet.write_table(plain, f"{folder}/pyarrow_plain", use_dictionary=False)
for unit in ["ms", "us", "ns"]:
    for zone in [None, "UTC", "Asia/Tokyo"]:
        divide = {"ms": 1_000_000, "us": 1_000, "ns": 1}[unit]
        typed = pyarrow.array([at // divide for at in at_ns], pyarrow.timestamp(unit, zone))
        table = plain.set_column(0, "at_ns", typed)
        name = f"timestamp_{unit}_{zone or 'naive'}".replace("/", "-")
        pyarrow.parquet.write_table(table, f"{folder}/{name}")
typed = plain.set_column(0, "at_ns", pyarrow.array(at_ns, pyarrow.timestamp("ns")))
# As Spark before 3.0 and Hive write instants.
pyarrow.parquet.write_table(
    typed, f"{folder}/int96", use_deprecated_int96_timestamps=True, flavor="spark"
)

polars.from_arrow(typed).write_parquet(f"{folder}/polars_naive")
polars.DataFrame({"at_ns": at_ns, **columns}).write_parquet(f"{folder}/polars_default")

duckdb.sql(f"COPY plain TO '{folder}/duckdb_default' (FORMAT PARQUET)")
duckdb.sql(f"COPY plain TO '{folder}/duckdb_zstd' (FORMAT PARQUET, CODEC 'ZSTD', PARQUET_VERSION V2)")

# What is refused, and not taken for something else.
pyarrow.parquet.write_table(plain, f"{folder}/refused_brotli", compression="brotli")
decimals = pyarrow.array([str(bytes_) for bytes_ in columns["bytes"]]).cast(pyarrow.decimal128(9, 3))
pyarrow.parquet.write_table(
    plain.set_column(5, "bytes", decimals), f"{folder}/refused_decimal", store_decimal_as_integer=True
)

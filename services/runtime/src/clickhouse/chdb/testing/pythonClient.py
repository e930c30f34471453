"""Inserts and reads with clickhouse-connect as a data team does, with each supported compression, and compares the rows.

Usage: pythonClient.py <port> <password>. Prints a line for each successful check, and fails at the first failed one.
"""

import datetime
import sys
from decimal import Decimal

import clickhouse_connect
import pandas as pd
import pyarrow as pa
from clickhouse_connect.driver.exceptions import DatabaseError

PORT, PASSWORD = int(sys.argv[1]), sys.argv[2]
ROWS = 60_000
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)


def connect(compress):
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=PORT, username="default", password=PASSWORD, compress=compress
    )


def check(compress):
    client = connect(compress)
    client.command("DROP TABLE IF EXISTS python")
    client.command(
        "CREATE TABLE python (a UInt64, s String, d DateTime64(6), n Nullable(Decimal(18, 4))) "
        "ENGINE = MergeTree ORDER BY a"
    )

    def totals():
        return client.query("SELECT count(), sum(a), uniqExact(a), sum(length(s)) FROM python").result_rows[0]

    # Long rows, so that the client splits the insert into several blocks and compresses each block separately.
    rows = [[a, f"row {a} " + "x" * 500, AT, Decimal("1.5") if a % 2 else None] for a in range(ROWS)]
    context = client.create_insert_context("python", data=rows)
    assert context.block_row_count < ROWS / 2, context.block_row_count
    summary = client.insert(context=context)
    text_bytes = sum(len(row[1]) for row in rows)
    assert totals() == (ROWS, ROWS * (ROWS - 1) // 2, ROWS, text_bytes), totals()
    assert summary.written_rows == ROWS, summary.summary
    print(compress, "insert", ROWS)

    frame = pd.DataFrame({"a": range(ROWS, ROWS + 1000), "s": "é", "d": [pd.Timestamp(AT)] * 1000})
    client.insert_df("python", frame)
    client.insert_arrow(
        "python",
        pa.table({"a": pa.array(range(ROWS + 1000, ROWS + 1500), pa.uint64()), "s": ["arrow"] * 500, "d": [AT] * 500}),
    )
    assert totals()[0] == ROWS + 1500, totals()
    print(compress, "insert_df, insert_arrow")

    table = client.query_arrow("SELECT * FROM python ORDER BY a")
    assert table.num_rows == ROWS + 1500
    assert table["a"].to_pylist() == list(range(ROWS + 1500))
    frame = client.query_df("SELECT * FROM python ORDER BY a")
    assert frame["a"].tolist() == list(range(ROWS + 1500))
    assert frame["s"].iloc[ROWS] == "é" and frame["d"].iloc[0] == pd.Timestamp(AT)
    result = client.query("SELECT * FROM python WHERE a < 2 ORDER BY a").result_rows
    assert result == [tuple(rows[0]), tuple(rows[1])], result
    print(compress, "query_arrow, query_df, query")

    text = "it's \\ a\ttab, a\nline and ü"
    bound = client.query("SELECT {t:String}, {l:Array(Int32)}", parameters={"t": text, "l": [1, 2]})
    assert bound.result_rows == [(text, [1, 2])], bound.result_rows
    assert client.query("SELECT %(t)s", parameters={"t": text}).result_rows == [(text,)]
    print(compress, "parameters")
    client.close()


def check_lz4():
    """The client's default: inserts are rejected with a clear message, and reads are not compressed."""
    client = connect("lz4")
    try:
        client.insert("python", [[1, "x", AT, None]])
        raise AssertionError("lz4 was taken")
    except DatabaseError as error:
        assert "supports gzip, deflate, br, zstd, and none" in str(error), error
    assert client.command("SELECT count() FROM python") == ROWS + 1500
    client.close()
    print("lz4 is rejected, reads continue")


def check_errors():
    client = connect("zstd")
    try:
        client.query("SELECT * FROM nothing")
        raise AssertionError("no error for an unknown table")
    except DatabaseError as error:
        assert "UNKNOWN_TABLE" in str(error), error
    try:
        client.insert("python", [["no number", "x", AT, None]])
        raise AssertionError("no error for a value of the wrong type")
    except AssertionError:
        raise
    except Exception:
        pass
    assert client.command("SELECT 1") == 1
    assert client.command("SELECT count() FROM python") == ROWS + 1500
    with client.query_row_block_stream("SELECT number FROM numbers(500000)") as stream:
        assert sum(len(block) for block in stream) == 500_000
    print("errors, commands, streams")


assert connect(True).server_version.startswith("26."), connect(True).server_version
for compress in (False, "zstd", "gzip"):
    check(compress)
check_lz4()
check_errors()

"""Reads from ClickHouse with clickhouse-connect, SQLAlchemy, and dbt, as notebooks, Superset, and analysts do.

Usage: pythonClients.py <host>:<port> <user> <password>. The last line of the output has the results as JSON.
"""

import json
import re
import signal
import sys
import tempfile
from pathlib import Path

import clickhouse_connect
import sqlalchemy
from clickhouse_connect.driver.exceptions import DatabaseError, ProgrammingError
from dbt.cli.main import dbtRunner

HOST, PORT = sys.argv[1].split(":")
USER, PASSWORD = sys.argv[2], sys.argv[3]
ENDLESS = "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"
ROWS = "SELECT number, toString(number) AS text FROM numbers(1000000)"
FEWER_ROWS = "SELECT number, toString(number) AS text FROM numbers(100000)"
# dbt infers the type of each column from all previewed values, which is slow for many rows.
PREVIEWED_ROWS = "SELECT number, toString(number) AS text FROM numbers(10000)"


def error_of(work):
    try:
        work()
    except ProgrammingError as error:
        return str(error)
    except (DatabaseError, sqlalchemy.exc.DatabaseError) as error:
        return re.search(r"Code: \d+\. .*\([A-Z_]+\)", str(error)).group()
    return "none"


def is_interrupted(work):
    """Interrupts the work like the button of a notebook. The tests check that ClickHouse then cancels the query."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def read_with_clickhouse_connect():
    # A client rejects a setting that `system.settings` does not list, or lists as read-only.
    settings = {"max_execution_time": 20, "max_threads": 2, "join_use_nulls": 1}
    client = clickhouse_connect.get_client(
        host=HOST, port=int(PORT), username=USER, password=PASSWORD, database="questlog", settings=settings
    )
    rows = client.query(ROWS)
    with client.query_row_block_stream(FEWER_ROWS) as stream:
        streamed = sum(len(block) for block in stream)
    with client.query_arrow_stream(FEWER_ROWS) as stream:
        arrow = sum(table.num_rows for table in stream)
    threads = client.query("SELECT getSetting('max_threads')", settings={"max_threads": 1}).first_item
    results = {
        "version": client.server_version,
        "tables": client.query("SELECT name FROM system.tables WHERE database = 'questlog'").result_columns,
        "columns": len(client.query("DESCRIBE TABLE all_types").result_rows),
        "types": [[str(value) for value in row] for row in client.query("SELECT * FROM all_types ORDER BY u").result_rows],
        "parameters": client.query("SELECT {u:UInt64}", parameters={"u": 7}).result_rows,
        "rows": [rows.row_count, sum(len(text) for text in rows.result_columns[1])],
        "streamed": [streamed, arrow],
        "arrow": client.query_arrow("SELECT u, s FROM all_types ORDER BY u").num_rows,
        "dataframe": list(client.query_df("SELECT u, n, at6 FROM all_types ORDER BY u").shape),
        "threads": threads["getSetting('max_threads')"],
        "error": error_of(lambda: client.query("SELECT * FROM no_such_table")),
        "timeout": error_of(lambda: client.query(ENDLESS, settings={"max_execution_time": 1})),
        "setting": error_of(lambda: client.query("SELECT 1", settings={"format_schema": "x"})),
        "canceled": is_interrupted(lambda: client.query(ENDLESS)),
    }
    client.close()
    return results


def read_with_sqlalchemy():
    engine = sqlalchemy.create_engine(f"clickhousedb://{USER}:{PASSWORD}@{HOST}:{PORT}/questlog")
    inspector = sqlalchemy.inspect(engine)
    table = sqlalchemy.Table("all_types", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        run = lambda sql: connection.execute(sqlalchemy.text(sql))
        select = sqlalchemy.select(table).where(table.c.u > 0).order_by(table.c.u)
        return {
            "schemas": "questlog" in inspector.get_schema_names(),
            "tables": inspector.get_table_names(),
            "columns": len(inspector.get_columns("all_types")),
            "types": [[str(value) for value in row] for row in connection.execute(select)],
            "rows": sum(1 for _ in run(ROWS)),
            "error": error_of(lambda: run("SELECT * FROM no_such_table")),
            "timeout": error_of(lambda: run(ENDLESS + " SETTINGS max_execution_time = 1")),
            "canceled": is_interrupted(lambda: run(ENDLESS)),
        }


def read_with_dbt():
    output = {"type": "clickhouse", "schema": "questlog", "host": HOST, "port": int(PORT), "user": USER, "password": PASSWORD}
    limited = {**output, "custom_settings": {"max_execution_time": 1}}
    profile = {"questlog": {"target": "reader", "outputs": {"reader": output, "limited": limited}}}
    with tempfile.TemporaryDirectory() as folder:
        # JSON is valid YAML.
        project = {"name": "questlog", "version": "1.0.0", "profile": "questlog"}
        Path(folder, "dbt_project.yml").write_text(json.dumps(project))
        Path(folder, "profiles.yml").write_text(json.dumps(profile))
        options = ["--quiet", "--no-version-check", "--no-send-anonymous-usage-stats", "--log-path", folder]

        def show(sql, *more):
            return dbtRunner().invoke([*options, "show", "--project-dir", folder, "--profiles-dir", folder, "--inline", sql, *more])

        def code_of(answer):
            return answer.success or re.search(r"Code: \d+", str(answer.exception)).group()

        # dbt returns decimals, dates, and times as text, and parses numbers in texts.
        types = show("SELECT * FROM all_types ORDER BY u").result.results[0].agate_table
        return {
            "columns": len(types.column_names),
            "types": [[str(row["u"]), row["s"], str(row["at6"]), str(row["id"])] for row in types.rows],
            "rows": len(show(PREVIEWED_ROWS, "--limit", "-1").result.results[0].agate_table.rows),
            "error": code_of(show("SELECT * FROM no_such_table")),
            "timeout": code_of(show(ENDLESS, "--target", "limited")),
        }


clients = {"clickhouse-connect": read_with_clickhouse_connect, "SQLAlchemy": read_with_sqlalchemy, "dbt": read_with_dbt}
print(json.dumps({name: read() for name, read in clients.items()}, default=str))

"""Prints the rows of a Parquet file as JSON: readParquet.py <pyarrow|duckdb|polars> <file>"""

import json
import sys
import uuid
from datetime import datetime, timezone

reader, path = sys.argv[1:]
output = {}
if reader == "pyarrow":
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(path)
    rows = file.read().to_pylist()
    output["compression"] = file.metadata.row_group(0).column(0).compression
    output["types"] = {field.name: str(field.type) for field in file.schema_arrow}
elif reader == "duckdb":
    import duckdb

    result = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [path])
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row)) for row in result.fetchall()]
else:
    import polars

    rows = polars.read_parquet(path).to_dicts()


def text_of(value):
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    # polars has no type for UUIDs, and returns their 16 bytes.
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else str(value)


output["rows"] = [
    {name: uuid.UUID(bytes=v) if isinstance(v, bytes) and len(v) == 16 else v for name, v in row.items()}
    for row in rows
]
print(json.dumps(output, default=text_of))

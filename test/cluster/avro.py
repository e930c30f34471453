"""Decodes and encodes Avro in Confluent's frame with fastavro and a schema registry, without code of Questlog.

Usage: avro.py decode <registry>             base64 of a framed value per line -> JSON of its record per line
       avro.py encode <registry> <subject>   JSON of a record -> base64 of the framed value

Prints times as microseconds since 1970, and fixed bytes as hex.
"""

import base64
import datetime
import io
import json
import struct
import sys
import urllib.request
import uuid

import fastavro

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MODE, REGISTRY = sys.argv[1], sys.argv[2]


def ask(path):
    with urllib.request.urlopen(REGISTRY + path) as answer:
        return json.load(answer)


schemas = {}


def schema_of(schema_id):
    if schema_id not in schemas:
        schemas[schema_id] = fastavro.parse_schema(json.loads(ask(f"/schemas/ids/{schema_id}")["schema"]))
    return schemas[schema_id]


def shown(value):
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"no form for {value!r}")


def decode():
    for line in sys.stdin:
        value = base64.b64decode(line)
        magic, schema_id = struct.unpack(">bI", value[:5])
        assert magic == 0, magic
        body = io.BytesIO(value[5:])
        record = fastavro.schemaless_reader(body, schema_of(schema_id))
        assert body.read() == b"", "bytes behind the record"
        print(json.dumps(record, default=shown))


def encode(subject):
    latest = ask(f"/subjects/{subject}/versions/latest")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema_of(latest["id"]), json.load(sys.stdin))
    print(base64.b64encode(struct.pack(">bI", 0, latest["id"]) + body.getvalue()).decode())


decode() if MODE == "decode" else encode(sys.argv[3])

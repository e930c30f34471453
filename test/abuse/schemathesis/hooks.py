"""Tells Schemathesis the rules that the OpenAPI documents state only in words: formats, and fields that exclude each other."""

from datetime import datetime
from uuid import UUID, uuid4

import schemathesis
from hypothesis import strategies as st

TIMES = st.datetimes(min_value=datetime(1900, 1, 2), max_value=datetime(2299, 12, 30))
schemathesis.openapi.format("iso-8601", TIMES.map(lambda time: time.isoformat() + "Z"))
schemathesis.openapi.format("file-name", st.from_regex(r"[a-z0-9_]{1,40}\.[a-z]{1,5}", fullmatch=True))
schemathesis.openapi.format("media-type", st.sampled_from(["text/plain", "image/png", "video/mp4"]))
# Only Questlog can create a valid cursor, so `before_call` removes this value.
schemathesis.openapi.format("cursor", st.just("unknown"))


@schemathesis.hook
def before_call(context, case, **kwargs):
    if case.meta is None:
        return
    if not case.meta.generation.mode.is_positive:
        if isinstance(case.body, dict) and is_uuid(case.body.get("clientRequestId")):
            # A retry of a report gets 200 even if its other fields are invalid, so each report gets a new id.
            case.body["clientRequestId"] = str(uuid4())
        return
    if isinstance(case.query, dict):
        # A valid cursor comes from the response for the previous page.
        case.query.pop("cursor", None)
    if case.headers is not None:
        # Schemathesis does not compress the bodies.
        case.headers.pop("Content-Encoding", None)
    if isinstance(case.body, dict) and case.body.get("build") is not None:
        # Next to `build`, `buildId` must be the id that is derived from the build.
        case.body.pop("buildId", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("retentionDays"), dict):
        # Sessions must be kept at least as long as the data that refers to them.
        case.body["retentionDays"]["sessions"] = None


def is_uuid(value):
    try:
        return isinstance(value, str) and UUID(value) is not None
    except ValueError:
        return False

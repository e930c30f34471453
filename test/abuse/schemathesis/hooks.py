"""What the OpenAPI documents say in words only, told to Schemathesis: formats of our own, and fields that exclude each other."""

from datetime import datetime
from uuid import UUID, uuid4

import schemathesis
from hypothesis import strategies as st

TIMES = st.datetimes(min_value=datetime(1900, 1, 2), max_value=datetime(2299, 12, 30))
schemathesis.openapi.format("iso-8601", TIMES.map(lambda time: time.isoformat() + "Z"))
schemathesis.openapi.format("file-name", st.from_regex(r"[a-z0-9_]{1,40}\.[a-z]{1,5}", fullmatch=True))
schemathesis.openapi.format("media-type", st.sampled_from(["text/plain", "image/png", "video/mp4"]))
# Nobody but the product makes one; see `before_call`.
schemathesis.openapi.format("cursor", st.just("unknown"))


@schemathesis.hook
def before_call(context, case, **kwargs):
    if case.meta is None:
        return
    if not case.meta.generation.mode.is_positive:
        if isinstance(case.body, dict) and is_uuid(case.body.get("clientRequestId")):
            # A repeat of a report is a 200 whatever else it says: what is refused is a first one.
            case.body["clientRequestId"] = str(uuid4())
        return
    if isinstance(case.query, dict):
        # A cursor is what an earlier page gave, and a page has to be asked for first.
        case.query.pop("cursor", None)
    if case.headers is not None:
        # The bodies are not compressed.
        case.headers.pop("Content-Encoding", None)
    if isinstance(case.body, dict) and case.body.get("build") is not None:
        # Beside a build its id must be the one that is made from it.
        case.body.pop("buildId", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("retentionDays"), dict):
        # Sessions are kept for as long as what only they tell of.
        case.body["retentionDays"]["sessions"] = None


def is_uuid(value):
    try:
        return isinstance(value, str) and UUID(value) is not None
    except ValueError:
        return False

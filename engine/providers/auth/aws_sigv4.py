"""AWS Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

import attrs

from engine.providers.auth.auth import UnsignedRequest

_ALGORITHM = "AWS4-HMAC-SHA256"
# Signed headers: those that no proxy rewrites, and AWS's own.
_SIGNED = {"host", "content-type"}
_SIGNED_PREFIX = "x-amz-"


@attrs.frozen(kw_only=True)
class AwsKeys:
    """A pair of AWS keys, with the session token of temporary ones."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    token: str = attrs.field(default="", repr=False)


def signature_headers(
    request: UnsignedRequest, keys: AwsKeys, *, region: str, service: str, now: float
) -> Mapping[str, str]:
    """Sign *request* for *service* in *region*; *now* is in seconds since the epoch."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": moment} | ({"x-amz-security-token": keys.token} if keys.token else {})
    headers = {name.lower(): " ".join(value.split()) for name, value in {**request.headers, **added}.items()}
    headers.setdefault("host", urlsplit(request.url).netloc.rpartition("@")[2])
    signed = sorted(name for name in headers if name in _SIGNED or name.startswith(_SIGNED_PREFIX))
    names = ";".join(signed)
    lines = [*_target(request), *(f"{name}:{headers[name]}" for name in signed), "", names, _body_hash(request)]
    scope = (moment[:8], region, service, "aws4_request")
    to_sign = "\n".join([_ALGORITHM, moment, "/".join(scope), hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{keys.secret_key}".encode()
    for word in (*scope, to_sign):
        key = hmac.digest(key, word.encode(), "sha256")
    credential = f"{keys.access_key}/{'/'.join(scope)}"
    return added | {
        "authorization": f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={key.hex()}"
    }


def _target(request: UnsignedRequest) -> tuple[str, str, str]:
    """Return method, path and query in canonical form: escapes in the path are escaped again."""
    parts = urlsplit(request.url)
    query = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in _pairs(parts.query))
    return request.method, quote(parts.path or "/", safe="/-_.~"), "&".join(f"{name}={value}" for name, value in query)


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _body_hash(request: UnsignedRequest) -> str:
    body = hashlib.sha256()
    for piece in request.body.pieces:
        body.update(piece)
    return body.hexdigest()

"""AWS's signature: the documented examples, and comparison with botocore."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.aws_sigv4 import AwsKeys, signature_headers
from engine.providers.wire.wire_format import Body

# AWS's own example keys and moment: every one of its documented signatures is made with them.
KEYS = AwsKeys(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()


def unsigned(method: str, url: str, *pieces: bytes, **headers: str) -> UnsignedRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return UnsignedRequest(method=method, url=url, headers=named, body=Body(pieces=pieces))


@pytest.mark.parametrize(
    ("request_", "service", "signature"),
    [
        (
            unsigned(
                "GET",
                "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
                host="iam.amazonaws.com",
                content_type="application/x-www-form-urlencoded; charset=utf-8",
            ),
            "iam",
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ),
        (
            unsigned("GET", "https://example.amazonaws.com/"),
            "service",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            unsigned("POST", "https://example.amazonaws.com/"),
            "service",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            unsigned(
                "POST",
                "https://example.amazonaws.com/",
                b"Param1=",
                b"value1",
                content_type="application/x-www-form-urlencoded",
            ),
            "service",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ],
    ids=["list-users", "get-vanilla", "post-vanilla", "post-form"],
)
def test_the_documented_signatures(request_: UnsignedRequest, service: str, signature: str) -> None:
    headers = signature_headers(request_, KEYS, region="us-east-1", service=service, now=NOW)
    assert headers["x-amz-date"] == "20150830T123600Z"
    assert headers["authorization"].startswith(
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, SignedHeaders="
    )
    assert headers["authorization"].endswith(f", Signature={signature}")


def test_only_what_no_proxy_rewrites_is_signed() -> None:
    request = unsigned(
        "POST", "https://a.example/", host="a.example", content_type="x", accept="y", user_agent="z", X_Amz_Target="t"
    )
    keys = AwsKeys(access_key="a", secret_key="b", token="c")
    headers = signature_headers(request, keys, region="r", service="s", now=NOW)
    names = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
    assert f"SignedHeaders={names}," in headers["authorization"]
    assert headers["x-amz-security-token"] == "c"


def test_body_in_pieces_is_signed_whole() -> None:
    whole = unsigned("POST", "https://a.example/", b"abc")
    pieces = unsigned("POST", "https://a.example/", b"a", b"", b"bc")
    assert signature_headers(whole, KEYS, region="r", service="s", now=NOW) == signature_headers(
        pieces, KEYS, region="r", service="s", now=NOW
    )


def test_keys_are_in_no_repr() -> None:
    assert repr(AwsKeys(access_key="id", secret_key="hidden", token="hidden")) == "AwsKeys(access_key='id')"


HEADER = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
PIECES = st.lists(st.binary(max_size=20), max_size=4)


@given(
    model=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=30).filter(
        lambda name: name not in {".", ".."}  # no name; AWS's client takes it for a place in a path
    ),
    query=st.lists(st.tuples(HEADER, HEADER), max_size=3),
    pieces=PIECES,
    token=st.none() | HEADER,
    padded=st.lists(HEADER, min_size=1, max_size=3).map("  ".join),
    region=st.sampled_from(["us-east-1", "eu-central-1"]),
)
def test_signature_agrees_with_aws_client(
    model: str, query: list[tuple[str, str]], pieces: list[bytes], token: str | None, padded: str, region: str
) -> None:
    auth: Any = pytest.importorskip("botocore.auth")
    credentials: Any = pytest.importorskip("botocore.credentials")
    request: Any = pytest.importorskip("botocore.awsrequest").AWSRequest
    url = f"https://bedrock-runtime.{region}.amazonaws.com/model/{quote(model, safe='')}/converse-stream"
    if query:
        url += "?" + "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    headers = {"content-type": "application/json", "x-amz-custom": padded}
    theirs = request(method="POST", url=url, data=b"".join(pieces), headers=headers)
    auth.SigV4Auth(credentials.Credentials("id", "secret", token), "bedrock", region).add_auth(theirs)
    moment = datetime.strptime(theirs.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    ours = signature_headers(
        UnsignedRequest(method="POST", url=url, headers=headers, body=Body(pieces=tuple(pieces))),
        AwsKeys(access_key="id", secret_key="secret", token=token or ""),
        region=region,
        service="bedrock",
        now=moment.timestamp(),
    )
    assert ours["authorization"] == theirs.headers["Authorization"]
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours.get("x-amz-security-token") == theirs.headers.get("X-Amz-Security-Token")

"""AWS credentials: from the environment, and from botocore in a thread."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import attrs
import pytest
import trio
import trio.testing

from engine.core.errors import AuthFailed, ConfigError, ConnectionBroken
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import Finished, ModelRequest, StreamEvent
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.aws_credentials import AwsAuth, AwsKeyChain, aws_auth, region_of
from engine.providers.auth.aws_sigv4 import AwsKeys, signature_headers
from engine.providers.auth.key_variables import auth_of
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.registry import resolve, unusable_reason
from engine.providers.wire.wire_format import Body
from engine.testing.cassette import Exchange
from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest
from engine.testing.replay import ReplayServer

pytestmark = pytest.mark.os

CANARY = "canary-secret-3141592653589793"
ENV = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": CANARY}
REQUEST = UnsignedRequest(method="POST", url="https://a.example/x", headers={}, body=Body(pieces=(b"a", b"b")))
KEYS = AwsKeys(access_key="AKID", secret_key=CANARY, token="token")
MODEL = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def botocore() -> None:
    pytest.importorskip("botocore", reason="the extra bedrock is not installed")


# -- the environment ----------------------------------------------------------------------


async def test_environment_keys_suffice() -> None:
    auth = aws_auth({**ENV, "AWS_SESSION_TOKEN": "token"}, "bedrock")
    auth.clock = lambda: 1_700_000_000.0
    signed = await auth.headers(REQUEST)
    assert signed == signature_headers(REQUEST, KEYS, region="eu-west-1", service="bedrock", now=1_700_000_000.0)
    assert auth.secrets == (CANARY, "token")
    assert CANARY not in repr(auth)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "AWS_REGION"),
        ({**ENV, "AWS_SESSION_TOKEN": f"{CANARY}\nx"}, "AWS_SESSION_TOKEN contains a character"),
        ({**ENV, "AWS_ACCESS_KEY_ID": f"{CANARY} x"}, "AWS_ACCESS_KEY_ID contains a character"),
    ],
)
def test_errors_name_but_never_show_secrets(env: Mapping[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        aws_auth(env, "bedrock")
    assert CANARY not in str(caught.value)


def test_a_bedrock_key_goes_first() -> None:
    auth = auth_of(BY_NAME["bedrock"], {**ENV, "AWS_BEARER_TOKEN_BEDROCK": "key"})
    assert trio.run(auth.headers, REQUEST) == {"authorization": "Bearer key"}


@pytest.mark.parametrize(("host", "service"), [("bedrock", "bedrock"), ("bedrock-mantle", "bedrock-mantle")])
def test_two_services_are_separate(host: str, service: str) -> None:
    auth = auth_of(BY_NAME[host], ENV)
    assert isinstance(auth, AwsAuth)
    assert (auth.region, auth.service) == ("eu-west-1", service)


CONFIG = """
[default]
region = us-west-2
[profile work]
region = eu-north-1
"""


@pytest.mark.parametrize(
    ("env", "region"),
    [
        ({"AWS_REGION": " a ", "AWS_DEFAULT_REGION": "b"}, "a"),
        ({"AWS_DEFAULT_REGION": "b"}, "b"),
        ({}, "us-west-2"),
        ({"AWS_PROFILE": "work"}, "eu-north-1"),
        ({"AWS_DEFAULT_PROFILE": "work"}, "eu-north-1"),
        ({"AWS_PROFILE": "other"}, ""),
        ({"AWS_CONFIG_FILE": "/nonexistent/config"}, ""),
    ],
)
def test_the_region(env: Mapping[str, str], region: str, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    assert region_of({"HOME": str(tmp_path), **env}) == region


def test_a_broken_file_names_no_region(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("nonsense")
    assert region_of({"AWS_CONFIG_FILE": str(tmp_path / "config")}) == ""
    assert region_of({}) == ""


def test_profile_region_selects_the_host(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    env = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_PROFILE": "work", "AWS_BEARER_TOKEN_BEDROCK": "key"}
    assert repr(resolve(MODEL, env)).endswith("at bedrock-runtime.eu-north-1.amazonaws.com>")
    assert unusable_reason(BY_NAME["bedrock"], env) == ""


def test_without_botocore_the_error_names_the_extra() -> None:
    code = """
        import sys
        sys.modules["botocore"] = None
        from engine.core.errors import ConfigError
        from engine.providers.auth.aws_credentials import aws_auth
        try:
            aws_auth({"AWS_REGION": "a"}, "bedrock")
        except ConfigError as error:
            print(error)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True)
    assert "pip install 'nursery-engine[bedrock]'" in ran.stdout


# -- in a thread --------------------------------------------------------------------------


async def test_a_cancel_abandons_the_single_key_search() -> None:
    started, go_on, at_work = threading.Semaphore(0), threading.Semaphore(0), list[int]()
    lock = threading.Lock()

    def find() -> AwsKeys:
        assert lock.acquire(blocking=False)
        at_work.append(1)
        started.release()
        go_on.acquire()
        lock.release()
        return KEYS

    auth = AwsAuth("r", "s", find)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as first:
            nursery.start_soon(cancel_once_started, started, first)
            await auth.headers(REQUEST)
        assert first.cancelled_caught
        assert not auth.secrets
        with trio.CancelScope() as second:
            nursery.start_soon(cancel_when_parked, second)
            await auth.headers(REQUEST)
        assert second.cancelled_caught
        assert len(at_work) == 1  # it waited for the one that was left behind
        go_on.release(2)
        assert (await auth.headers(REQUEST))["x-amz-security-token"] == "token"
    assert len(at_work) == 2
    assert auth.secrets == (CANARY, "token")


async def cancel_once_started(started: threading.Semaphore, scope: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(started.acquire)
    scope.cancel(reason="the test's")


async def cancel_when_parked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel(reason="the test's")


# -- what botocore finds ----------------------------------------------------------------


def chain(folder: Path, config: str = "", credentials: str = "", **env: str) -> AwsKeyChain:
    (folder / "config").write_text(textwrap.dedent(config))
    (folder / "credentials").write_text(textwrap.dedent(credentials))
    files = {
        "AWS_CONFIG_FILE": str(folder / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
    }
    return AwsKeyChain({**files, "AWS_PROFILE": "work", **env})


STATIC = """
    [work]
    aws_access_key_id = AKID
    aws_secret_access_key = {secret}
"""


def test_profile_keys_are_reloaded_after_a_while(tmp_path: Path) -> None:
    botocore()
    now = [0.0]
    keys = attrs.evolve(chain(tmp_path, credentials=STATIC.format(secret="old")), clock=lambda: now[0])
    old = AwsKeys(access_key="AKID", secret_key="old")
    assert keys.find() == old
    (tmp_path / "credentials").write_text(textwrap.dedent(STATIC.format(secret="new")))
    assert keys.find() == old
    now[0] = 301.0
    assert keys.find() == AwsKeys(access_key="AKID", secret_key="new")
    assert "old" not in repr(keys)


def printing(folder: Path, code: str) -> str:
    """Return a profile whose keys a process prints."""
    (folder / "process.py").write_text(textwrap.dedent(code))
    return f"[profile work]\ncredential_process = {sys.executable} {folder / 'process.py'}\n"


def test_expired_keys_are_renewed(tmp_path: Path) -> None:
    botocore()
    expiring = """
        import json, pathlib
        count = pathlib.Path(__file__).with_name("count")
        number = int(count.read_text()) + 1 if count.exists() else 1
        count.write_text(str(number))
        date = "2020-01-01T00:00:00Z" if number == 1 else "2099-01-01T00:00:00Z"
        print(json.dumps({"Version": 1, "AccessKeyId": f"id{number}", "SecretAccessKey": "s", "SessionToken": "t",
                          "Expiration": date}))
    """
    keys = chain(tmp_path, printing(tmp_path, expiring))
    assert keys.find() == AwsKeys(access_key="id2", secret_key="s", token="t")
    assert keys.find().access_key == "id2"


def test_a_process_that_fails(tmp_path: Path) -> None:
    botocore()
    keys = chain(tmp_path, printing(tmp_path, "raise SystemExit('no card in the reader')"))
    with pytest.raises(AuthFailed, match=r"no card in the reader; set .*`aws sso login --profile work`") as caught:
        keys.find()
    assert not caught.value.retryable


def test_a_session_that_has_ended(tmp_path: Path) -> None:
    botocore()
    config = """
        [profile work]
        sso_start_url = https://a.example/start
        sso_region = eu-west-1
        sso_account_id = 123456789012
        sso_role_name = reader
    """
    with pytest.raises(AuthFailed, match=r"SSO.*aws sso login"):
        chain(tmp_path, config).find()


@pytest.mark.parametrize(
    ("config", "env", "words"),
    [("[profile other]\n", {"AWS_PROFILE": "nobody"}, "nobody"), ("nonsense", {}, "invalid AWS configuration")],
)
def test_a_configuration_that_can_t_work(config: str, env: dict[str, str], words: str, tmp_path: Path) -> None:
    botocore()
    with pytest.raises(ConfigError, match=words):
        chain(tmp_path, config, **env).find()


def test_no_keys_at_all(tmp_path: Path) -> None:
    botocore()
    code = """
        from engine.core.errors import AuthFailed
        from engine.providers.auth.aws_credentials import AwsKeyChain
        try:
            AwsKeyChain({}).find()
        except AuthFailed as error:
            print(error)
    """
    env = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True, env=env
    )
    assert "no AWS credentials found: set AWS_BEARER_TOKEN_BEDROCK" in ran.stdout


ASSUMING = """
    [profile work]
    role_arn = arn:aws:iam::123456789012:role/reader
    source_profile = base
    region = eu-west-1
    max_attempts = 1
    endpoint_url = {url}
"""
BASE = "[base]\naws_access_key_id = a\naws_secret_access_key = b\n"


class TokenService(LoopbackServer):
    """AWS's token service, as far as it refuses."""

    def __init__(self) -> None:
        super().__init__(largest_piece=None, seed=0)

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        body = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
        await connection.send(b"HTTP/1.1 403 No\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        return True


async def test_a_role_that_is_refused(tmp_path: Path) -> None:
    botocore()
    server = TokenService()
    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(server.serve)
        auth = AwsAuth("r", "s", chain(tmp_path, ASSUMING.format(url=url), BASE).find)
        with pytest.raises(AuthFailed, match="not you"):
            await auth.headers(REQUEST)
        nursery.cancel_scope.cancel(reason="the test is over")


def test_an_unusable_role(tmp_path: Path) -> None:
    botocore()
    with pytest.raises(ConnectionBroken, match="no AWS credentials available") as caught:
        chain(tmp_path, ASSUMING.format(url="http://127.0.0.1:9"), BASE).find()
    assert caught.value.retryable


# -- the whole way ------------------------------------------------------------------------


def frame(name: str, payload: object) -> bytes:
    named = {":message-type": "event", ":event-type": name}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in named.items()
    )
    body = json.dumps(payload).encode()
    lengths = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    start = lengths + struct.pack(">I", crc32(lengths)) + headers + body
    return start + struct.pack(">I", crc32(start))


ANSWER = frame("messageStop", {"stopReason": "end_turn"}) + frame("metadata", {})
STREAM = Exchange(headers={"content-type": "application/vnd.amazon.eventstream"}, body=ANSWER)
REFUSED = Exchange(
    status=403,
    headers={"content-type": "application/json", "x-amzn-errortype": "InvalidSignatureException:x"},
    body=json.dumps({"message": f"The Canonical String was x-amz-security-token:{CANARY}"}).encode(),
)


async def ask(server: ReplayServer, env: Mapping[str, str]) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(server.serve)
        message = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("t"), text="hello"),))
        request = ModelRequest(model=MODEL, system="", transcript=Transcript([message]))
        async with aclosing(resolve(MODEL, {**env, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url})) as model:
            async with aclosing(await model.open(request)) as stream:
                while more := await stream.receive():
                    events += more
        nursery.cancel_scope.cancel(reason="the test is over")
    return events


async def test_signed_request_is_the_sent_one() -> None:
    server = ReplayServer([STREAM], largest_piece=5)
    assert (await ask(server, ENV))[-1] == Finished("stop", "end_turn")
    (sent,) = server.requests
    assert sent.target == "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    moment = datetime.strptime(sent.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    plain = {name: value for name, value in sent.headers.items() if name not in {"authorization", "x-amz-date"}}
    again = UnsignedRequest(
        method="POST", url=f"{server.url}{sent.target}", headers=plain, body=Body(pieces=(sent.body,))
    )
    keys = AwsKeys(access_key="AKID", secret_key=CANARY)
    expected = signature_headers(again, keys, region="eu-west-1", service="bedrock", now=moment.timestamp())
    assert sent.headers["authorization"] == expected["authorization"]


async def test_no_key_is_in_an_error() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AuthFailed, check=lambda error: CANARY not in str(error))):
        await ask(ReplayServer([REFUSED]), {**ENV, "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": CANARY})

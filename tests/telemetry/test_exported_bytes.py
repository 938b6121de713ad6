"""What leaves the process: without content, nothing of what anybody wrote; with it, no key."""

from __future__ import annotations

import attrs
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import engine
from engine.core.errors import Overloaded
from engine.options import PermissionOptions, Ports
from engine.permission import AllowAll
from engine.process.secret_values import remember_secret
from engine.telemetry.content_filter import LONGEST, ContentFilter
from engine.testing import Fail, ScriptedProvider, call, done, text
from tests.support.recorded_spans import RecordedSpans

KNOWN = "correct-horse-battery-7"
# Each of a form that its issuer gives it, or after a name that says what it is. None is real.
SECRETS = (
    "sk-ant-api03-" + "Zx9" * 12,
    "sk-proj-" + "a8B" * 12,
    "ghp_" + "A1b2" * 9,
    "github_pat_" + "11AB" * 9,
    "glpat-" + "x7Yz" * 5,
    "xoxb-" + "123456789012-" + "abcD" * 4,
    "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "SyA1" * 8,
    "hf_" + "qWeR" * 8,
    "npm_" + "t1Y2" * 8,
    "pypi-" + "AgEI" * 9,
    "ya29." + "a0Af" * 9,
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl",
    "0f" * 20,
    "hunter2-prod",  # password = …
    "Tr0ub4dor&3",  # DB_PASSWORD=…
    "c2VjcmV0OnNlY3JldA==",  # Authorization: Basic …
    "s3cr3tp4ss",  # in a URL
    "MIIEpAIBAAKCAQEA7bq",  # of a private key
    KNOWN,
)
TEXTS = (
    *(f"my key is {secret} ok" for secret in SECRETS[:14]),
    f'password = "{SECRETS[14]}"',
    f"export DB_PASSWORD={SECRETS[15]}",
    f"Authorization: Basic {SECRETS[16]}",
    f"postgres://admin:{SECRETS[17]}@db/x",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRETS[18]}\n-----END RSA PRIVATE KEY-----",
    f"remember {SECRETS[19]}",
)


@attrs.frozen
class Note:
    """Keep a note."""

    text: str


@engine.tool
async def note(args: Note, ctx: engine.ToolContext) -> str:
    del ctx
    return f"noted: {args.text}"


async def exported(*, content: bool) -> bytes:
    """Return the bytes of a session in which each secret is said by the user, by the model, and by a tool."""
    spans = RecordedSpans()
    whole = "\n".join(TEXTS)
    model = ScriptedProvider(
        [
            [Fail(Overloaded(f"busy: {whole}", retryable=True))],
            [*text(whole), *call("note", {"text": whole}, id="1"), *done("calls")],
            [*text(f"I said {whole}"), *done()],
        ]
    )
    async with engine.open_engine(
        model=model,
        tools=[note],
        settings=engine.Settings(system=f"Obey. {whole}"),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(telemetry=spans.telemetry(content=content), jitter=lambda: 0.0),
    ) as eng:
        session = await eng.create_session()
        await session.run(whole)
        assert "noted" in str(session.state.transcript)
    data: bytes = encode_spans(spans.ended).SerializeToString()
    return data


def leaked(data: bytes) -> list[str]:
    return [secret for secret in SECRETS if secret.encode() in data]


async def test_no_secret_without_content(autojump_clock: object) -> None:
    del autojump_clock
    data = await exported(content=False)
    assert b"execute_tool note" in data
    assert leaked(data) == []
    # Nor anything else that was written.
    assert b"my key is" not in data
    assert b"Obey" not in data


async def test_no_key_with_content(autojump_clock: object) -> None:
    del autojump_clock
    remember_secret("a planted key", KNOWN)
    data = await exported(content=True)
    assert b"my key is" in data
    assert b"noted: " in data
    assert b"Obey" in data
    assert leaked(data) == []


@pytest.mark.parametrize("size", [LONGEST - 10, LONGEST, 3 * LONGEST])
def test_attribute_holds_at_most_32_kib(size: int) -> None:
    filtered = ContentFilter().text("ä b" * size)
    assert len(filtered.encode()) <= LONGEST
    assert filtered.startswith("ä b")


async def test_long_conversation_fits_its_attributes() -> None:
    spans = RecordedSpans()
    answers = [
        *([*text("word " * 5_000), *call("note", {"text": str(i) * 20_000}, id="1"), *done("calls")] for i in range(6)),
        [*text("end"), *done()],
    ]
    async with engine.open_engine(
        model=ScriptedProvider(answers),
        tools=[note],
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(telemetry=spans.telemetry(content=True)),
    ) as eng:
        await (await eng.create_session()).run("Begin.")
    sizes = [
        len(value.encode())
        for span in spans.ended
        for value in (span.attributes or {}).values()
        if isinstance(value, str)
    ]
    assert LONGEST / 2 < max(sizes) <= LONGEST


@pytest.mark.parametrize(
    "harmless",
    [
        "The token count is 12 and the secret of success is work.",
        "def password(self): return None",
        "see https://example.com/a/b?c=d#e and sk-learn, hf_hub",
        "commit 1a2b3c4 and uuid 123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_ordinary_text_stays(harmless: str) -> None:
    assert ContentFilter().text(harmless) == harmless

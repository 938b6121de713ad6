"""What a user reads when a provider fails: one row for each situation, against a server that fails like that (A4)."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.cli.problems.problem import problem_of_result
from engine.cli.problems.surroundings import Surroundings
from engine.cli.turn.record_types import ErrorRecord
from engine.cli.turn.render import Renderer
from engine.cli.turn.run_record import RunRecord
from engine.config.config import Config, HostConfig, ModelConfig
from engine.core.settings import Limits, RetryPolicy, Settings, Timeouts
from tests.support.fault_server import FaultServer, error, response
from tests.support.network import OPENSSL, make_certificates, proxy_to, tls_before

KEY = "sk-lab-0123456789a1b2"
# Waits that the tests don't have to sit through.
RETRY = RetryPolicy(attempts=2, base=0.001, longest=5.0)
WAIT = r"\d+(\.\d+)? m?s"
NEXT_PROVIDER = "Next: engine run --continue --model MODEL"
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("LAB_KEY", KEY)


@attrs.frozen
class Told:
    """What a turn shows: its notes while it runs, and its end; and what is in the record."""

    notes: list[str]
    end: list[str]
    error: ErrorRecord | None
    retries: int | None


async def ask(
    url: str,
    model: str = "lab/gpt-5.6-terra",
    *,
    limits: Limits | None = None,
    files: tuple[tuple[str, int], ...] = (),
    silence: float | None = None,
) -> Told:
    """Prompt a model at *url*, and return what the user reads."""
    config = Config(
        hosts={"lab": HostConfig(like="openai-chat", title="Lab", base_url=url, key="LAB_KEY", silence=silence)},
        models={"lab/gpt-5.6-terra": ModelConfig(context=200_000)},
    )
    around = Surroundings(env={"LAB_KEY": KEY}, config=config, files=files)
    settings = Settings(retry=RETRY, timeouts=Timeouts(headers=2.0, idle=2.0), limits=limits or Limits())
    renderer, notes = Renderer(shows_text=False, surroundings=around), ""
    with trio.fail_after(60):
        async with engine.open_engine(model=model, config=config, settings=settings) as eng:
            session = await eng.create_session(cwd=Path.cwd())
            record = RunRecord(session.id, around)
            async with session.prompt("hello") as turn:
                async for event in turn:
                    notes += renderer.feed(event)
                    record.feed(event)
    problem = problem_of_result(turn.result, around)
    document = record.result(turn.result, exit_code=1, seconds=0.0)
    return Told(
        [re.sub(WAIT, "T", line.removeprefix("· ")) for line in notes.splitlines()],
        [] if problem is None else list(problem.lines()),
        document.error,
        document.retries,
    )


HTTP_ROWS = [
    (
        "key_rejected",
        response(401, error("no", code="invalid_api_key")),
        [
            "Lab rejected the key in LAB_KEY (ends …a1b2)",
            "Next: engine auth test lab",
            "or: set LAB_KEY to another key",
        ],
    ),
    (
        "not_allowed",
        response(403, error("no", code="unsupported_country_region_territory")),
        ["Lab does not allow gpt-5.6-terra for this account or country", "Next: engine models lab"],
    ),
    (
        "option_rejected",
        response(400, error("Unsupported value", code="unsupported_value", param="temperature")),
        [
            "Lab rejected option temperature for lab/gpt-5.6-terra",
            'Next: leave out --temperature, or set [models."lab/gpt-5.6-terra"] temperature',
        ],
    ),
    (
        "option_rejected",
        response(400, error("top_k: Extra inputs are not permitted")),
        ["Lab rejected option top_k for lab/gpt-5.6-terra", "Next: engine models lab"],
    ),
    (
        "request_rejected",
        response(400, error("messages.0: must not be empty")),
        [
            "Lab rejected the request: Lab: messages.0: must not be empty (HTTP 400)",
            NEXT_PROVIDER,
        ],
    ),
    (
        "no_credit",
        response(402, error("pay first")),
        [
            "The account at Lab has no credit left",
            NEXT_PROVIDER,
        ],
    ),
    (
        "no_credit",
        response(429, error("no", code="insufficient_quota")),
        [
            "The account at Lab has no credit left",
            NEXT_PROVIDER,
        ],
    ),
    (
        "too_long",
        response(
            400, error("maximum context length is 200,000 tokens, you sent 212,000", code="context_length_exceeded")
        ),
        [
            "212,000 tokens do not fit lab/gpt-5.6-terra (200,000)",
            "Next: attach less: b.log (2.0 MB), a.txt (400 KB), c.txt (3 KB)",
            "or: engine models",
        ],
    ),
]


@pytest.mark.parametrize(
    ("code", "reply", "lines"), HTTP_ROWS, ids=[f"{n}-{row[0]}" for n, row in enumerate(HTTP_ROWS)]
)
async def test_error_that_no_retry_helps(code: str, reply: bytes, lines: list[str]) -> None:
    server = FaultServer(reply)
    files = (("a.txt", 400 * 1024), ("b.log", 2 * 1024 * 1024), ("c.txt", 3 * 1024), ("d.txt", 10))
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1", files=files)
    assert told.end == lines
    assert told.error is not None
    assert (told.error.code, told.error.message, told.error.next) == (code, lines[0], lines[1].removeprefix("Next: "))
    assert all(len(line) <= 100 for line in lines)
    # A request that is too long is tried again once, with a shorter history.
    assert server.asked <= (2 if code == "too_long" else 1)
    assert told.retries == 0


async def test_unknown_model_gets_the_nearest_names() -> None:
    server = FaultServer(response(404, error("The model does not exist", code="model_not_found")))
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1", model="lab/gpt-6.1-tera")
    assert told.end[0].startswith("Lab has no model gpt-6.1-tera. Nearest: gpt-6.1-terra, ")
    assert told.end[1:] == ["Next: engine run --continue --model lab/gpt-6.1-terra", "or: engine models lab"]
    assert server.asked == 1


async def test_overload_is_retried_and_counted() -> None:
    server = FaultServer(response(529, error("busy")))
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1")
    assert told.notes == ["Lab is overloaded (529); retry 1 of 2 in T", "Lab is overloaded (529); retry 2 of 2 in T"]
    assert told.end == ["Lab is overloaded (529)", "Next: engine run --continue --fallback MODEL"]
    assert (server.asked, told.retries) == (3, 2)


async def test_overload_that_ends_is_no_failure() -> None:
    server = FaultServer(response(503, error("busy")), recovers_after=1)
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1")
    assert (told.notes, told.end, server.asked) == (["Lab is overloaded (503); retry 1 of 2 in T"], [], 2)


async def test_rate_limit_without_a_time_is_retried() -> None:
    server = FaultServer(response(429, error("slow down", code="rate_limit_exceeded")))
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1")
    assert told.notes == ["Rate limited by Lab; retry 1 of 2 in T", "Rate limited by Lab; retry 2 of 2 in T"]
    assert told.end == [
        "Rate limited by Lab",
        "Next: wait a minute, then: engine run --continue",
        NEXT_PROVIDER.replace("Next", "or"),
    ]
    assert server.asked == 3


async def test_long_rate_limit_ends_at_once_with_its_time() -> None:
    server = FaultServer(response(429, error("slow down", code="rate_limit_exceeded"), retry_after="3540"))
    async with server.run() as port:
        began = time.time()
        told = await ask(f"http://127.0.0.1:{port}/v1")
    times = {time.strftime("%H:%M", time.localtime(at + 3540)) for at in (began, time.time())}
    assert told.end[0] in {f"Rate limited by Lab until {at} (in 59 min)" for at in times}
    assert told.end[1] in {f"Next: engine run --continue --max-wait {n}m" for n in (58, 59)}
    assert (told.notes, server.asked) == ([], 1)


async def test_web_page_is_no_model_api() -> None:
    server = FaultServer(response(200, b"<html><title>Welcome</title></html>", "text/html"))
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}")
    assert told.end[0].startswith(f"http://127.0.0.1:{port}")
    assert told.end[0].endswith(" answered a web page, not a model API")
    assert told.end[1:] == ["Next: check [hosts.lab] base_url: does it lack /v1?"]
    assert server.asked == 1


async def test_cut_stream_says_how_much_had_come() -> None:
    chunk = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % (b"word " * 800)
    server = FaultServer(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + chunk,
        recovers_after=1,
    )
    async with server.run() as port:
        told = await ask(f"http://127.0.0.1:{port}/v1")
    assert told.notes == ["Connection to Lab lost after 1,000 tokens; retry 1 of 2 in T"]
    assert (told.end, server.asked) == ([], 2)


async def test_silent_host_is_named_with_the_limit() -> None:
    server = FaultServer(b"", is_silent=True)
    async with server.run() as port:
        # Shorter than the limit of the settings, which holds for all providers.
        told = await ask(f"http://127.0.0.1:{port}/v1", silence=0.5)
    assert told.end == [
        "No data from Lab for 0.5 s",
        "Next: engine run --continue",
        "or: set [hosts.lab] silence = 1",
    ]
    assert server.asked == 3


async def test_nothing_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        told = await ask(f"http://127.0.0.1:{port}/v1")
    assert told.end == [
        f"Nothing listens at 127.0.0.1:{port} (base URL from [hosts.lab] base_url)",
        "Next: start the server",
        "or: engine models",
    ]
    assert len(told.notes) == 2


async def test_unknown_host_name() -> None:
    told = await ask("http://models..example/v1")
    assert told.end == [
        "Cannot find models..example (base URL from [hosts.lab] base_url)",
        "Next: check the network, the VPN and [hosts.lab] base_url",
    ]


async def test_proxy_that_asks_for_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy_to(1, refuses=True) as (proxy, port):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret-password@127.0.0.1:{port}")
        told = await ask("https://models.example/v1")
    assert told.end == [
        f"Proxy 127.0.0.1:{port} asks for a login",
        f"Next: export HTTPS_PROXY=http://USER:PASSWORD@127.0.0.1:{port}",
        "or: export NO_PROXY=HOSTNAME",
    ]
    assert len(proxy.asked) == 1


@needs_openssl
async def test_certificates_that_are_not_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unknown").mkdir()
    server = FaultServer()
    async with server.run() as port, tls_before(port, make_certificates(tmp_path / "unknown")) as tls_port:
        told = await ask(f"https://127.0.0.1:{tls_port}/v1")
    assert told.end == [
        "The certificate of Lab is signed by an unknown CA",
        "Next: export SSL_CERT_FILE=CA.pem",
    ]
    certificates = make_certificates(tmp_path, days=-1)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    async with server.run() as port, tls_before(port, certificates) as tls_port:
        told = await ask(f"https://127.0.0.1:{tls_port}/v1")
    assert re.fullmatch(r"The certificate of Lab expired on \d{4}-\d\d-\d\d", told.end[0])
    assert told.end[1:] == ["Next: check the clock of this machine; else ask the server's operator"]
    assert server.asked == 0

"""What `engine run` prints when a provider fails: the same words at a terminal and without one (A4).

`test_faults` has the words of each row; here a process prints them, and stops within `--max-wait`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from scripts.message_reference import exit_code
from tests.cli.conftest import environment_for
from tests.cli.forked import ForkedCommand, Forks
from tests.cli.problems.test_faults import HTTP_ROWS, KEY, WAIT
from tests.support.fault_server import FaultServer, error, response
from tests.support.network import OPENSSL, make_certificates, proxy_to, tls_before

pytestmark = pytest.mark.os

CONFIG = """
[defaults]
model = "lab/MODEL"
[hosts.lab]
like = "openai-chat"
title = "Lab"
key = "LAB_KEY"
base_url = "URL"
silence = 30
[models."lab/MODEL"]
context = 200000
"""
_COMPACTION = ("The request was too large", "no room could be made")
QUESTION = "[w] Wait and retry  [s] Stop, or a model name: "
SLOW_DOWN = error("slow down", code="rate_limit_exceeded")
# The session is not saved, so what continues it is a new one.
UNSAVED = 'engine run --ephemeral "TASK"'


@attrs.frozen
class Shown:
    """What both runs have printed at their ends, how many retries they announced in all, and their exit code."""

    lines: list[str]
    retries: int
    code: int


@attrs.frozen
class Screens:
    """Runs a task, without a terminal and at one, where the user stops what could be retried."""

    forks: Forks
    fork_path: str
    folder: Path

    async def show(self, url: str, *, model: str = "gpt-5.6-terra", **env: str) -> Shown:
        """Return what both have printed; fail where they differ."""
        (self.folder / "config.toml").write_text(CONFIG.replace("URL", url).replace("MODEL", model))
        variables = {**environment_for("", self.folder), "LAB_KEY": KEY, "ENGINE_MODEL": "", **env}
        arguments = ("run", "hello", "--ephemeral", "--config", "config.toml", "--max-wait", "1")
        ended = await trio.to_thread.run_sync(partial(self.forks.run, *arguments, cwd=self.folder, env=variables))
        with ForkedCommand(self.fork_path, arguments, cwd=self.folder, env=variables, terminal=True) as command:
            code = await trio.to_thread.run_sync(_stop, command)
        assert (ended.code, ended.stdout) == (code, b"")
        (lines, retries), (at_terminal, more) = _notes(ended.stderr.decode()), _notes(command.output)
        assert lines == at_terminal
        return Shown(lines, retries + more, code)


@pytest.fixture
def screens(forks: Forks, fork_path: str, tmp_path: Path) -> Screens:
    return Screens(forks, fork_path, tmp_path)


def _stop(command: ForkedCommand) -> int:
    """Stop at the question, if there is one; return the exit code."""
    command.read_until("\n· Stopped after", or_else=QUESTION)
    if QUESTION in command.output:
        command.answer("s")
    return command.wait()


def _notes(output: str) -> tuple[list[str], int]:
    """Return the lines at the end of a run, without the closing one, and how many retries were announced."""
    notes = re.findall(r"^(?:.*\r\x1b\[K)?· (.*)$", output.replace("\r\n", "\n"), re.MULTILINE)
    retries = [note for note in notes if re.search(rf"; retry \d of 5 in {WAIT}$", note)]
    closing = notes.pop()
    assert closing.startswith("Stopped after "), output
    return [note for note in notes if note not in retries and not note.startswith(_COMPACTION)], len(retries)


def unsaved(lines: Sequence[str]) -> list[str]:
    """The lines of the table where sessions are not saved, and no file is attached."""
    kept = [line.replace("engine run --continue", UNSAVED) for line in lines if "attach less" not in line]
    return [line.replace("or: ", "Next: ") if number == 1 else line for number, line in enumerate(kept)]


@asynccontextmanager
async def fault(server: FaultServer) -> AsyncGenerator[str]:
    async with server.run() as port:
        yield f"http://127.0.0.1:{port}/v1"


async def test_refused_requests(screens: Screens, *, is_full: bool) -> None:
    # The words of each row are in `test_faults`: by default every third one is printed here.
    for code, reply, lines in HTTP_ROWS if is_full else HTTP_ROWS[1::3]:
        async with fault(FaultServer(reply)) as url:
            shown = await screens.show(url)
        assert (shown.lines, shown.retries) == (unsaved(lines), 0)
        assert shown.code == exit_code(code)


@pytest.mark.parametrize(
    ("reply", "lines", "code"),
    [
        (response(529, error("busy")), ["Lab is overloaded (529)", f"Next: {UNSAVED} --fallback MODEL"], 8),
        (
            response(429, SLOW_DOWN),
            ["Rate limited by Lab", f"Next: wait a minute, then: {UNSAVED}", f"or: {UNSAVED} --model MODEL"],
            7,
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
            ["Connection to Lab lost", f"Next: {UNSAVED}"],
            8,
        ),
    ],
    ids=["overloaded", "limited", "cut"],
)
async def test_retries_are_counted_and_end(screens: Screens, reply: bytes, lines: list[str], code: int) -> None:
    server = FaultServer(reply)
    async with fault(server) as url:
        shown = await screens.show(url)
    assert (shown.lines, shown.code) == (lines, code)
    assert server.asked == shown.retries + 2


async def test_limit_with_a_time(screens: Screens) -> None:
    async with fault(FaultServer(response(429, SLOW_DOWN, retry_after="3540"))) as url:
        shown = await screens.show(url)
    assert re.fullmatch(r"Rate limited by Lab until \d\d:\d\d \(in 59 min\)", shown.lines[0])
    assert (shown.lines[1:], shown.retries, shown.code) == (
        [f"Next: {UNSAVED} --max-wait 59m", f"or: {UNSAVED} --model MODEL"],
        0,
        7,
    )


async def test_unknown_model(screens: Screens) -> None:
    async with fault(FaultServer(response(404, error("no", code="model_not_found")))) as url:
        shown = await screens.show(url, model="gpt-6.1-tera")
    assert shown.lines[0].startswith("Lab has no model gpt-6.1-tera. Nearest: gpt-6.1-terra, ")
    assert shown.lines[1:] == [f"Next: {UNSAVED} --model lab/gpt-6.1-terra", "or: engine models lab"]


async def test_silent_provider(screens: Screens) -> None:
    async with fault(FaultServer(is_silent=True)) as url:
        shown = await screens.show(url)
    # The limit of all waits is what was reached: a longer one for this provider would not help.
    assert shown.lines == ["No data from Lab for 1 s", f"Next: {UNSAVED}", f"or: {UNSAVED} --max-wait 1h"]


async def test_web_page(screens: Screens) -> None:
    async with fault(FaultServer(response(200, b"<html><title>Welcome</title></html>", "text/html"))) as url:
        shown = await screens.show(url)
    assert shown.lines == [
        f"{url} answered a web page, not a model API",
        "Next: check [hosts.lab] base_url: does it lack /v1?",
    ]


async def test_addresses_without_a_server(screens: Screens) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        shown = await screens.show(f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert shown.lines[1:] == ["Next: start the server", "or: engine models"]
        assert shown.lines[0].startswith("Nothing listens at 127.0.0.1:")
        assert shown.retries > 0
    shown = await screens.show("http://models..example/v1")
    assert shown.lines == [
        "Cannot find models..example (base URL from config.toml:8)",
        "Next: check the network, the VPN and [hosts.lab] base_url",
    ]


async def test_proxy_that_asks_for_a_login(screens: Screens) -> None:
    async with proxy_to(1, refuses=True) as (_, port):
        shown = await screens.show("https://models.example/v1", HTTPS_PROXY=f"http://me:secret@127.0.0.1:{port}")
    assert shown.lines == [
        f"Proxy 127.0.0.1:{port} asks for a login",
        f"Next: export HTTPS_PROXY=http://USER:PASSWORD@127.0.0.1:{port}",
        "or: export NO_PROXY=HOSTNAME",
    ]


@pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl")
async def test_certificates(screens: Screens, tmp_path: Path) -> None:
    (tmp_path / "unknown").mkdir()
    async with tls_before(1, make_certificates(tmp_path / "unknown")) as port:
        shown = await screens.show(f"https://127.0.0.1:{port}/v1")
    assert shown.lines == ["The certificate of Lab is signed by an unknown CA", "Next: export SSL_CERT_FILE=CA.pem"]
    expired = make_certificates(tmp_path, days=-1)
    async with tls_before(1, expired) as port:
        shown = await screens.show(f"https://127.0.0.1:{port}/v1", SSL_CERT_FILE=str(expired.authority))
    assert re.fullmatch(r"The certificate of Lab expired on \d{4}-\d\d-\d\d", shown.lines[0])
    assert shown.lines[1:] == ["Next: check the clock of this machine; else ask the server's operator"]

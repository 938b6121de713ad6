"""`engine serve` as a process: where it says it is, and how it ends."""

import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from engine.cli import main
from tests.cli.conftest import Start


@pytest.fixture(autouse=True)
def runtime() -> Iterator[str]:
    """A folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_served_sessions_are_driven_by_http(engine: Start, tmp_path: Path, runtime: str) -> None:
    command = engine("serve", "--opencode", XDG_RUNTIME_DIR=runtime)
    command.read_until("Ctrl-C ends it.")
    address = re.search(r"serves at (http://\S+) and at (\S+)", command.output)
    token = re.search(r"The token is in (\S+)\.", command.output)
    assert address is not None
    assert token is not None
    headers = {"Authorization": f"Bearer {Path(token[1]).read_text().strip()}"}
    with httpx.Client(base_url=address[1], headers=headers, timeout=30) as http:
        assert http.get("/global/health").json()["healthy"] is True
        session_id = http.post("/v1/sessions", json={"cwd": str(tmp_path), "key": "1"}).json()["row"]["id"]
        turn = http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "hello", "key": "2"}).json()
        params = {"session_id": session_id, "turn_id": turn["turn_id"], "timeout": 30}
        request = {"jsonrpc": "2.0", "id": 1, "method": "wait", "params": params}
        assert http.post("/v1/rpc", json=request).json()["result"]["result"]["text"] == "Hello, wörld.\nTwo lines."
        second = engine("serve", XDG_RUNTIME_DIR=runtime)
        assert second.wait() == 0
        assert f"a server of this store runs at {address[1]}" in second.output
        # Both give a link to the page, which works once.
        for output in (command.output, second.output):
            link = re.search(r"minutes: (http://\S+/)#k=(\S+)", output)
            assert link is not None
            logins = [http.post("/v1/login", json={"ticket": link[2]}).status_code for _ in range(2)]
            assert logins == [200, 401]
            assert http.get("/").status_code == 200
    third = engine("serve", "--require-new", XDG_RUNTIME_DIR=runtime)
    assert third.wait() == 11
    assert f"process {command.process.pid}" in third.output
    command.send(signal.SIGTERM)
    assert command.wait() == 0
    assert not Path(address[2]).exists()


def test_page_is_opened_by_a_private_file(started_engine: Start, tmp_path: Path, runtime: str) -> None:
    # A browser that notes what it is started with.
    browser = tmp_path / "browser"
    noted = tmp_path / "noted"
    browser.write_text(f'#!/bin/sh\necho "$@" > {noted}.tmp; mv {noted}.tmp {noted}\n')
    browser.chmod(0o755)
    command = started_engine("serve", "--open", XDG_RUNTIME_DIR=runtime, BROWSER=f"{browser} %s")
    command.read_until("Ctrl-C ends it.")
    for opened in (command, started_engine("serve", "--open", XDG_RUNTIME_DIR=runtime, BROWSER=f"{browser} %s")):
        if opened is not command:
            assert opened.wait() == 0
        end = time.monotonic() + 30
        while not noted.exists() and time.monotonic() < end:
            time.sleep(0.02)
        file = Path(unquote(urlsplit(noted.read_text().strip()).path))
        noted.unlink()
        # The ticket is in the file, which is only ours, and not among the arguments, which are everybody's.
        assert file.stat().st_mode & 0o077 == 0
        found = re.search(r'url=(http://[^/]+)/#k=([^"]+)"', file.read_text())
        assert found is not None
        assert httpx.post(f"{found[1]}/v1/login", json={"ticket": found[2]}).status_code == 200
    command.send(signal.SIGTERM)
    assert command.wait() == 0


def test_missing_key_has_three_ways_out(engine: Start, runtime: str) -> None:
    command = engine("serve", XDG_RUNTIME_DIR=runtime, ANTHROPIC_API_KEY="")
    assert command.wait() == 6
    assert "engine serve: No API key for Anthropic\nNext: export ANTHROPIC_API_KEY=KEY\nor: " in command.output.replace(
        "\r\n", "\n"
    )


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["--listen", "0.0.0.0", "--insecure-plain"], r"http://127\.0\.0\.1:\d+"),
        (["--public-url", "https://proxy.example/engine/"], r"https://proxy\.example/engine"),
    ],
)
def test_printed_addresses_can_be_opened(engine: Start, runtime: str, arguments: list[str], address: str) -> None:
    command = engine("serve", *arguments, XDG_RUNTIME_DIR=runtime)
    command.read_until("Ctrl-C ends it.")
    command.send(signal.SIGTERM)
    assert command.wait() == 0
    assert re.search(rf"engine serves at {address} and", command.output)
    assert re.search(rf"minutes: {address}/#k=\S+\n", command.output)
    assert re.search(rf'\)" {address}/v1/sessions\n', command.output)
    assert ("warning: other machines can reach 0.0.0.0, port " in command.output) == ("--listen" in arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--listen", "0.0.0.0"], "engine serve: other machines can reach 0.0.0.0"),
        (
            ["--listen", "nowhere.invalid", "--insecure-plain"],
            "engine serve: the server can't listen at nowhere.invalid",
        ),
        (["--port", "65536"], "argument --port"),
        (["--public-url", "engine.example.com"], "engine serve: the public URL is an address such as https://"),
    ],
)
def test_useless_addresses_are_refused(engine: Start, runtime: str, arguments: list[str], error: str) -> None:
    command = engine("serve", *arguments, XDG_RUNTIME_DIR=runtime)
    assert command.wait() == 2
    assert error in command.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--stdio", "--exit-idle", "5"], "--stdio has no sockets, so --exit-idle has no meaning"),
        (["--stdio", "--notify", "true"], "--stdio has no sockets, so --notify has no meaning"),
        (["--stdio", "--public-url", "https://a.example"], "so --public-url has no meaning"),
        (["--tls-cert", "cert.pem"], "--tls-cert and --tls-key go together"),
        (["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"], "/no/cert.pem with /no/key.pem can't be used"),
        (["--max-memory", "2X"], "argument --max-memory: must be a size such as 500M or 2G"),
        (["--drain", "-1"], "argument --drain: must be a number above 0"),
        (["--audit", "/no/file"], "the audit file /no/file can't be written"),
        (["keys", "add"], "missing: NAME"),
        (["keys", "list", "phone"], "too many arguments: phone"),
        (["keys", "add", "No Name"], "a token can't be called 'No Name'"),
    ],
)
def test_useless_flags_are_refused(
    arguments: list[str],
    error: str,
    runtime: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {
        "XDG_RUNTIME_DIR": runtime,
        "XDG_DATA_HOME": str(tmp_path),
        "ENGINE_CONFIG": "",
        "XDG_CONFIG_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", *arguments]) == 2
    assert error in capsys.readouterr().err

"""`engine serve` as a process: where it says it is, and how it ends."""

import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Start


@pytest.fixture
def runtime() -> Iterator[str]:
    """A folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_served_sessions_are_driven_by_http(engine: Start, tmp_path: Path, runtime: str) -> None:
    command = engine("serve", XDG_RUNTIME_DIR=runtime)
    command.read_until("Ctrl-C ends it.")
    address = re.search(r"serves at (http://\S+) and at (\S+)", command.output)
    token = re.search(r"The token is in (\S+)\.", command.output)
    assert address is not None
    assert token is not None
    headers = {"Authorization": f"Bearer {Path(token[1]).read_text().strip()}"}
    with httpx.Client(base_url=address[1], headers=headers, timeout=30) as http:
        session_id = http.post("/v1/sessions", json={"cwd": str(tmp_path), "key": "1"}).json()["row"]["id"]
        turn = http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "hello", "key": "2"}).json()
        params = {"session_id": session_id, "turn_id": turn["turn_id"], "timeout": 30}
        request = {"jsonrpc": "2.0", "id": 1, "method": "wait", "params": params}
        assert http.post("/v1/rpc", json=request).json()["result"]["result"]["text"] == "Hello, wörld.\nTwo lines."
    second = engine("serve", XDG_RUNTIME_DIR=runtime)
    assert second.wait() == 0
    assert f"a server of this store runs at {address[1]}" in second.output
    third = engine("serve", "--require-new", XDG_RUNTIME_DIR=runtime)
    assert third.wait() == 11
    assert f"process {command.process.pid}" in third.output
    command.send(signal.SIGTERM)
    assert command.wait() == 0
    assert not Path(address[2]).exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--listen", "0.0.0.0"], "engine serve: other machines can reach 0.0.0.0"),
        (
            ["--listen", "nowhere.invalid", "--insecure-plain"],
            "engine serve: the server can't listen at nowhere.invalid",
        ),
        (["--port", "65536"], "argument --port"),
    ],
)
def test_useless_addresses_are_refused(engine: Start, runtime: str, arguments: list[str], error: str) -> None:
    command = engine("serve", *arguments, XDG_RUNTIME_DIR=runtime)
    assert command.wait() == 2
    assert error in command.output

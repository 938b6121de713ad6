"""`engine mcp serve` as a process: the SDK's clients, ends of all kinds, and nothing but messages on its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.cli.conftest import Quick, environment_for
from tests.cli.processes import REPOSITORY, await_sleepers, token
from tests.cli.test_acp import NOISE
from tests.support.mcp_client import ERAS, User, text_of

pytestmark = [pytest.mark.os, pytest.mark.slow]

SERVER = ("-m", "engine", "mcp", "serve")


@pytest.fixture
def env(host: str, tmp_path: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment_for(host, tmp_path)}


@contextmanager
def server(env: Mapping[str, str], cwd: Path, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """The server as a process of an old client, which is spoken to in lines."""
    command = [sys.executable, *SERVER, *arguments]
    with (
        (cwd / "errors").open("wb") as errors,
        subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            capabilities = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            send(process, id=0, method="initialize", params=capabilities)
            assert read(process)["id"] == 0
            send(process, method="notifications/initialized")
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def read(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the next message: every line of the output is one."""
    assert process.stdout is not None
    message: dict[str, Any] = json.loads(process.stdout.readline())
    return message


def run(process: subprocess.Popen[bytes], prompt: str) -> None:
    send(process, id=1, method="tools/call", params={"name": "run", "arguments": {"prompt": prompt}})


@pytest.mark.parametrize("era", ERAS)
async def test_client_of_each_era_runs_a_task(env: Mapping[str, str], tmp_path: Path, era: str) -> None:
    user = User({"decision": "allow"})
    parameters = StdioServerParameters(command=sys.executable, args=[*SERVER], env=dict(env), cwd=tmp_path)
    with trio.fail_after(120):
        async with Client(stdio_client(parameters), mode=era, elicitation_callback=user.elicit) as client:
            result = await client.call_tool("run", {"prompt": "write"})
    assert text_of(result) == "All done."
    created = {"path": "a.txt", "change": "created"}, {"path": "b.txt", "change": "created"}
    assert result.structured_content["changed_files"] == list(created)
    assert result.structured_content["cost"] > 0
    assert len(user.asked) == 2
    assert (tmp_path / "b.txt").read_text() == "one\nTWO\n"


@pytest.mark.parametrize("how", ["closed", signal.SIGTERM])
def test_end_settles_the_turn(env: Mapping[str, str], tmp_path: Path, quick: Quick, how: str | signal.Signals) -> None:
    mark = token()
    with server(env, tmp_path, "--yes") as process:
        run(process, f"tree {mark}")
        await_sleepers(mark, 3)
        if isinstance(how, signal.Signals):
            process.send_signal(how)
        else:
            assert process.stdin is not None
            process.stdin.close()
        assert process.stdout is not None
        for line in process.stdout:
            json.loads(line)
        assert process.wait(timeout=30) == 0
        await_sleepers(mark, 0)
    (row,) = json.loads(quick("sessions", "list", "--json").stdout)
    assert (row["status"], row["stop_reason"]) == ("idle", "aborted")


CLIENT = """
import subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=sys.stderr)
process.stdin.write(sys.stdin.buffer.read())
process.stdin.flush()
print(process.pid, flush=True)
process.wait()
"""


def test_killed_client_leaves_no_process(env: Mapping[str, str], tmp_path: Path) -> None:
    mark = token()
    messages: list[dict[str, Any]] = [
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"prompt": f"tree {mark}"}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, sys.executable, *SERVER, "--yes"],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as client,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(lines.encode())
        client.stdin.close()
        child = int(client.stdout.readline())
        await_sleepers(mark, 3)
        client.kill()
        await_sleepers(mark, 0)
        for _ in range(300):
            if not Path(f"/proc/{child}").exists():
                break
            trio.run(trio.sleep, 0.1)
        assert not Path(f"/proc/{child}").exists()


def test_output_holds_nothing_but_messages(env: Mapping[str, str], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NOISE)
    with server({**env, "PYTHONPATH": f"{site}:{env['PYTHONPATH']}"}, tmp_path, "--yes") as process:
        run(process, "write")
        while (message := read(process)).get("id") != 1:
            pass
        assert message["result"]["structuredContent"]["stop_reason"] == "completed"
    assert b"noise" in (tmp_path / "errors").read_bytes()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_client_over_http_and_a_signal(env: Mapping[str, str], tmp_path: Path) -> None:
    async def use(url: str, token: str) -> str:
        with trio.fail_after(120):
            async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    return text_of(await client.call_tool("run", {"prompt": "write"}))

    command = [sys.executable, *SERVER, "--http", "--yes"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            file = process.stdout.readline().partition("The token is in ")[2].partition(". Add it")[0]
            assert trio.run(use, url, Path(file).read_text().strip()) == "All done."
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_port_needs_http(quick: Quick) -> None:
    ended = quick("mcp", "serve", "--port", "8422")
    assert ended.code == 2
    assert "add --http" in ended.stderr.decode()


def test_folder_outside_of_the_root_is_refused(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    ended = quick("mcp", "serve", "--root", "root")
    assert ended.code == 2
    assert "is not below" in ended.stderr.decode()


def test_server_without_a_key_says_what_is_missing(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, *SERVER],
        cwd=tmp_path,
        env=env,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 6
    assert "no key" in run.stderr
    assert "Traceback" not in run.stderr

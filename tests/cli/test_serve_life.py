"""`engine serve` from its start to its end, as a process: drains, successors, sockets from a service manager, and kills."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.cli import main
from engine.control.service.server_discovery import find_server, read_record
from tests.cli.conftest import Start
from tests.cli.processes import Command, await_sleepers, sleepers, token
from tests.support.line_client import HELLO, LineClient, new_key
from tests.support.network import OPENSSL, make_certificates
from tests.support.processes import python_process

pytestmark = [pytest.mark.os, pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]
READY = "Ctrl-C ends it."


@pytest.fixture(autouse=True)
def runtime() -> Iterator[str]:
    """A folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def folder_of(runtime: str) -> Path:
    (folder,) = (Path(runtime) / "engine").iterdir()
    return folder


def connect(runtime: str) -> LineClient:
    return LineClient.connect(folder_of(runtime) / "control.sock")


def status_of(client: LineClient, session_id: str) -> str:
    status: str = client.result("session.get", session_id=session_id)["row"]["status"]
    return status


def metric(command: Command, runtime: str, name: str) -> float:
    url = re.search(r"serves at (http://\S+)", command.output)
    assert url is not None
    headers = {"Authorization": f"Bearer {(folder_of(runtime) / 'token').read_text().strip()}"}
    (value,) = re.findall(
        rf"^{name} (\S+)$", httpx.get(f"{url[1]}/metrics", headers=headers, timeout=60).text, re.MULTILINE
    )
    return float(value)


# ---- how it ends ------------------------------------------------------------------------------------------------------


def test_drain_ends_what_runs(engine: Start, runtime: str, tmp_path: Path) -> None:
    command = engine("serve", "--yes", "--drain", "1", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    sleep = token()
    with connect(runtime) as client, connect(runtime) as other:
        streaming = client.start_turn(tmp_path, "slow", until="text_delta")
        in_tool = client.start_turn(tmp_path, f"bash sleep {sleep}", until="call_started")
        await_sleepers(sleep, 1)
        assert metric(command, runtime, "engine_processes") >= 1
        waiting = client.start_turn(tmp_path, "ask", until="question_asked")
        command.send(signal.SIGTERM)
        refused = None
        while refused is None:
            # The signal takes a moment.
            refused = other.call("prompt", session_id=waiting, text="More", key=new_key()).get("error")
            if refused is not None and refused["data"]["kind"] == "busy":
                refused = None
        assert refused["data"]["kind"] == "draining"
        notes = list(client.rest())
        ended = {
            event["session_id"]: event["result"]["stop_reason"]
            for note in notes
            if note["method"] == "events"
            for event in note["params"]["events"]
            if event["type"] == "turn_ended"
        }
    assert [note["params"]["until"] for note in notes if note["method"] == "server.draining"]
    assert command.wait() == 0
    assert ended == {streaming: "aborted", in_tool: "aborted"}
    assert not sleepers(sleep)
    assert not list(folder_of(runtime).glob("*.sock"))
    again = engine("serve", "--yes", XDG_RUNTIME_DIR=runtime)
    again.read_until(READY)
    with connect(runtime) as client:
        assert {name: status_of(client, name) for name in (streaming, in_tool, waiting)} == {
            streaming: "idle",
            in_tool: "idle",
            waiting: "waiting",
        }
        client.result("subscribe", session_id=waiting)
        client.result("resume", session_id=waiting, key=new_key())
        while not client.result("asked", session_id=waiting)["questions"]:
            time.sleep(0.02)  # it is asked again once the turn goes on


@pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl")
def test_drain_waits_for_a_turn_that_ends(engine: Start, runtime: str, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    tls = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    command = engine("serve", "--yes", "--drain", "300", *tls, XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    with connect(runtime) as client:
        client.start_turn(tmp_path, "bash until [ -e go ]; do sleep 0.05; done", until="call_started")
        (tmp_path / "key.pem").write_text("nonsense")
        command.send(signal.SIGHUP)
        command.read_until("The old certificate stays in use")
        command.send(signal.SIGTERM)
        command.read_until("a turn has 300 s to end")
        (tmp_path / "go").touch()
        assert client.events_until("turn_ended")[-1]["result"]["stop_reason"] == "completed"
        list(client.rest())
    assert command.wait() == 0


def test_second_signal_settles_at_once(engine: Start, runtime: str, tmp_path: Path) -> None:
    command = engine("serve", "--yes", "--drain", "300", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    sleep = token()
    with connect(runtime) as client:
        client.start_turn(tmp_path, f"bash sleep {sleep}", until="call_started")
        await_sleepers(sleep, 1)
        command.send(signal.SIGTERM)
        command.read_until("stops and saves what runs")
        command.send(signal.SIGTERM)
        ended = client.events_until("turn_ended")
        assert {event["type"] for event in ended} >= {"turn_ending", "call_settled", "turn_ended"}
    assert command.wait() == 0
    assert not sleepers(sleep)


def test_undo_is_finished_before_the_end(engine: Start, runtime: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = engine("serve", "--yes", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    with connect(runtime) as client:
        session_id = client.start_turn(tmp_path, "write", until="turn_ended")
        assert (tmp_path / "a.txt").exists()
        undo = client.send("undo", session_id=session_id, key=new_key())
        command.send(signal.SIGTERM)
        answer = client.answer_to(undo)
        list(client.rest())
    assert command.wait() == 0
    # Nothing in between: it was done, and is answered; or it was refused, and nothing was done.
    assert (tmp_path / "a.txt").exists() == ("error" in answer)
    assert (tmp_path / "b.txt").exists() == ("error" in answer)


# ---- one server for each store ------------------------------------------------------------------------------------------


def test_one_of_two_starts_serves(engine: Start, runtime: str) -> None:
    # There is no folder of the session, as in a container: the state folder is used.
    folders = {"XDG_RUNTIME_DIR": f"{runtime}/missing", "XDG_STATE_HOME": runtime}
    both = [engine("serve", terminal=False, **folders) for _ in range(2)]
    other = engine("serve", "--store", "other.db", terminal=False, **folders)
    other.read_until(READY)
    while all(each.process.poll() is None for each in both):
        for each in both:
            with contextlib.suppress(AssertionError):
                each.read_until("serve", 0.1)
    (loser,) = (each for each in both if each.process.poll() is not None)
    (winner,) = (each for each in both if each is not loser)
    assert loser.wait() == 0
    winner.read_until(READY)
    url = re.search(r"serves at (http://\S+)", winner.output)
    assert url is not None
    assert loser.output.startswith(f"a server of this store runs at {url[1]} (process {winner.process.pid})\n")
    assert len(list((Path(runtime) / "engine").iterdir())) == 2


def test_killed_server_is_not_in_the_way(engine: Start, runtime: str, tmp_path: Path) -> None:
    command = engine("serve", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    with connect(runtime) as client:
        session_id = client.start_turn(tmp_path, "slow", until="text_delta")
    command.send(signal.SIGKILL)
    command.wait()
    folder = folder_of(runtime)
    left = read_record(folder)
    assert left is not None
    assert left.pid == command.process.pid
    again = engine("serve", "--require-new", XDG_RUNTIME_DIR=runtime)
    again.read_until(READY)
    found = find_server(folder)
    assert found is not None
    assert (found.pid, found.instance != left.instance) == (again.process.pid, True)
    with connect(runtime) as client:
        assert status_of(client, session_id) == "interrupted"
    again.send(signal.SIGINT)
    assert again.wait() == 0
    assert find_server(folder) is None
    assert read_record(folder) is None


def stdio_server(host: str, tmp_path: Path) -> Any:
    environment = {
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ANTHROPIC_BASE_URL": host,
        "ENGINE_CONFIG": "",
        "XDG_CONFIG_HOME": str(tmp_path / "no-config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    return python_process("-m", "engine", "serve", "--stdio", "--yes", env={**os.environ, **environment})


def test_stdio_serves_until_its_input_ends(host: str, tmp_path: Path) -> None:
    with stdio_server(host, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        client = LineClient(process.stdout.buffer, process.stdin.buffer)
        assert client.result("hello", **HELLO)["role"] == "full"
        assert client.call("nonsense")["error"]["code"] == -32601
        client.start_turn(tmp_path, "bash echo to stdout; sleep 0.3", until="call_started")
        process.stdin.close()
        # What happens until the end is still sent, and every line is a message.
        assert client.events_until("turn_ended")[-1]["result"]["stop_reason"] == "completed"
        list(client.rest())
        assert process.wait(60) == 0


def test_stdio_answers_what_was_piped_to_it(host: str, tmp_path: Path) -> None:
    requests = [("hello", HELLO), ("session.create", {"cwd": str(tmp_path), "key": "k"}), ("session.list", {})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    with stdio_server(host, tmp_path) as process:
        output, _ = process.communicate("\n".join(lines) + "\n", timeout=60)
        answers = {message["id"]: message for message in map(json.loads, output.splitlines()) if "id" in message}
        assert {number: "result" in answer for number, answer in answers.items()} == {0: True, 1: True, 2: True}
        assert process.returncode == 0


# ---- tokens -----------------------------------------------------------------------------------------------------------------


def test_keys_are_added_listed_and_revoked(
    engine: Start, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    place = str(tmp_path / "sessions.db")

    def keys(*arguments: str) -> tuple[int, str]:
        return main(["serve", "keys", *arguments, "--store", place]), capsys.readouterr().out

    assert keys() == (0, "no tokens: the first start of a server makes one\n")
    server = engine("serve", "--store", place, XDG_RUNTIME_DIR=runtime)
    server.read_until(READY)
    url = re.search(r"serves at (http://\S+)", server.output)
    assert url is not None
    code, secret = keys("add", "phone", "--role", "read")
    assert code == 0
    headers = {"Authorization": f"Bearer {secret.strip()}"}

    def status() -> int:
        return httpx.get(f"{url[1]}/v1/status", headers=headers, timeout=60).status_code

    while status() != 200:  # until the server has read it
        time.sleep(0.2)
    assert keys("list")[1].split() == ["owner", "full", "phone", "read"]
    assert keys("add", "phone")[0] == 2
    assert keys("add")[0] == 2
    assert keys("revoke", "phone") == (0, "phone is revoked\n")
    while status() != 401:
        time.sleep(0.2)
    assert keys("revoke", "phone")[0] == 1
    # The token of the user's own programs: another one takes its place.
    old = (folder_of(runtime) / "token").read_text()
    assert keys("revoke", "owner")[0] == 0
    while not (folder_of(runtime) / "token").exists():
        time.sleep(0.2)
    assert (folder_of(runtime) / "token").read_text() != old

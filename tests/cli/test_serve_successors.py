"""Servers that take each other's place, or get their sockets from a service manager: under prompts, and with clients connected."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast, get_args

import httpx
import pytest
import trio

from engine import client as engine_client
from engine.client import Online
from engine.control.service.private_files import private_folder
from engine.control.service.server_discovery import find_server, server_folder
from engine.control.token_file import add_token
from engine.core.events import Durable
from engine.journal.state import Resync, SessionState
from tests.cli.conftest import Start
from tests.cli.processes import Command
from tests.cli.test_serve_life import READY, connect, folder_of, runtime, status_of
from tests.support.line_client import LineClient, new_key

__all__ = ["runtime"]

pytestmark = [pytest.mark.os, pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


# ---- successors -------------------------------------------------------------------------------------------------------------


class Prompts(threading.Thread):
    """Prompts over HTTP one after the other, each in a new connection, and repeated until it was taken."""

    def __init__(self, url: str, bearer: str, cwd: Path) -> None:
        super().__init__()
        self.url, self.headers, self.cwd = url, {"Authorization": f"Bearer {bearer}"}, cwd
        self.admitted: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            session_id = self.post("/v1/sessions", cwd=str(self.cwd), key=new_key())["row"]["id"]
            key = new_key()
            self.post(f"/v1/sessions/{session_id}/prompt", text="hello", key=key)
            self.admitted.append((session_id, key))

    def post(self, path: str, **params: Any) -> dict[str, Any]:
        while True:
            try:
                answer = httpx.post(f"{self.url}{path}", json=params, headers=self.headers, timeout=60)
            except (httpx.RemoteProtocolError, httpx.ReadError):
                continue  # the request was under way when the server ended: the key makes it safe to repeat
            except httpx.ConnectError as error:
                self.failures.append(str(error))
                raise
            result: dict[str, Any] = answer.json()
            if answer.is_success:
                return result
            # Draining, or still open in the predecessor.
            assert result["kind"] in {"draining", "elsewhere", "busy"}, result


def prompts_of(command: Command, runtime: str, cwd: Path) -> Prompts:
    url = re.search(r"serves at (http://\S+)", command.output)
    assert url is not None
    return Prompts(url[1], (folder_of(runtime) / "token").read_text().strip(), cwd)


def assert_all_admitted_once(client: LineClient, prompts: Prompts) -> None:
    for session_id, key in prompts.admitted:
        events = client.result("events", session_id=session_id, after=0)["events"]
        assert [each["input_id"] for each in events if each["type"] == "input_admitted"] == [key]


class Watcher(threading.Thread):
    """Watches a session as a program does that knows nothing of servers coming and going, up to a number of turns."""

    def __init__(self, url: str, bearer: str | None, session_id: str, turns: int) -> None:
        super().__init__(daemon=True)
        self.url, self.bearer, self.session_id, self.turns = url, bearer, session_id, turns
        self.begun = threading.Event()
        # The numbers of events between two snapshots.
        self.seqs: list[list[int]] = [[]]
        self.moves: list[bool] = []
        self.state: SessionState | None = None
        self.healed = -1

    def run(self) -> None:
        trio.run(self._watch)

    async def _watch(self) -> None:
        async with engine_client.connect(self.url, self.bearer) as client:
            async with client.session(self.session_id).watch(from_start=True) as stream:
                async for item in stream:
                    self._note(item)
                    if (state := stream.state) is not None and state.turns == self.turns and state.turn is None:
                        break
                self.state = stream.state
            self.healed = client.healed

    def _note(self, item: object) -> None:
        self.begun.set()
        if isinstance(item, Resync):
            self.seqs.append([item.seq])
        elif isinstance(item, Online):
            self.moves.append(item.is_new_server)
        elif isinstance(item, get_args(Durable)) and (seq := cast("Durable", item).seq) is not None:
            self.seqs[-1].append(seq)


def test_takeover_refuses_no_connection(engine: Start, runtime: str, tmp_path: Path) -> None:
    first = engine("serve", "--yes", "--drain", "2", XDG_RUNTIME_DIR=runtime)
    first.read_until(READY)
    prompts = prompts_of(first, runtime, tmp_path)
    with connect(runtime) as client:
        running = client.start_turn(tmp_path, "slow", until="text_delta")
        places = (
            (prompts.url, (folder_of(runtime) / "token").read_text().strip()),
            (f"unix:{folder_of(runtime)}/control.sock", None),
        )
        watchers = [Watcher(url, bearer, running, turns=2) for url, bearer in places]
        for watcher in watchers:
            watcher.start()
            assert watcher.begun.wait(60)
        prompts.start()
        second = engine("serve", "--yes", "--takeover", XDG_RUNTIME_DIR=runtime)
        second.read_until(READY)
        assert prompts.url in second.output
        assert any(note["method"] == "server.draining" for note in client.rest())
        assert first.wait() == 0, first.output
        count = len(prompts.admitted)
        while len(prompts.admitted) < count + 2 and prompts.is_alive():
            prompts.over.wait(0.05)
        prompts.over.set()
        prompts.join()
    assert not prompts.failures
    found = find_server(folder_of(runtime))
    assert found is not None
    assert found.pid == second.process.pid
    with connect(runtime) as client:
        assert_all_admitted_once(client, prompts)
        assert status_of(client, running) == "idle"
        client.result("prompt", session_id=running, text="hello", key=new_key())
        fresh = Watcher(prompts.url, places[0][1], running, turns=2)
        fresh.start()
        for watcher in (fresh, *watchers):
            watcher.join(60)
            # Each seq once, without a gap: up to the move, and on from the snapshot that came with it.
            assert all(seqs == list(range(seqs[0], seqs[0] + len(seqs))) for seqs in watcher.seqs)
            assert (watcher.state, watcher.healed) == (fresh.state, 0)
            assert (watcher.moves, len(watcher.seqs)) == (([], 1) if watcher is fresh else ([True], 2))
    second.send(signal.SIGTERM)
    assert second.wait() == 0, second.output
    assert not list(folder_of(runtime).glob("*.sock"))


def test_takeover_without_a_server_is_a_start(engine: Start, runtime: str) -> None:
    command = engine("serve", "--takeover", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)


# ---- started by another program ------------------------------------------------------------------------------------------------

# As a service manager does it: the descriptors begin with 3, and the variables name the process that is started.
LAUNCHER = """
import os, sys
for number, descriptor in enumerate(json.loads(sys.argv[1])):
    os.dup2(descriptor, 3 + number)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "engine", *sys.argv[2:]])
"""


@contextlib.contextmanager
def activated(sockets: list[socket.socket], *arguments: str, **env: str) -> Generator[subprocess.Popen[str]]:
    """Start the command with these listening sockets, and the journal as its output."""
    # Out of the way of the numbers that they get.
    high = [os.dup2(each.fileno(), 200 + number) for number, each in enumerate(sockets)]
    reading, writing = os.pipe()
    status = os.fstat(writing)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", f"import json{LAUNCHER}", json.dumps(high), *arguments],
            env={
                **os.environ,
                "LISTEN_FDS": str(len(sockets)),
                "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}",
                **env,
            },
            pass_fds=high,
            stdout=writing,
            text=True,
        ) as process:
            os.close(writing)
            try:
                yield process
            finally:
                process.kill()
        # A link would let in those who read the journal.
        output = os.read(reading, 1 << 16).decode()
        assert "engine serves at http" in output
        assert "#k=" not in output
    finally:
        for each in (*high, reading):
            os.close(each)


def activated_environment(host: str, runtime: str, folder: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ANTHROPIC_BASE_URL": host,
        "ENGINE_CONFIG": "",
        "XDG_CONFIG_HOME": str(folder / "no-config"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_RUNTIME_DIR": runtime,
        "LISTEN_FDNAMES": "http:control",
        "NOTIFY_SOCKET": f"{runtime}/notify",
        "WATCHDOG_USEC": "2000000",
    }


def test_activated_server_ends_and_starts_again(host: str, runtime: str, tmp_path: Path) -> None:
    environment = activated_environment(host, runtime, tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as http,
        socket.socket(socket.AF_UNIX) as control,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        control.bind(f"{runtime}/own.sock")
        control.listen()
        manager.bind(f"{runtime}/notify")
        manager.settimeout(60)
        url = f"http://127.0.0.1:{http.getsockname()[1]}"
        for _ in range(2):
            # The connection comes before the server, and waits for it.
            with (
                activated([http, control], "serve", "--yes", "--exit-idle", "1", **environment) as process,
                LineClient.connect(Path(f"{runtime}/own.sock")) as client,
            ):
                assert httpx.get(f"{url}/healthz", timeout=60).text == "ok\n"
                session_id = client.start_turn(tmp_path, "bash env | cut -d= -f1 | sort", until="turn_ended")
                events = client.result("events", session_id=session_id, after=0)["events"]
                (settled,) = (str(event) for event in events if event["type"] == "call_settled")
                assert "PATH" in settled
                assert not re.search("LISTEN_|NOTIFY_|WATCHDOG_", settled)
                messages = manager.recv(4096).decode()
                assert messages.startswith("READY=1\nSTATUS=serves at http")
                found = find_server(folder_of(runtime))
                assert found is not None
                assert (found.pid, found.url, found.socket) == (process.pid, url, f"{runtime}/own.sock")
                assert manager.recv(4096) == b"WATCHDOG=1"
                client.close()
                assert process.wait(60) == 0
            while (message := manager.recv(4096)) != b"STOPPING=1":
                assert message == b"WATCHDOG=1"
            assert Path(f"{runtime}/own.sock").exists()


def test_activation_loses_no_prompt_under_load(
    host: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """Connections that come before the first server, between it and the next, and while each of them ends."""
    environment = activated_environment(host, runtime, tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as http,
        socket.socket(socket.AF_UNIX) as control,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        control.bind(f"{runtime}/own.sock")
        control.listen()
        manager.bind(f"{runtime}/notify")
        url = f"http://127.0.0.1:{http.getsockname()[1]}"
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        store = str(tmp_path / "sessions.db")
        private_folder(server_folder(store))
        bearer = add_token(server_folder(store), "load", "full")
        crowd = [Prompts(url, bearer, tmp_path) for _ in range(3)]
        for prompts in crowd:
            prompts.start()
        last = 3 if is_full else 1
        for number in range(last + 1):
            with activated([http, control], "serve", "--yes", "--store", store, **environment) as process:
                wait_for_more(crowd)
                if number < last:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(60) == 0
                    continue
                for prompts in crowd:
                    prompts.over.set()
                    prompts.join(60)
                with LineClient.connect(Path(f"{runtime}/own.sock")) as client:
                    for prompts in crowd:
                        assert not prompts.failures
                        assert_all_admitted_once(client, prompts)


def wait_for_more(crowd: list[Prompts]) -> None:
    """Wait until each of them has been served twice more."""
    counts = [len(prompts.admitted) for prompts in crowd]
    while any(len(prompts.admitted) < count + 2 for prompts, count in zip(crowd, counts, strict=True)):
        assert all(prompts.is_alive() for prompts in crowd)
        time.sleep(0.05)

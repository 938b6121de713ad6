"""`engine serve` from its start to its end, as a process: drains, successors, sockets from a service manager, and kills."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import trio

from engine import client as engine_client
from engine.cli import main
from engine.client import Online
from engine.control.service.private_files import private_folder
from engine.control.service.server_discovery import find_server, read_record, server_folder
from engine.control.token_file import add_token
from engine.core.events import Durable
from engine.journal.state import Resync, SessionState
from tests.cli.conftest import Start
from tests.cli.processes import Command, await_sleepers, sleepers, token
from tests.support.line_client import HELLO, LineClient, new_key
from tests.support.processes import python_process

pytestmark = [pytest.mark.os, pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]
READY = "Ctrl-C ends it."


@pytest.fixture
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


# ---- how it ends ------------------------------------------------------------------------------------------------------


def test_drain_ends_what_runs(engine: Start, runtime: str, tmp_path: Path) -> None:
    command = engine("serve", "--yes", "--drain", "1", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    sleep = token()
    with connect(runtime) as client, connect(runtime) as other:
        streaming = client.start_turn(tmp_path, "slow", until="text_delta")
        in_tool = client.start_turn(tmp_path, f"bash sleep {sleep}", until="call_started")
        await_sleepers(sleep, 1)
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


def test_drain_waits_for_a_turn_that_ends(engine: Start, runtime: str, tmp_path: Path) -> None:
    command = engine("serve", "--yes", "--drain", "300", XDG_RUNTIME_DIR=runtime)
    command.read_until(READY)
    with connect(runtime) as client:
        client.start_turn(tmp_path, "bash until [ -e go ]; do sleep 0.05; done", until="call_started")
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
        elif isinstance(item, get_args(Durable)) and item.seq is not None:
            self.seqs[-1].append(item.seq)


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
    """Start the command with these listening sockets."""
    # Out of the way of the numbers that they get.
    high = [os.dup2(each.fileno(), 200 + number) for number, each in enumerate(sockets)]
    try:
        with subprocess.Popen(
            [sys.executable, "-c", f"import json{LAUNCHER}", json.dumps(high), *arguments],
            env={**os.environ, "LISTEN_FDS": str(len(sockets)), **env},
            pass_fds=high,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        for each in high:
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

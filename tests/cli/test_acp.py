"""`engine acp` as a process, with editors that others have made, and with nothing but messages on its output."""

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

from tests.cli.conftest import environment_for
from tests.cli.processes import REPOSITORY, await_sleepers, token
from tests.support.acp_schema import HAS_SCHEMA, checked_lines
from tests.support.javascript import FOLDER, NODE

pytestmark = [pytest.mark.os, pytest.mark.slow]

AGENT = (sys.executable, "-m", "engine", "acp")


@pytest.fixture
def env(host: str, tmp_path: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment_for(host, tmp_path)}


class Agent:
    """The agent as a process, spoken to in lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Return the next message: every line of the output is one."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.seen.append(message)
        return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = len(self.seen) + 1
        self.send(id=number, method=method, params=params)
        while (message := self.read()).get("id") != number or "method" in message:
            pass
        result: dict[str, Any] = message["result"] if "result" in message else message["error"]
        return result

    def prompt(self, cwd: Path, text: str) -> str:
        """Start a session and a prompt there; return the session."""
        self.call("initialize", protocolVersion=1)
        session_id: str = self.call("session/new", cwd=str(cwd), mcpServers=[])["sessionId"]
        prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        self.send(id="prompt", method="session/prompt", params=prompt)
        return session_id

    def allow(self) -> None:
        """Allow the next call that asks."""
        while (message := self.read()).get("method") != "session/request_permission":
            pass
        self.send(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": "allow"}})


@contextmanager
def agent(env: Mapping[str, str], cwd: Path, *arguments: str) -> Generator[Agent]:
    command = [*AGENT, *arguments]
    with (
        (cwd / "errors").open("wb") as errors,
        subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield Agent(process)
        finally:
            process.kill()


def test_foreign_editor_drives_a_conversation(env: Mapping[str, str], tmp_path: Path) -> None:
    peer = [sys.executable, "-m", "tests.cli.acp_peer", *AGENT]
    ended = subprocess.run(peer, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen["protocol"] == 1
    assert seen["stop_reasons"] == ["end_turn", "cancelled"]
    assert {"tool_call", "tool_call_update", "agent_message_chunk", "usage_update"} <= set(seen["updates"])
    assert seen["replayed"][0] == "user_message_chunk"
    assert seen["asked"] == ["write a.txt", "bash cat a.txt | tee b.txt"]
    assert seen["sessions"] == ["slow", "write"]
    assert seen["unknown"] == -32002
    assert seen["exit"] == 0
    assert (tmp_path / "b.txt").read_text() == "one\nTWO\n"


@pytest.mark.skipif(NODE is None or not HAS_SCHEMA, reason="there is no node, or `make packages` was not run")
def test_editor_in_javascript_drives_a_conversation(env: Mapping[str, str], tmp_path: Path) -> None:
    assert NODE is not None
    record = tmp_path / "record"
    peer = [NODE, str(FOLDER / "acp_editor.mjs"), str(record), *AGENT]
    ended = subprocess.run(peer, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen["protocol"] == 1
    assert seen["stop_reasons"] == ["end_turn", "end_turn", "cancelled", "cancelled"]
    assert {"tool_call", "tool_call_update", "agent_message_chunk", "usage_update"} <= set(seen["updates"])
    assert seen["replayed"][0] == "user_message_chunk"
    assert seen["asked"] == ["write a.txt", "bash cat a.txt | tee b.txt"]
    assert len(seen["forms"]) >= 1
    assert seen["files"][-1] == "write"
    assert seen["sessions"] == ["slow", "slow", "ask", "rewrite"]
    assert seen["errors"] == [-32002, -32602, -32601]
    assert seen["exit"] == 0
    assert (tmp_path / "b.txt").read_text() == "one\nTWO\n"
    # By the shape of the protocol's messages at least: the recording has the answers, and not what they answer.
    assert len(checked_lines(record)) > 30


def test_requests_before_the_end_are_answered(env: Mapping[str, str], tmp_path: Path) -> None:
    def line(**message: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", **message}) + "\n"

    params = {"cwd": str(tmp_path), "mcpServers": []}
    prompt = {"sessionId": "ses_no", "prompt": [{"type": "text", "text": "hello"}]}
    text = "".join(
        [
            "no JSON\n",
            line(id=1, method="initialize", params={"protocolVersion": 1}),
            line(id=2, method="session/new", params=params),
            line(id=3, method="session/prompt", params=prompt),
            line(id=4, method="session/list", params={"cursor": "garbage"}),
            line(id=5, method="session/new", params={"mcpServers": []}),
            '{"jsonrpc": "2.0", "id": 6, "meth',
        ]
    )
    ended = subprocess.run(
        AGENT, cwd=tmp_path, env=env, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    answers = {m["id"]: m for m in map(json.loads, ended.stdout.splitlines()) if "method" not in m}
    assert answers.keys() == {None, 1, 2, 3, 4, 5}
    assert answers[None]["error"]["code"] == -32700
    assert answers[2]["result"]["sessionId"]
    # By then, the input has ended or not.
    assert answers[3].get("result", {}).get("stopReason") == "cancelled" or answers[3]["error"]["code"] == -32002
    assert answers[4]["error"] == {"code": -32602, "message": "cursor: there is no such page"}
    assert answers[5]["error"]["message"] == "cwd: the field is missing"


def test_closed_input_ends_a_command(env: Mapping[str, str], tmp_path: Path) -> None:
    mark = token()
    with agent(env, tmp_path) as editor:
        editor.prompt(tmp_path, f"tree {mark}")
        editor.allow()
        await_sleepers(mark, 3)
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert editor.process.stdout is not None
        rest = [json.loads(line) for line in editor.process.stdout]
        assert [m["result"]["stopReason"] for m in rest if m.get("id") == "prompt"] == ["cancelled"]
        assert editor.process.wait(timeout=30) == 0
        await_sleepers(mark, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_command(env: Mapping[str, str], tmp_path: Path, number: signal.Signals) -> None:
    mark = token()
    with agent(env, tmp_path) as editor:
        editor.prompt(tmp_path, f"tree {mark}")
        editor.allow()
        await_sleepers(mark, 3)
        editor.process.send_signal(number)
        assert editor.process.wait(timeout=30) == 0
        await_sleepers(mark, 0)


def test_killed_agent_leaves_a_session_to_load(env: Mapping[str, str], tmp_path: Path) -> None:
    mark = token()
    with agent(env, tmp_path) as editor:
        session_id = editor.prompt(tmp_path, f"tree {mark}")
        editor.allow()
        await_sleepers(mark, 3)
        editor.process.kill()
        editor.process.wait()
    with agent(env, tmp_path) as editor:
        editor.call("initialize", protocolVersion=1)
        assert "modes" in editor.call("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        await_sleepers(mark, 0)
        calls = [m["params"]["update"] for m in editor.seen if "tool_call" in str(m)]
        assert {call["status"] for call in calls} == {"failed"}
        prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hello"}]}
        assert editor.call("session/prompt", **prompt)["stopReason"] == "end_turn"


# What Python loads by itself: a thread that prints as soon as the agent has its streams, in both ways.
NOISE = """
import os, threading, time

def print_noise():
    while True:
        time.sleep(0.005)
        if os.readlink("/proc/self/fd/1") == os.readlink("/proc/self/fd/2"):
            print("noise", flush=True)
            os.write(1, b"noise")

threading.Thread(target=print_noise, daemon=True).start()
"""


def test_output_holds_nothing_but_messages(env: Mapping[str, str], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NOISE)
    with agent({**env, "PYTHONPATH": f"{site}:{env['PYTHONPATH']}"}, tmp_path) as editor:
        editor.prompt(tmp_path, "write")
        editor.allow()
        editor.allow()
        while (message := editor.read()).get("id") != "prompt":
            pass
        assert message["result"]["stopReason"] == "end_turn"
    assert b"noise" in (tmp_path / "errors").read_bytes()


def test_without_a_key_the_login_is_named(env: Mapping[str, str], tmp_path: Path) -> None:
    bare = {name: value for name, value in env.items() if name not in {"ANTHROPIC_API_KEY", "ENGINE_MODEL"}}
    with agent(bare, tmp_path, "--model", "anthropic/claude-sonnet-5-5") as editor:
        methods = editor.call("initialize", protocolVersion=1)["authMethods"]
        assert methods[0]["id"] == "engine-auth-add"
        refused = editor.call("session/new", cwd=str(tmp_path), mcpServers=[])
        assert refused["code"] == -32000


def test_unanswered_question_is_rejected(env: Mapping[str, str], tmp_path: Path) -> None:
    with agent(env, tmp_path, "--question-timeout", "0.2") as editor:
        editor.prompt(tmp_path, "write")
        while (message := editor.read()).get("id") != "prompt":
            pass
        assert message["result"]["stopReason"] == "end_turn"
        assert not (tmp_path / "a.txt").exists()

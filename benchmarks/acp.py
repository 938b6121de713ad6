"""Figure `acp`: what an editor costs: a turn, many deltas, a long conversation loaded."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from benchmarks.acp_agent import Host
from benchmarks.control import one_client_seconds
from benchmarks.control_processes import Child, child
from benchmarks.control_server import Stream
from benchmarks.kit import echo, goodbye, one_call, scripted
from benchmarks.report import Figure, Row, median, seconds
from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import EditorConnection
from engine.control.transport.message_transport import TransportClosed
from engine.testing.script import Pause, text

STEPS: Final = 40
# What a model takes for one of them: less than any real one.
STEP: Final = 0.05
DELTAS: Final = 100_000
MESSAGES: Final = 10_000


@attrs.define
class Editor:
    """The editor's end of a process with an agent."""

    process: Child
    _number: int = 0

    def read(self) -> dict[str, Any]:
        """Return its next message. Several may be in the buffer, so `Child.read` would wait for more."""
        assert self.process.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.process.stdout.readline())
        return message

    def begin(self, method: str, **params: object) -> int:
        self._number += 1
        self.process.write(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        return self._number

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request."""
        number = self.begin(method, **params)
        while (message := self.read()).get("id") != number:
            pass
        result: dict[str, Any] = message["result"]
        return result


@contextmanager
def editor_in(folder: str) -> Generator[Editor]:
    """Run an agent; it is initialised."""
    with child("acp_agent", folder) as process:
        editor = Editor(process)
        editor.call("initialize", protocolVersion=1)
        yield editor


# -- many deltas -------------------------------------------------------------------------


def delta_rows() -> list[Row]:
    """100,000 deltas to an editor, versus to a client of the control endpoint."""
    rounds = 3
    with tempfile.TemporaryDirectory() as folder, editor_in(folder) as editor:
        over_pipe = [_deltas(editor, folder) for _ in range(rounds + 1)][1:]
    over_socket = one_client_seconds(Stream(deltas=DELTAS), rounds)
    ratio = min(over_pipe) / min(over_socket)
    return [
        Row(
            name=f"acp: {DELTAS:,} deltas to an editor, CPU of the agent, versus the control endpoint's",
            measured=seconds(min(over_pipe)),
            baseline=seconds(min(over_socket)),
            ratio=ratio,
            target="ratio ≤ 1.50",
            ok=ratio <= 1.5,
        )
    ]


def _deltas(editor: Editor, folder: str) -> float:
    session_id = editor.call("session/new", cwd=folder, mcpServers=[])["sessionId"]
    prompt = [{"type": "text", "text": Stream(deltas=DELTAS).prompt}]
    cpu, chars = editor.process.cpu, 0
    number = editor.begin("session/prompt", sessionId=session_id, prompt=prompt)
    while (message := editor.read()).get("id") != number:
        update = message["params"]["update"]
        chars += len(update["content"]["text"]) if update["sessionUpdate"] == "agent_message_chunk" else 0
    assert chars >= 6 * DELTAS, "text is missing"
    return editor.process.cpu - cpu


# -- a turn ------------------------------------------------------------------------------


class _Script:
    """A transport whose editor says what it was made with, and reads everything at once."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[str](64)
        self.number = 0
        self.answered = trio.Event()

    async def send(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        if text.startswith('{"jsonrpc":"2.0","id":'):
            self.last = json.loads(text)
            self.answered.set()

    async def receive(self) -> str:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise TransportClosed(1000) from None

    async def close(self, *_: object) -> None:
        await trio.lowlevel.checkpoint()

    def leave(self) -> None:
        self._send.close()

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request."""
        self.number += 1
        self.answered = trio.Event()
        self._send.send_nowait(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))
        await self.answered.wait()
        result: dict[str, Any] = self.last["result"]
        return result


class Watch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> tuple[float, float]:
        """By the clock, and of CPU."""
        return time.perf_counter() - self._clock, time.process_time() - self._cpu


def _host(folder: str) -> Host:
    answers = [[Pause(STEP), *text("word " * 50, pieces=50), *one_call("echo", number)] for number in range(STEPS)]
    return Host(scripted([*answers, goodbye()]), Path(folder) / "sessions.db", [echo])


async def _turn_of_editor(folder: str) -> tuple[float, float]:
    transport: Any = _Script()
    agent = EditorAgent(EditorConnection(transport), _host(folder))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.run)
        await transport.call("initialize", protocolVersion=1)
        session_id = (await transport.call("session/new", cwd=folder, mcpServers=[]))["sessionId"]
        watch = Watch()
        prompt = [{"type": "text", "text": "go"}]
        assert (await transport.call("session/prompt", sessionId=session_id, prompt=prompt))["stopReason"] == "end_turn"
        taken = watch.seconds
        transport.leave()
    return taken


async def _turn_of_host(folder: str) -> tuple[float, float]:
    async with _host(folder).open_engine() as eng:
        session = await eng.create_session(cwd=folder)
        watch = Watch()
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
        return watch.seconds


def turn_rows() -> list[Row]:
    """A turn for an editor, and for a host that reads its events."""

    def measured(play: Callable[[str], Any]) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            with tempfile.TemporaryDirectory() as folder:
                taken: tuple[float, float] = trio.run(play, folder)
                return taken

        return run

    programs = [measured(_turn_of_editor), measured(_turn_of_host)]
    rounds = [[program() for program in programs] for _ in range(5)]
    (clock, cpu), (bare_clock, bare_cpu) = (
        [median(each[index][part] for each in rounds) for part in (0, 1)] for index in (0, 1)
    )
    return [
        Row(
            name=f"acp: a turn of {STEPS} steps, each {seconds(STEP)} of a model's time, versus a host that reads its events",
            measured=seconds(clock),
            baseline=seconds(bare_clock),
            ratio=clock / bare_clock,
            target="ratio ≤ 1.05",
            ok=clock / bare_clock <= 1.05,
        ),
        Row(
            name="acp: the same, CPU",
            measured=seconds(cpu),
            baseline=seconds(bare_cpu),
            ratio=cpu / bare_cpu,
        ),
    ]


# -- a long conversation -----------------------------------------------------------------


async def _write_conversation(folder: str) -> str:
    answers = [one_call("echo", number) for number in range(MESSAGES // 2)]
    async with Host(scripted([*answers, goodbye()]), Path(folder) / "sessions.db", [echo]).open_engine() as eng:
        session = await eng.create_session(cwd=folder)
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
        assert len(session.state.transcript) >= MESSAGES
        return session.id


def load_rows() -> list[Row]:
    """A conversation of 10,000 messages, until the editor has its first update, and until it has all."""
    cpu: list[float] = []
    first: list[float] = []
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        session_id = trio.run(_write_conversation, folder)
        for _ in range(3):
            with editor_in(folder) as editor:
                editor.call("session/list")  # opens the engine
                began, used = time.perf_counter(), editor.process.cpu
                number = editor.begin("session/load", sessionId=session_id, cwd=folder, mcpServers=[])
                assert editor.read()["method"] == "session/update"
                first.append(time.perf_counter() - began)
                cpu.append(editor.process.cpu - used)
                while editor.read().get("id") != number:
                    pass
                whole.append(time.perf_counter() - began)
    return [
        Row(
            name=f"acp: load of {MESSAGES:,} messages, CPU of the agent to the first update",
            measured=seconds(min(cpu)),
            target="≤ 1 s",
            ok=min(cpu) <= 1,
        ),
        Row(name="acp: the same, by the clock", measured=seconds(min(first))),
        Row(name="acp: the same, until the answer", measured=seconds(min(whole))),
    ]


def measure() -> list[Row]:
    return [*turn_rows(), *delta_rows(), *load_rows()]


FIGURE = Figure(
    name="acp", about="what an editor costs: a turn, many deltas, a long conversation loaded", measure=measure
)

"""An editor of the Agent Client Protocol over memory, and a host for its agent; every message is checked by the models of
`agent-client-protocol`, which others have made from the protocol's schema."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing
from acp import schema
from pydantic import TypeAdapter

from engine import Engine, Settings, open_engine
from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import LIMITS, EditorConnection
from engine.acp.editor_host import EditorCommand
from engine.control.transport.line_transport import LineTransport
from engine.core.protocols import Model
from engine.journal.span_port import Telemetry
from engine.session.engine_options import PermissionOptions, Ports
from engine.tools.tool import Tool
from tests.support.acp_schema import HAS_SCHEMA, check_by_schema

Message = dict[str, Any]

_RESULTS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
_CALLS: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "elicitation/create": schema.CreateFormElicitationRequest,
    "$/cancel_request": schema.CancelRequestNotification,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
}


def check_message(message: Message, methods: dict[int, str]) -> None:
    """Compare a message of the agent with the protocol's schema. *methods* are those of the open requests."""
    assert message["jsonrpc"] == "2.0"
    if HAS_SCHEMA and message.get("id", 0) is not None:
        check_by_schema(message, message.get("method") or methods[message["id"]])
    if "method" in message:
        TypeAdapter(_CALLS[message["method"]]).validate_python(message["params"])
    elif "error" in message:
        schema.Error.model_validate(message["error"])
    elif (method := methods[message["id"]]) in _RESULTS:
        TypeAdapter(_RESULTS[method]).validate_python(message["result"])


@attrs.define
class Editor:
    """The editor's end of the connection.

    Attributes:
        seen: everything that the agent has sent, in order.
        choose: which option of a question for permission is selected; None: the question stays open.
        serve_file: the answers to a request for a file, by its method and its params; none: it stays open.
        on_message: gets each message of the agent.
    """

    stream: trio.abc.Stream
    choose: Callable[[Message], str | None] = lambda _: "allow"
    serve_file: Callable[[str, Message], Sequence[Message]] = lambda _, __: ()
    on_message: Callable[[Message], None] = lambda _: None
    seen: list[Message] = attrs.field(factory=list)
    methods: dict[int, str] = attrs.field(factory=dict)
    _buffer: bytes = b""
    _arrived: trio.Condition = attrs.field(factory=trio.Condition)
    _sending: trio.Lock = attrs.field(factory=trio.Lock)

    async def send(self, message: object) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})  # type: ignore[dict-item]
        async with self._sending:
            await self.stream.send_all(text.encode() + b"\n")

    async def notify(self, method: str, **params: Any) -> None:
        await self.send({"method": method, "params": params})

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        number = len(self.methods) + 1
        self.methods[number] = method
        await self.send({"id": number, "method": method, "params": params})
        return number

    async def call(self, method: str, **params: Any) -> Message:
        """Return the whole answer to a request."""
        return await self.answer(await self.begin(method, **params))

    async def result(self, method: str, **params: Any) -> Message:
        answer = await self.call(method, **params)
        assert "result" in answer, answer
        found: Message = answer["result"]
        return found

    async def answer(self, number: int) -> Message:
        return await self.wait_for(lambda message: message.get("id") == number and "method" not in message)

    async def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """Return the first message, of all that came and come, that is wanted."""
        index = 0
        async with self._arrived:
            while True:
                for message in self.seen[index:]:
                    if wanted(message):
                        return message
                index = len(self.seen)
                await self._arrived.wait()

    async def run(self) -> None:
        """Read what the agent sends, and answer its questions."""
        while data := await self.stream.receive_some():
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                message: Message = json.loads(line)
                check_message(message, self.methods)
                self.on_message(message)
                async with self._arrived:
                    self.seen.append(message)
                    self._arrived.notify_all()
                if message.get("method") == "session/request_permission":
                    await self._decide(message)
                elif message.get("method", "").startswith("fs/"):
                    for answer in self.serve_file(message["method"], message["params"]):
                        await self.send({"id": message["id"], **answer})

    async def _decide(self, message: Message) -> None:
        option = self.choose(message["params"])
        if option is not None:
            outcome = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
            await self.send({"id": message["id"], "result": {"outcome": outcome}})

    # -- what tests ask ------------------------------------------------------------------------------

    async def initialize(self, **capabilities: Any) -> Message:
        return await self.result(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities,
            clientInfo={"name": "test-editor", "version": "1"},
        )

    async def new_session(self, cwd: Path) -> str:
        await self.initialize()
        found: str = (await self.result("session/new", cwd=str(cwd), mcpServers=[]))["sessionId"]
        return found

    async def prompt(self, session_id: str, text: str = "go") -> int:
        return await self.begin("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    def updates(self, kind: str = "") -> list[Message]:
        found = [message["params"]["update"] for message in self.seen if message.get("method") == "session/update"]
        return [update for update in found if kind in {"", update["sessionUpdate"]}]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind))

    def requests(self, method: str) -> list[Message]:
        """What the agent has asked of the editor by that method."""
        return [message["params"] for message in self.seen if message.get("method") == method]

    def index_of(self, wanted: Callable[[Message], bool]) -> int:
        return next(index for index, message in enumerate(self.seen) if wanted(message))


@attrs.define
class Buffers:
    """The texts that an editor holds, by their paths.

    Attributes:
        texts: what it holds; other files are read from the disk.
        saves: what it writes to the disk of a text that it gets; None: nothing.
    """

    texts: dict[str, str] = attrs.field(factory=dict)
    saves: Callable[[str], str | None] = lambda text: text

    def serve(self, method: str, params: Message) -> Sequence[Message]:
        path = params["path"]
        if method == "fs/read_text_file":
            text = self.texts.get(path)
            return ({"result": {"content": Path(path).read_text() if text is None else text}},)
        self.texts[path] = params["content"]
        if (saved := self.saves(params["content"])) is not None:
            Path(path).write_text(saved)
            self.texts[path] = saved
        return ({"result": {}},)


@attrs.define
class Host:
    """Opens the engine of the test."""

    model: Model
    tools: Sequence[Tool] = ()
    profile: str = "ask"
    error: Exception | None = None
    settings: Settings = attrs.field(factory=Settings)
    store: str | None = None
    telemetry: Telemetry | None = None

    def open_engine(self) -> Engine:
        if self.error is not None:
            raise self.error
        return open_engine(
            model=self.model,
            tools=self.tools,
            settings=self.settings,
            permissions=PermissionOptions(profile=self.profile),
            store=self.store,
            ports=Ports(telemetry=self.telemetry),
        )

    def commands(self, cwd: str) -> Sequence[EditorCommand]:
        del cwd
        return [EditorCommand("review", "Review the change")]

    def expand(self, text: str, cwd: str) -> str:
        del cwd
        return text.replace("/review", "Review the change.")


@asynccontextmanager
async def editor_of(host: Host, *, question_timeout: float | None = None) -> AsyncGenerator[Editor]:
    """An editor whose agent runs; at the end the editor closes its side, and the agent ends."""
    ours, theirs = trio.testing.memory_stream_pair()
    agent = EditorAgent(
        EditorConnection(LineTransport(theirs, message_bytes=LIMITS.bytes)), host, question_timeout=question_timeout
    )
    editor = Editor(ours)
    with trio.fail_after(math.inf if isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock) else 100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, agent, theirs)
            nursery.start_soon(editor.run)
            yield editor
            await ours.send_stream.aclose()


async def _run(agent: EditorAgent, stream: trio.abc.Stream) -> None:
    async with stream:
        await agent.run()

"""A server of tools cancelled at any instant leaves nothing behind, and its record is whole."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from engine import Engine
from engine.control.acceptor import OWNER
from engine.control.credentials import ClientCredentials, digest_of
from engine.core.events import CallSettled, TurnEnded, TurnStarted
from engine.mcp_server.engine_tools import EngineTools
from engine.mcp_server.http_listener import open_connections
from engine.mcp_server.message_lines import MessageLines
from engine.session.engine import engine_runtime
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.mcp_client import (
    ERAS,
    INITIALIZE,
    INITIALIZED,
    User,
    call_message,
    field_of,
    http_request,
    messages_of,
    scripted_engine,
    serve,
)
from tests.support.raw_http import RawAnswer, parse_answer

ANSWERS = [
    [*text("I'll write."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")],
    [*text("Done."), *done()],
]


Serve = Callable[[Engine], Awaitable[None]]
Transport = Callable[[Path, str], AbstractAsyncContextManager[Serve]]


@asynccontextmanager
async def over_lines(folder: Path, era: str) -> AsyncGenerator[Serve]:
    """The SDK's client: a turn with a question, and the end of the input in the middle of a second one."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def drive() -> None:
        user = User({"decision": "allow"})
        try:
            async with (
                ours,
                Client(MessageLines(ours).open(), mode=era, elicitation_callback=user.elicit) as client,
            ):
                await client.call_tool("run", {"prompt": "go"})
                begun = await client.call_tool("run", {"prompt": "go", "detach": True})
                await client.call_tool("wait", {"session": begun.structured_content["session"], "seconds": 0})
        except* (MCPError, trio.BrokenResourceError):
            pass  # the server has gone

    async def run(engine: Engine) -> None:
        async with theirs:
            await serve(engine, theirs, folder)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive)
        yield run
        await theirs.aclose()
        nursery.cancel_scope.cancel(reason="the server has ended")


@asynccontextmanager
async def over_http(folder: Path, era: str) -> AsyncGenerator[Serve]:
    """A client by hand: a turn with a question, a second one, and a third whose client goes away in the middle of it."""
    to_server, connections = trio.open_memory_channel[trio.abc.Stream](8)
    credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
    credentials.set_tokens({digest_of("secret"): OWNER})
    done = trio.Event()

    async def drive() -> None:
        fields = {"host": "localhost:80", "authorization": "Bearer secret"}
        if era == "legacy":
            begun = await exchange(to_server, http_request(INITIALIZE, **fields))
            fields["mcp_session_id"] = field_of(begun, "mcp-session-id")
            await exchange(to_server, http_request(INITIALIZED, **fields, mcp_protocol_version="2025-11-25"))
        message, more = call_message("run", {"prompt": "go"}, era)
        messages = messages_of(await exchange(to_server, http_request(message, **fields, **more)))
        if not messages or "result" not in messages[-1]:
            return  # the server has gone
        answer = messages[-1]["result"]
        if answer.get("resultType") == "input_required":
            accepted = {"action": "accept", "content": {"decision": "allow"}}
            message["params"]["inputResponses"] = dict.fromkeys(answer["inputRequests"], accepted)
            message["params"]["requestState"] = answer["requestState"]
            await exchange(to_server, http_request(message, **fields, **more))
        message, more = call_message("run", {"prompt": "go"}, era)
        await exchange(to_server, http_request(message, **fields, **more), leave_early=True)
        if era == "legacy":
            await exchange(to_server, http_request({}, method="DELETE", **fields, mcp_protocol_version="2025-11-25"))
        done.set()

    async def run(engine: Engine) -> None:
        tools = EngineTools(engine, root=str(folder), folder=str(folder), question_timeout=600)
        async with open_connections(tools, credentials, 80, 600) as serve_one, trio.open_nursery() as nursery:

            async def accept() -> None:
                async for stream in connections:
                    nursery.start_soon(serve_one, stream)

            nursery.start_soon(accept)
            await done.wait()
            nursery.cancel_scope.cancel(reason="the client has gone")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive)
        yield run
        nursery.cancel_scope.cancel(reason="the server has ended")


async def exchange(
    to_server: trio.MemorySendChannel[trio.abc.Stream], request: bytes, *, leave_early: bool = False
) -> RawAnswer:
    """Send a request on a connection of its own; return the answer, or go away at its first byte."""
    ours, theirs = trio.testing.memory_stream_pair()
    await to_server.send(theirs)
    pieces: list[bytes] = []
    with suppress(trio.BrokenResourceError):  # the server has gone
        async with ours:
            await ours.send_all(request)
            while (piece := await ours.receive_some()) and not leave_early:
                pieces.append(bytes(piece))
    return parse_answer(b"".join(pieces))


async def scenario(at: CancelAt, folder: Path, transport: Transport, era: str) -> None:
    """Cancel the server; then look at what its engine has recorded."""
    model, store = ScriptedProvider(ANSWERS, repeat=True), str(folder / "store.db")
    with trio.fail_after(60):
        async with transport(folder, era) as run:
            with at.scope():
                async with scripted_engine(model, builtin_tools(), store=store) as engine:
                    await run(engine)
        async with scripted_engine(model, store=store) as engine:
            for session_id in await engine_runtime(engine).services.store.store.ids():  # type: ignore[attr-defined]  # SQLite's
                events = (await engine.open_session(session_id)).events()
                started = [event.turn_id for event in events if isinstance(event, TurnStarted)]
                assert [event.turn_id for event in events if isinstance(event, TurnEnded)] == started
                settled = [event.call_id for event in events if isinstance(event, CallSettled)]
                assert len(settled) == len(set(settled))


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", [over_lines, over_http])
def test_server_cancelled_at_any_step(
    tmp_path: Path, transport: Transport, era: str, is_full: bool, count_runs: CountRuns
) -> None:
    def play(step: int | None) -> CancelAt:
        folder = tmp_path / str(step)
        folder.mkdir()
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(scenario, at, folder, transport, era), instruments=[at])
        return at

    steps = play(None).steps
    assert steps > 200
    runs = range(0, steps, 1 if is_full else 97)
    for step in runs:
        play(step)
    count_runs(len(runs))

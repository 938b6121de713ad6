"""Figure `foreign`: what MCP servers cost a turn: while they start, while they are called, flood, or offer many tools."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

import engine
from benchmarks.kit import echo, one_call, scripted
from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.compaction.token_estimate import request_tokens
from engine.mcp import McpConfig, McpServer, McpServers
from engine.mcp.approvals import Approvals
from engine.mcp.server_memory import ServerMemory
from engine.mcp.tool_definition import read_definitions
from engine.options import PermissionOptions, Ports
from engine.testing.fake_source import FakeSource
from engine.testing.script import Answer, call, done, text

ROUNDS: Final = 11
CALLS: Final = 120
STEPS: Final = 60
FLOOD: Final = 10_000
_GOODBYE: Final[Answer] = [*text("Done."), *done()]
# A server of the older protocol, without an SDK; `flood` sends so many notifications in each second.
_SERVER: Final = """
import json, sys, threading, time
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def flood(count):
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    piece = (line + "\\n") * (count // 100)
    while True:
        began = time.monotonic()
        sys.stdout.write(piece)
        sys.stdout.flush()
        time.sleep(max(0, 0.01 - (time.monotonic() - began)))
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            send(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                           "serverInfo": {"name": "bench", "version": "1"}})
            if len(sys.argv) > 1:
                threading.Thread(target=flood, args=(int(sys.argv[1]),), daemon=True).start()
        case "tools/list":
            send(id=message["id"], result={"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            send(id=message["id"], result={"content": [{"type": "text", "text": "echo"}]})
        case _:
            if "id" in message:
                send(id=message["id"], error={"code": -32601, "message": "no"})
"""


def _server(*arguments: str) -> McpServer:
    return McpServer(command=(sys.executable, "-c", _SERVER, *arguments), origin="host")


def _source(folder: str, **servers: McpServer) -> McpServers:
    approvals, memory = Approvals(Path(folder) / "approved"), ServerMemory(Path(folder) / "memory")
    return McpServers(McpConfig(servers=servers), approvals=approvals, memory=memory, retries=())


def first_request(servers: Callable[[str], Sequence[McpServers]]) -> float:
    """Return the seconds from the opening of an engine to the first request of a turn."""
    came: list[float] = []

    def answer(_: int) -> Answer:
        came.append(time.perf_counter())
        return _GOODBYE

    async def main(folder: str) -> float:
        sources = servers(folder)
        began = time.perf_counter()
        async with engine.open_engine(model=scripted(answer), ports=Ports(sources=sources)) as eng:
            session = await eng.create_session(cwd=folder)
            await session.run("go")
        return came[0] - began

    with tempfile.TemporaryDirectory() as folder:
        return trio.run(main, folder)


def _five(folder: str) -> Sequence[McpServers]:
    dead = McpServer(command=(sys.executable, "-c", "import sys; sys.exit(1)"))
    slow = McpServer(command=(sys.executable, "-c", "import time; time.sleep(600)"))
    return [_source(folder, one=_server(), two=_server(), three=_server(), dead=dead, slow=slow)]


def step_times(
    steps: int, *arguments: str, tool: str = "one_echo", clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the seconds of each step of a turn that calls a tool, beside a server that is started with *arguments*."""
    marks: list[float] = []

    def answer(number: int) -> Answer:
        marks.append(clock())
        return [*call(tool, {"n": number}, id=f"c{number}"), *done("calls")] if number < steps else _GOODBYE

    async def main(folder: str) -> None:
        source = _source(folder, one=_server(*arguments))
        options = PermissionOptions(profile="full", rules=["allow mcp:one/* *"])
        ports = Ports(sources=[source])
        async with engine.open_engine(model=scripted(answer), tools=[echo], permissions=options, ports=ports) as eng:
            await source.wait_settled("one")
            session = await eng.create_session(cwd=folder)
            await session.run("go")

    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, folder)
    return [later - earlier for earlier, later in itertools.pairwise(marks)]


def bare_calls() -> list[float]:
    """Return the seconds of each answer of the same server, with nothing between but pipes."""

    async def main() -> list[float]:
        took: list[float] = []
        command = [sys.executable, "-c", _SERVER]
        async with trio.open_nursery() as nursery:
            process = await nursery.start(
                partial(trio.run_process, command, stdin=-1, capture_stdout=False, stdout=-1, check=False)
            )
            for number in range(CALLS):
                request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "echo"}}
                began = time.perf_counter()
                await process.stdin.send_all(json.dumps(request).encode() + b"\n")
                await process.stdout.receive_some()
                took.append(time.perf_counter() - began)
            process.kill()
        return took

    return trio.run(main)


def many_tools(count: int) -> float:
    """Return the CPU seconds of a step in a session with so many foreign tools, which nothing calls."""

    def answer(number: int) -> Answer:
        marks.append(time.process_time())
        return one_call("echo", number) if number < STEPS else _GOODBYE

    async def main() -> None:
        source = FakeSource()
        source.offer(*(f"tool{number}" for number in range(count)))
        async with engine.open_engine(model=scripted(answer), tools=[echo], ports=Ports(sources=[source])) as eng:
            await (await eng.create_session(cwd="/")).run("go")

    marks: list[float] = []
    trio.run(main)
    return (marks[-1] - marks[4]) / (len(marks) - 5)


def ingest(count: int) -> float:
    """Return the seconds in which a list of so many tools is read."""
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "text"} for n in range(8)}}
    tools = [{"name": f"t{n}", "description": "It does something useful.", "inputSchema": schema} for n in range(count)]
    began = time.perf_counter()
    read_definitions(tools)
    return time.perf_counter() - began


def tokens_before_use(count: int) -> int:
    """Return how many tokens the first request of a session has for foreign tools, before any of them is used."""

    async def main() -> None:
        source = FakeSource()
        source.offer(*(f"tool{number}" for number in range(count)))
        async with engine.open_engine(model=model, ports=Ports(sources=[source] if count else [])) as eng:
            await (await eng.create_session(cwd="/")).run("go")

    model = scripted(lambda _: _GOODBYE)
    trio.run(main)
    request = model.requests[0]
    return request_tokens(request)


def _percentile95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def measure() -> list[Row]:
    # The best of many: what is beyond it is other people's work on the same cores.
    with_five, alone = map(
        min, interleaved(ROUNDS, partial(first_request, _five), partial(first_request, lambda _: []))
    )
    ours, bare = map(min, interleaved(5, lambda: _percentile95(step_times(CALLS)), lambda: _percentile95(bare_calls())))
    flooded, quiet = map(
        min, interleaved(5, lambda: median(step_times(60, str(FLOOD))), lambda: median(step_times(60)))
    )
    # The engine's own part, without the server's and without waiting for a core.
    by_server, by_engine = map(
        min,
        interleaved(
            5,
            lambda: _percentile95(step_times(CALLS, clock=time.process_time)),
            lambda: _percentile95(step_times(CALLS, tool="echo", clock=time.process_time)),
        ),
    )
    many, few = map(min, interleaved(9, partial(many_tools, 500), partial(many_tools, 1)))
    reading = min(ingest(2_000) for _ in range(5))
    tokens = tokens_before_use(250) - tokens_before_use(0)
    return [
        Row(
            name="foreign: the first request, with five servers of which one is dead and one slow (PF1)",
            measured=seconds(with_five),
            baseline=seconds(alone),
            target="≤ 5 ms later",
            ok=with_five - alone <= 0.005,
        ),
        Row(
            name="foreign: a step with a call over stdio, 95th percentile, versus the pipes alone (PF2)",
            measured=seconds(ours),
            baseline=seconds(bare),
            target="≤ 2 ms more",
            ok=ours - bare <= 0.002,
        ),
        Row(
            name="foreign: CPU of a step with such a call, 95th percentile, versus a tool of the engine's (PF2)",
            measured=seconds(by_server),
            baseline=seconds(by_engine),
            target="≤ 2 ms more",
            ok=by_server - by_engine <= 0.002,
        ),
        Row(
            name=f"foreign: the same step while the server sends {FLOOD:,} notifications a second (BI8)",
            measured=seconds(flooded),
            baseline=seconds(quiet),
            target="≤ 5 ms more",
            ok=flooded - quiet <= 0.005,
        ),
        Row(
            name="foreign: CPU of a step with 500 tools ready (PF2)",
            measured=seconds(many),
            baseline=seconds(few),
            ratio=many / few,
            target="ratio ≤ 1.02",
            ok=many / few <= 1.02,
        ),
        Row(
            name="foreign: a list of 2,000 tools is read (PF2)",
            measured=seconds(reading),
            target="≤ 300 ms",
            ok=reading <= 0.3,
        ),
        Row(
            name="foreign: tokens of 250 tools before their first use (PF3)",
            measured=f"{tokens:,}",
            target="≤ 1,500",
            ok=tokens <= 1_500,
        ),
    ]


FIGURE = Figure(name="foreign", about="MCP servers: the first request, a call, a flood, many tools", measure=measure)

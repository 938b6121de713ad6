"""Sessions whose picture is worth a look: played on a mock clock, so that every time in them is fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

import engine
from engine.core.errors import ConnectionBroken, Overloaded, ToolError
from engine.core.events import Durable, Live, PermissionAsked
from engine.core.llm_types import ModelRequest
from engine.core.messages import Usage
from engine.core.permission_types import Allowance, Approver, Judgement, PermissionQuery
from engine.core.settings import RetryPolicy, Settings
from engine.journal.state import Resync
from engine.permission.allow_all import AllowAll
from engine.session.turn import Turn
from engine.testing.script import Answer, Fail, Pause, ScriptItem, call, done, text
from tests.support.world import Seen, World, said, world

Script = Mapping[str, Sequence[Answer]]
BIG: Final = Usage(input=1_200, output=340, cache_read=18_000)


@attrs.frozen(kw_only=True)
class Act:
    """Pretend to work on `what`; `manner` says how it ends, or behaves when it is cancelled."""

    what: str
    seconds: float = 1.0
    manner: str = ""


@attrs.frozen(kw_only=True)
class Task:
    """Delegate `prompt`."""

    prompt: str


@attrs.define
class Recorded:
    """A session that was played.

    Attributes:
        seen: every event, as a watcher of the root session got it.
        journals: what the store has, the root's first.
    """

    seen: list[Durable | Live]
    journals: Sequence[Sequence[Durable]]


async def act(args: Act, ctx: engine.ToolContext) -> str:
    """Work for some time."""
    match args.manner:
        case "error":
            await trio.sleep(args.seconds)
            raise ToolError("no such file: it was moved")
        case "stubborn":
            with trio.CancelScope(shield=True):
                await trio.sleep(args.seconds)
        case "cleans up":
            try:
                await trio.sleep(args.seconds)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.2):
                    await trio.sleep(1.2)
        case _:
            await trio.sleep(args.seconds)
    return f"did {args.what}"


async def delegate(args: Task, ctx: engine.ToolContext) -> str:
    """Let a sub-agent do it."""
    result = await ctx.run_agent(args.prompt)
    return f"{result.stop_reason}: {result.text}"


TOOLS: Final = (
    engine.tool(name="read", read_only=True)(act),
    engine.tool(name="bash", grace=1.5)(act),
    engine.tool(name="fetch", read_only=True, grace=0.5)(act),
    engine.tool(name="task", read_only=True, grace=2.0)(delegate),
)


def does(tool: str, what: str, seconds: float = 1.0, manner: str = "", *, key: str) -> Sequence[ScriptItem]:
    """Return a call."""
    return call(tool, {"what": what, "seconds": seconds, "manner": manner}, id=key)


def delegates(prompt: str, *, key: str) -> Sequence[ScriptItem]:
    """Return a call of a sub-agent."""
    return call("task", {"prompt": prompt}, id=key)


def answers(script: Script) -> Callable[[ModelRequest], Answer]:
    """Answer by the first message of the transcript: one answer after the other."""
    asked: Counter[str] = Counter()

    def answer(request: ModelRequest) -> Answer:
        first = said(request.transcript[0])
        asked[first] += 1
        return script[first][asked[first] - 1]

    return answer


@attrs.frozen(eq=False)
class AsksFor:
    """Asks the user about one tool, and allows everything else."""

    tool: str
    _rest: AllowAll = attrs.field(factory=AllowAll, init=False)

    def judge(self, query: PermissionQuery) -> Judgement:
        """Ask about the tool."""
        asks = query.tool == self.tool
        return Judgement(verdict="ask", source="ask fetch") if asks else self._rest.judge(query)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Do nothing: "always" is never answered."""


@asynccontextmanager
async def watched(
    script: Script, *, settings: Settings | None = None, approver: Approver | None = None
) -> AsyncGenerator[tuple[World, list[Durable | Live]]]:
    """Open a world whose model follows *script*, and record all events that its session has inside the block."""
    async with world(answers(script), repeat=True, tools=TOOLS, settings=settings, approver=approver) as w:
        cursor, seen = w.session.subscribe(), list[Durable | Live]()
        yield w, seen
        while (event := cursor.try_next()) is not None:
            assert not isinstance(event, Resync)
            seen.append(event)


async def play_parallel() -> Recorded:
    """Five calls at once, one of which waits for a permission for long; then one that runs alone, while another waits."""
    script: Script = {
        "make the tests pass": [
            [
                Pause(0.6), *text("I look at the tests and at what they import.", pieces=4), Pause(0.4),
                *does("read", "tests/test_parser.py", 1.4, key="1"),
                *does("read", "src/parser.py", 2.2, key="2"), Pause(0.3),
                *does("read", "src/missing.py", 0.7, "error", key="3"),
                *does("fetch", "https://docs.example.org/grammar", 3.1, key="4"),
                *does("read", "src/lexer.py", 0.9, key="5"), *done("calls", usage=BIG),
            ],
            [
                Pause(0.8), *does("bash", "make test", 2.5, key="1"), *does("bash", "git diff --stat", 0.4, key="2"),
                *does("read", "CHANGES.md", 0.3, key="3"), *done("calls", usage=BIG),
            ],
            [Pause(0.5), *text("All tests pass now.", pieces=3), *done(usage=BIG)],
        ]
    }  # fmt: skip

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.sleep(9)
            await turn.reply(event.request_id, engine.Once(), by="phone")

    async with watched(script, approver=AsksFor("fetch")) as (w, seen):
        await w.play("make the tests pass", react=react)
    return await recorded(w, seen)


async def play_cancel() -> Recorded:
    """A long command is cancelled by a client: it cleans up within its grace, and a tool beside it does not stop."""
    script: Script = {
        "run the load test": [
            [
                Pause(0.5), *text("I start the load test and look at the metrics meanwhile.", pieces=3),
                *does("fetch", "http://localhost:9090/metrics", 30.0, "stubborn", key="1"),
                *does("fetch", "http://localhost:9090/alerts", 1.1, key="2"),
                *does("fetch", "http://localhost:9090/targets", 20.0, key="3"),
                *delegates("watch the log", key="4"),
                *does("bash", "./load-test --workers 8", 60.0, key="5"),
                *does("read", "report.json", 0.5, key="6"), *done("calls", usage=BIG),
            ],
        ],
        "watch the log": [[Pause(0.3), *does("read", "server.log", 40.0, "cleans up", key="1"), *done("calls")]],
    }  # fmt: skip
    async with watched(script) as (w, seen):
        async with w.session.prompt("run the load test", by="laptop") as turn:
            await trio.sleep(2)
            w.session.inputs.steer("Stop after a minute, please.", by="phone")
            await trio.sleep(2)
            w.session.cancel(turn.id, by="phone")
            await turn.wait()
    return await recorded(w, seen)


async def play_long_command() -> Recorded:
    """A command that runs alone is cancelled in its middle, and needs a second to clean up; one waits behind it."""
    script: Script = {
        "run the load test": [
            [
                Pause(0.4), *text("I start the load test.", pieces=2),
                *does("bash", "./load-test --workers 8", 60.0, "cleans up", key="1"),
                *does("read", "report.json", 0.5, key="2"), *done("calls", usage=BIG),
            ],
        ],
    }  # fmt: skip
    async with watched(script) as (w, seen):
        async with w.session.prompt("run the load test", by="laptop") as turn:
            await trio.sleep(4)
            w.session.cancel(turn.id, by="laptop")
            await turn.wait()
    return await recorded(w, seen)


async def play_nested() -> Recorded:
    """Sub-agents of sub-agents, two of them at once."""
    script: Script = {
        "review the change": [
            [Pause(0.4), *delegates("review the parser", key="1"), *delegates("review the docs", key="2"), *done("calls")],
            [Pause(0.5), *text("Both reviews are done.", pieces=2), *done()],
        ],
        "review the parser": [
            [Pause(0.3), *does("read", "src/parser.py", 0.8, key="1"), *delegates("check the grammar", key="2"), *done("calls")],
            [Pause(0.4), *text("The parser is fine.", pieces=2), *done()],
        ],
        "review the docs": [
            [Pause(0.5), *does("read", "docs/index.md", 1.5, key="1"), *does("read", "docs/no.md", 0.4, "error", key="2"), *done("calls")],
            [Pause(0.3), *text("One page is missing.", pieces=2), *done()],
        ],
        "check the grammar": [
            [Pause(0.6), *does("read", "grammar.txt", 1.2, key="1"), *does("fetch", "https://example.org/bnf", 1.9, key="2"), *done("calls")],
            [Pause(0.4), *text("It is unambiguous.", pieces=2), *done()],
        ],
    }  # fmt: skip
    async with watched(script, settings=Settings(agent_depth=3)) as (w, seen):
        await w.play("review the change")
    return await recorded(w, seen)


async def play_retries() -> Recorded:
    """A host that is overloaded twice, breaks off once, and answers; in a second turn it does not."""
    overloaded = Fail(Overloaded("the host is overloaded", status=529, retryable=True))
    script: Script = {
        "say hello": [
            [Pause(0.3), overloaded],
            [Pause(0.4), overloaded],
            [
                Pause(0.5),
                *text("Hello, I was about", pieces=3),
                Fail(ConnectionBroken("the connection was reset", retryable=True)),
            ],
            [Pause(0.5), *text("Hello.", pieces=2), *done(usage=BIG)],
        ]
    }
    settings = Settings(retry=RetryPolicy(attempts=5))
    async with watched(script, settings=settings) as (w, seen):
        await w.play("say hello")
    return await recorded(w, seen)


async def play_many(steps: int = 50, each: int = 20, depth: int = 0) -> Recorded:
    """Many calls in many steps; with *depth*, inside sub-agents that are so deep."""
    tool = ("read", "fetch", "read", "bash")
    work = [
        [
            Pause(0.2), *text("next", pieces=1),
            *[item for n in range(each) for item in does(tool[n % 4], f"src/module_{step}_{n}.py", 0.1 + (n * 7 % 5) / 10, "error" if n == step % 97 else "", key=str(n))],
            *done("calls"),
        ]
        for step in range(steps)
    ]  # fmt: skip
    end: Answer = [*text("done"), *done()]
    script = {f"level {n}": [[*delegates(f"level {n + 1}", key="1"), *done("calls")], end] for n in range(depth)}
    script[f"level {depth}"] = [*work, end]
    async with watched(script, settings=Settings(agent_depth=depth + 1)) as (w, seen):
        await w.play("level 0")
    return await recorded(w, seen)


async def play_turns() -> Recorded:
    """Three turns with a long pause between them; a limit ends the last one."""
    script: Script = {
        "one": [
            [Pause(0.3), *does("read", "a.py", 0.6, key="1"), *done("calls")],
            [Pause(0.3), *text("That was one."), *done()],
            [Pause(0.3), *does("bash", "sleep 4", 4.0, key="1"), *done("calls")],
            [Pause(0.3), *text("That was two."), *done()],
            [Pause(0.3), *does("bash", "sleep 60", 60.0, key="1"), *done("calls")],
        ]
    }
    async with watched(script) as (w, seen):
        await w.play("one")
        await trio.sleep(3600)
        await w.play("two")
        await trio.sleep(90)
        await w.play("three", settings=Settings(limits=engine.Limits(seconds=3)))
    return await recorded(w, seen)


HOSTILE: Final = "\u202e\x1b[31m</script><img src=x onerror='window.hostile=1'><b>bold</b>"


async def play_hostile() -> Recorded:
    """Names, arguments, results and prompts that would do something if any of it were taken for more than text."""
    script: Script = {
        HOSTILE: [
            [
                *text(HOSTILE),
                *does("read", HOSTILE, 0.5, key="1"),
                *call(HOSTILE, {"x": HOSTILE}, id="2"),
                *done("calls"),
            ],
            [*text("done"), *done()],
        ]
    }
    async with watched(script) as (w, seen):
        async with w.session.prompt(HOSTILE, by=HOSTILE) as turn:
            await turn.wait()
    return await recorded(w, seen)


async def recorded(w: World, seen: list[Durable | Live]) -> Recorded:
    """Return what was recorded, with what the store has."""
    ids = list(dict.fromkeys(event.session_id for event in seen))
    return Recorded(seen, [await w.store.load(session_id) for session_id in ids])

"""O8: sub-agents are turns of child sessions inside a call: linked by its id, watched from the root, sharing its budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import AlreadyAnswered, Overloaded
from engine.core.events import (
    CallHeartbeat,
    CallSettled,
    CallStarted,
    EventBase,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    SessionCreated,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk, TextStarted
from engine.core.messages import Usage
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.journal.cursors import Cursor
from engine.journal.position import decode_position, encode_position
from engine.journal.state import Resync
from engine.nursery.rate_limiter import LONG_PREFIX
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.session.turn import Turn
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.tools.tool import Tool
from tests.support.bench import Bench, Job
from tests.support.world import Played, Seen, World, about, said, world

DONE: Answer = [*text("Done."), *done()]
Script = dict[str, Sequence[Answer]]
DEEP = Settings(agent_depth=9)


@attrs.frozen(kw_only=True)
class Task:
    """Hand a task to a sub-agent."""

    prompt: str
    steps: int | None = None
    model: str | None = None


def agent_tools(results: list[engine.TurnResult] | None = None) -> tuple[Tool, ...]:
    async def run(args: Task, ctx: engine.ToolContext) -> str:
        result = await ctx.run_agent(args.prompt, steps=args.steps, model=args.model, system="You are a helper.")
        if results is not None:
            results.append(result)
        return f"{result.stop_reason}: {result.text}"

    return engine.tool(name="task", read_only=True)(run), engine.tool(name="alone")(run)


def task(prompt: str, *, id: str = "1", tool: str = "task", **more: object) -> Answer:  # noqa: A002
    return call(tool, {"prompt": prompt, **more}, id=id)


def by_prompt(answers: Script) -> Callable[[ModelRequest], Answer]:
    """Answer by the first message of the transcript, whoever asks in whatever order: one answer after the other."""
    asked: Counter[str] = Counter()

    def answer(request: ModelRequest) -> Answer:
        first = said(request.transcript[0])
        asked[first] += 1
        return answers[first][asked[first] - 1]

    return answer


def child_of(w: World, events: Sequence[Seen]) -> SessionId:
    (created,) = [e for e in events if isinstance(e, SessionCreated) and e.session_id != w.session.id]
    return created.session_id


def of(events: Sequence[Seen], session_id: SessionId) -> list[EventBase]:
    return [e for e in events if isinstance(e, EventBase) and e.session_id == session_id]


# -- one sub-agent ---------------------------------------------------------------------------------


async def test_sub_agent_answer_is_the_tool_result(autojump_clock: MockClock) -> None:
    results: list[engine.TurnResult] = []
    bench = Bench()
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [
            [*call("read", {"name": "a", "seconds": 2}, id="1"), *done("calls", usage=Usage(input=5))],
            [*text("It is fine."), *done()],
        ],
    }
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(results), *bench.tools()]) as w:
        played = await w.play()
    assert [s.text for s in played.settlements] == ["completed: It is fine."]
    assert (results[0].stop_reason, results[0].steps, results[0].usage) == ("completed", 2, Usage(input=5))
    assert played.result.usage == Usage(input=5), "sub-agents included"
    assert [said(m) for m in w.requests[1].transcript] == ["look"], "a child begins with its prompt alone"
    assert w.requests[1].system == "You are a helper."
    assert bench.spans == {"a": (0.0, about(2))}
    assert "look" not in [said(m) for m in w.session.state.transcript], "and its transcript is its own"


async def test_o8_child_names_its_call_and_path(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [DONE]}
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        played = await w.play()
        child = child_of(w, played.events)
        (created,) = [e for e in played.events if isinstance(e, SessionCreated)]
        assert created.parent_id == w.session.id
        assert created.parent_call_id == played.one(CallStarted).call_id
        for event in played.events:
            assert isinstance(event, EventBase)
            expected = (w.session.id, child) if event.session_id == child else (w.session.id,)
            assert event.path == expected


async def test_o8_child_ends_before_its_parent(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [DONE]}
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        played = await w.play()
        child = child_of(w, played.events)
    ends = [e.session_id for e in played.events if isinstance(e, TurnEnded)]
    assert ends == [child, w.session.id]
    assert played.events[-1].session_id == w.session.id


@pytest.mark.parametrize("failure", [Fail(Overloaded("dead")), Pause(10_000)], ids=["error", "silence"])
async def test_o8_failed_child_does_not_end_its_parent(autojump_clock: MockClock, failure: Fail | Pause) -> None:
    settings = Settings(retry=RetryPolicy(attempts=0))
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [[failure]]}
    async with world(by_prompt(script), repeat=True, tools=agent_tools(), settings=settings) as w:
        played = await w.play()
        assert [s.text for s in played.settlements] == ["provider_error: "]
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        await w.goes_on()


async def test_o8_a_grandchilds_events_reach_the_root(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("child"), *done("calls")], DONE],
        "child": [[*task("grandchild"), *done("calls")], [*text("The child."), *done()]],
        "grandchild": [[*text("The grandchild."), *done()]],
    }
    async with world(by_prompt(script), repeat=True, tools=agent_tools(), settings=DEEP) as w:
        played = await w.play()
    paths = {e.path for e in played.events if isinstance(e, EventBase)}
    assert sorted(len(p) for p in paths) == [1, 2, 3]
    longest = max(paths, key=len)
    assert {longest[:1], longest[:2], longest} == paths
    created = {e.session_id: e for e in played.events if isinstance(e, SessionCreated)}
    assert created[longest[2]].parent_id == longest[1]
    assert "completed: The child." in [s.text for s in played.settlements]
    ends = [len(e.path) for e in played.events if isinstance(e, TurnEnded)]
    assert ends == [3, 2, 1]


async def test_o8_an_unrelated_session_is_not_seen(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [[Pause(5), *DONE]],
        "other": [[Pause(2), *DONE]],
    }
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        other = await w.engine.create_session()
        w.engine.start_turn(other, "other")
        played = await w.play()
    assert other.id not in {e.session_id for e in played.events}


# -- several at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_o8_parallel_children_are_linked_by_call(seed: int) -> None:
    """The same tool, the same kind of task, all at once: each child names its call, and its answer goes there."""
    names = ["alpha", "beta", "gamma", "delta"]
    script: Script = {name: [[Pause(n % 3), *text(f"I am {name}."), *done()]] for n, name in enumerate(names)}
    script["go"] = [[*[item for n in names for item in task(n, id=n)], *done("calls")], DONE]
    found: list[Played] = []

    async def main() -> None:
        async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
            found.append(await w.play())

    seed_scheduler(seed)
    trio.run(main, clock=MockClock(autojump_threshold=0))
    (played,) = found
    assert [s.text for s in played.settlements] == [f"completed: I am {name}." for name in names]
    calls = [e.call_id for e in played.all(CallStarted)]
    created = [e for e in played.events if isinstance(e, SessionCreated)]
    assert sorted(e.parent_call_id or "" for e in created) == sorted(calls)
    by_call = dict(zip(sorted(calls, key=lambda c: int(c.split("_")[1])), names, strict=True))
    for event in created:
        assert event.parent_call_id is not None
        said_by_child = [e for e in played.events if isinstance(e, TurnEnded) and e.session_id == event.session_id]
        assert [e.result.text for e in said_by_child] == [f"I am {by_call[event.parent_call_id]}."]


async def test_o8_parent_ends_after_all_children(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("a", id="1"), *task("b", id="2"), *done("calls")], DONE],
        "a": [[Pause(3), *DONE]],
        "b": [[Pause(1), *DONE]],
    }
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        played = await w.play()
    ends = [e.path for e in played.events if isinstance(e, TurnEnded)]
    assert [len(p) for p in ends] == [2, 2, 1]
    assert autojump_clock.current_time() == about(3)


async def test_fifty_parallel_sub_agents_finish(autojump_clock: MockClock) -> None:
    names = [f"task number {n * 17}" for n in range(50)]
    script: Script = {name: [[Pause(1), *DONE]] for name in names}
    script["go"] = [[*[item for n in names for item in task(n, id=n)], *done("calls")], DONE]
    settings = Settings(parallel=4)
    async with world(by_prompt(script), repeat=True, tools=agent_tools(), settings=settings) as w:
        played = await w.play()
    assert played.statuses == ["completed"] * 50
    assert autojump_clock.current_time() == about(13)


# -- questions ------------------------------------------------------------------------------------------


WRITING: Answer = [*call("write", {"name": "a"}, id="1"), *done("calls")]


async def test_t19_child_question_is_answered_at_the_root(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    asked: list[PermissionAsked] = []

    async def answer(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event)
            await turn.reply(event.request_id, engine.Once(), by="ada")

    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [WRITING, DONE]}
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy()) as w:
        played = await w.play(react=answer)
        assert [event.path for event in asked] == [(w.session.id, child_of(w, played.events))]
        # Its session was closed with it.
        with pytest.raises(AlreadyAnswered) as late:
            await w.session.reply(asked[0].request_id, engine.Once())
        assert late.value.by == "ada"
    assert (bench.log, played.stop_reason) == (["+a", "-a"], "completed")


async def test_t19_late_watcher_finds_open_child_questions(
    autojump_clock: MockClock,
) -> None:
    """The state of a session is its own: of a child's question that was asked before its last event, only `asked` tells."""
    bench = Bench()
    script: Script = {
        "go": [[*task("asks", id="1"), *task("ends", id="2"), *done("calls")], DONE],
        "asks": [[*task("below", id="1"), *done("calls")], DONE],
        "below": [[*call("write", {"name": "a"}, id="1"), *done("calls")], DONE],
        "ends": [[Pause(5), *text("Ended."), *done()]],
    }
    settings = Settings(agent_depth=2)
    async with world(
        by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()], approver=Policy(), settings=settings
    ) as w:
        async with w.session.prompt("go") as turn:
            seen: list[object] = []
            async for event in turn:
                seen.append(event)
                if isinstance(event, PermissionAsked) and event.permission == "task":
                    await turn.reply(event.request_id, engine.Always())
                if isinstance(event, CallSettled) and len(event.path) == 1:
                    break
            late = w.session.subscribe(after=w.session.state.seq)
            assert late.try_next() is None
            (asked,) = w.session.open_questions
            assert isinstance(asked, PermissionAsked)
            assert (asked.permission, len(asked.path), asked in seen) == ("write", 3, True)
            await w.session.reply(asked.request_id, engine.Once())
            assert w.session.open_questions == ()
            await turn.wait()
            assert turn.result.stop_reason == "completed"
    assert bench.log == ["+a", "-a"]


async def test_a_cancel_leaves_no_question_open(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("asks"), *done("calls")], DONE],
        "asks": [[*call("write", {"name": "a"}, id="1"), *done("calls")], DONE],
    }
    approver = Policy(user=(parse_rule("allow task *"),))
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *Bench().tools()], approver=approver) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            (asked,) = w.session.open_questions
            assert asked.path[-1] != w.session.id
            turn.cancel()
        assert w.session.open_questions == ()


async def test_a_childs_question_headless_is_a_denial(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [WRITING, DONE]}
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy()) as w:
        result = await w.session.run("go")
    assert (result.stop_reason, bench.log) == ("completed", [])


async def test_rejection_ends_the_child_only(autojump_clock: MockClock) -> None:
    async def reject(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await turn.reply(event.request_id, engine.Reject())

    bench = Bench()
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [WRITING, DONE]}
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy()) as w:
        played = await w.play(react=reject)
        assert [s.text for s in played.settlements] == ["permission_rejected: "]
        assert played.stop_reason == "completed"
        await w.goes_on()


async def test_a_cancel_withdraws_a_childs_question(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [WRITING, DONE]}
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy()) as w:
        seen: list[Seen] = []
        async with w.session.prompt("go") as turn:
            async for event in turn:
                seen.append(event)
                if isinstance(event, PermissionAsked):
                    turn.cancel()
        answered = [e.answer for e in seen if isinstance(e, PermissionAnswered)]
        assert answered == ["withdrawn"]
        await w.goes_on()


# -- cancels ------------------------------------------------------------------------------------------------


def nested(depth: int) -> Script:
    """Sub-agents *depth* deep; the deepest one calls a slow tool after it has said something."""
    script: Script = {
        f"level {n}": [[*text(f"Level {n}. "), *task(f"level {n + 1}"), *done("calls")], DONE] for n in range(depth)
    }
    script[f"level {depth}"] = [
        [*text("So deep. "), *call("read", {"name": "deep", "seconds": 60}, id="1"), *done("calls")],
        DONE,
    ]
    return script


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["user", "host"])
async def test_root_cancel_ends_tree_within_one_grace(autojump_clock: MockClock, depth: int, way: str) -> None:
    bench = Bench()
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(nested(depth)), repeat=True, tools=tools, settings=DEEP) as w:
        watcher = w.session.subscribe()
        turn = w.session.prompt("level 0")
        with trio.CancelScope() as host:
            async with turn:
                await trio.sleep(1)
                if way == "user":
                    turn.cancel()
                else:
                    host.cancel(reason="the test")
                await turn.wait()
        assert trio.current_time() == about(1)
        assert bench.running == 0
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", "tools")
        seen = drained(watcher)
        ends = [e for e in seen if isinstance(e, TurnEnded)]
        assert [len(e.path) for e in ends] == list(range(depth + 1, 0, -1)), "from the leaves to the root"
        assert {e.result.stop_reason for e in ends} == {"aborted"}
        settled = [e.settlement for e in seen if isinstance(e, CallSettled)]
        assert {(s.status, s.reason, s.outcome_unknown) for s in settled} == {("aborted", "cancelled", False)}
        assert not [e for e in seen if isinstance(e, Notice)]
        await w.goes_on()


def drained(cursor: Cursor) -> list[Seen]:
    seen: list[Seen] = []
    while (event := cursor.try_next()) is not None:
        seen.append(event)
    return seen


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_tree_with_stubborn_tool_ends_in_time(autojump_clock: MockClock, depth: int) -> None:
    @engine.tool(name="read", read_only=True)
    async def stubborn(args: Job, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(30)
        return "late"

    async with world(by_prompt(nested(depth)), repeat=True, tools=[*agent_tools(), stubborn], settings=DEEP) as w:
        watcher = w.session.subscribe()
        async with w.session.prompt("level 0") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert trio.current_time() <= 1.25 + 1e-6, "a tree of any depth ends within one grace"
            seen = drained(watcher)
        ends = [e for e in seen if isinstance(e, TurnEnded)]
        assert [len(e.path) for e in ends] == list(range(depth + 1, 0, -1))
        settled = [e for e in seen if isinstance(e, CallSettled)]
        unknown = [len(e.path) for e in settled if e.settlement.outcome_unknown]
        assert unknown == [depth + 1], "only the tool itself; the sub-agents ended with real results"
        assert trio.current_time() == about(30)


async def test_cancelled_childs_text_is_in_the_result(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [[TextStarted("t"), TextChunk("t", "I found a "), Pause(60), *done()]],
    }
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, settled.reason) == ("aborted", "cancelled")
        assert "I found a " in settled.text


async def test_sub_agent_never_has_more_tools(
    autojump_clock: MockClock,
) -> None:
    @engine.tool(name="task", read_only=True)
    async def delegate(args: Task, ctx: engine.ToolContext) -> str:
        """Hand on."""
        return (
            await ctx.run_agent(
                args.prompt, tools=("read", "task") if args.prompt == "look" else ("write", "no", "task")
            )
        ).text

    bench = Bench()
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [[*call("write", {"name": "a"}, id="1"), *task("deeper", id="2"), *done("calls")], DONE],
        "deeper": [[*call("read", {"name": "a"}, id="1"), *done("calls")], DONE],
    }
    settings = Settings(agent_depth=2)
    async with world(by_prompt(script), repeat=True, tools=[delegate, *bench.tools()], settings=settings) as w:
        played = await w.play()
        offered = {said(r.transcript[0]): [tool.name for tool in r.tools] for r in w.requests}
    assert set(offered["go"]) == {"write", "read", "task"}
    assert (offered["look"], offered["deeper"]) == (["read", "task"], []), "and the deepest sends for nobody"
    texts = [e.settlement.text for e in played.events if isinstance(e, CallSettled)]
    assert [text_ for text_ in texts if "no tool" in text_] == [
        "There is no tool named 'write'. There are: read, task.",
        "There is no tool named 'read'. There are: task.",
    ]


async def test_tool_may_limit_its_sub_agents_time(autojump_clock: MockClock) -> None:
    @engine.tool(name="task", read_only=True)
    async def limited(args: Task, ctx: engine.ToolContext) -> str:
        with trio.move_on_after(5):
            await ctx.run_agent(args.prompt)
        return "it took too long"

    bench = Bench()
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [[*call("read", {"name": "a", "seconds": 60}, id="1"), *done("calls")]],
    }
    async with world(by_prompt(script), repeat=True, tools=[limited, *bench.tools()]) as w:
        played = await w.play()
        assert [s.text for s in played.settlements] == ["it took too long"]
        child = child_of(w, played.events)
        (end,) = [e for e in of(played.events, child) if isinstance(e, TurnEnded)]
        assert end.result.stop_reason == "aborted"
        assert (played.stop_reason, trio.current_time()) == ("completed", about(5))
        await w.goes_on()


async def test_call_timeout_ends_its_sub_agent(
    autojump_clock: MockClock,
) -> None:
    @engine.tool(name="brief", read_only=True, timeout=3)
    async def brief(args: Task, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent(args.prompt)).text

    script: Script = {
        "go": [[*task("slow", id="1", tool="brief"), *task("quick", id="2"), *done("calls")], DONE],
        "slow": [[Pause(60), *DONE]],
        "quick": [[Pause(5), *text("Quick."), *done()]],
    }
    async with world(by_prompt(script), repeat=True, tools=[brief, *agent_tools()]) as w:
        played = await w.play()
    assert played.statuses == ["timeout", "completed"]
    assert (played.stop_reason, trio.current_time()) == ("completed", about(5))


# -- budgets ----------------------------------------------------------------------------------------------------


def spending(tokens: int) -> Answer:
    return [*call("read", {"name": f"{tokens}", "seconds": 1}, id="1"), *done("calls", usage=Usage(output=tokens))]


async def test_shared_token_limit_ends_owner_and_descendants(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*task("child"), *done("calls", usage=Usage(output=10_000))], DONE],
        "child": [[*task("grandchild"), *done("calls", usage=Usage(output=10_000))], DONE],
        "grandchild": [spending(50_000), spending(50_100), DONE],
    }
    tools = [*agent_tools(), *bench.tools()]
    settings = Settings(limits=Limits(tokens=100_000), agent_depth=2)
    async with world(by_prompt(script), repeat=True, tools=tools, settings=settings) as w:
        played = await w.play()
        ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
        assert ends == [(3, "token_budget"), (2, "token_budget"), (1, "token_budget")]
        assert played.result.usage == Usage(output=120_100)
        # What a request of the turns above used is counted when its own step ends.
        assert played.result.detail == "100100 of 100000 tokens were used"
        await w.goes_on()


async def test_shared_step_limit_counts_child_requests(autojump_clock: MockClock) -> None:
    bench = Bench()
    reads = [[*call("read", {"name": f"{n * 37}"}, id="1"), *done("calls")] for n in range(9)]
    script: Script = {"go": [[*task("child"), *done("calls")], DONE], "child": reads}
    settings = Settings(limits=Limits(steps=4), wrap_up=False)
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()], settings=settings) as w:
        played = await w.play()
        ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
        assert ends == [(2, "step_limit"), (1, "step_limit")]
        assert len(w.requests) == 4
        await w.goes_on()


async def test_a_shared_limit_of_money(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*task("child"), *done("calls", usage=Usage(output=1))], DONE],
        "child": [spending(2), spending(3), DONE],
    }
    info = ModelInfo(name="scripted/dear", price_output=1_000_000)
    settings = Settings(limits=Limits(cost=5))
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, settings=settings, info=info) as w:
        played = await w.play()
    ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
    assert ends == [(2, "cost_limit"), (1, "cost_limit")]
    assert played.result.cost == about(6)


async def test_a_shared_limit_of_seconds(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(seconds=7), agent_depth=2)
    async with world(by_prompt(nested(2)), repeat=True, tools=[*agent_tools(), *bench.tools()], settings=settings) as w:
        played = await w.play("level 0")
        ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
        assert ends == [(3, "deadline"), (2, "deadline"), (1, "deadline")]
        assert trio.current_time() == about(7)
        assert bench.running == 0
        await w.goes_on()


async def test_a_childs_own_limit_ends_the_child_only(autojump_clock: MockClock) -> None:
    bench = Bench()
    reads = [[*call("read", {"name": f"{n * 37}"}, id="1"), *done("calls")] for n in range(9)]
    script: Script = {"go": [[*task("child", steps=3), *done("calls")], DONE], "child": reads}
    settings = Settings(wrap_up=False)
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()], settings=settings) as w:
        played = await w.play()
    assert [s.text for s in played.settlements] == ["step_limit: "]
    assert (played.stop_reason, len(w.requests)) == ("completed", 5)


async def test_parallel_children_share_one_limit(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*task("a", id="1"), *task("b", id="2"), *done("calls")], DONE],
        "a": [spending(300), spending(301), spending(302)],
        "b": [spending(310), spending(311), spending(312)],
    }
    settings = Settings(limits=Limits(tokens=1_000))
    tools = [*agent_tools(), *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, settings=settings) as w:
        played = await w.play()
        ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
        assert sorted(ends) == [(1, "token_budget"), (2, "token_budget"), (2, "token_budget")]
        assert ends[-1] == (1, "token_budget")
        await w.goes_on()


@pytest.mark.parametrize("limit", [4_000, 9_000, 20_000])
async def test_parallel_children_exceed_a_limit_by_one_answer(autojump_clock: MockClock, limit: int) -> None:
    bench = Bench()
    children = "abcd"
    script: Script = {name: [spending(2_000 + n) for n in range(9)] for name in children}
    script["go"] = [[*[part for name in children for part in task(name, id=name)], *done("calls")], DONE]
    tools = [*agent_tools(), *bench.tools()]
    # Prompts cost nothing here: what exceeds the limit are answers.
    info = ModelInfo(name="scripted/dear", price_output=1_000_000)
    settings = Settings(limits=Limits(cost=limit))
    async with world(by_prompt(script), repeat=True, tools=tools, settings=settings, info=info) as w:
        played = await w.play()
        assert played.stop_reason == "cost_limit"
        assert limit <= played.result.cost <= limit + 2_010
        await w.goes_on()


async def test_parent_token_target_does_not_drive_children(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("look"), *done("calls")], [*text("One."), *done(usage=Usage(output=950))]],
        "look": [[*text("Brief."), *done(usage=Usage(output=1))]],
    }
    async with world(by_prompt(script), repeat=True, tools=agent_tools(), settings=Settings(token_target=1_000)) as w:
        played = await w.play()
    assert (played.stop_reason, len(w.requests)) == ("completed", 3)


# -- models, settings ------------------------------------------------------------------------------------------------


async def test_a_child_has_its_parents_model_and_settings(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [DONE]}
    settings = Settings(output_cap=1_234)
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        await w.play(settings=settings)
    assert [r.max_output for r in w.requests] == [1_234] * 3
    assert {r.model for r in w.requests} == {"scripted/model"}


async def test_unknown_sub_agent_model_is_an_error(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*task("look", model="nosuch/model"), *done("calls")], DONE]}
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        played = await w.play()
        assert played.statuses == ["error"]
        assert "nosuch/model" in played.settlements[0].text
        assert played.stop_reason == "completed"
        await w.goes_on()


async def test_a_child_session_may_be_watched_alone(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [DONE]}
    async with world(by_prompt(script), repeat=True, tools=agent_tools()) as w:
        played = await w.play()
        child = await w.engine.open_session(child_of(w, played.events))
        events = drained(child.subscribe(after=0))
        assert [type(e) for e in events if isinstance(e, TurnStarted | TurnEnded)] == [TurnStarted, TurnEnded]
        assert isinstance(events[0], SessionCreated)
        assert child.state.parent_id == w.session.id
        await w.check(child, events)


async def test_child_heartbeats_reach_the_root_live(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*task("look"), *done("calls")], DONE],
        "look": [[*call("read", {"name": "a", "seconds": 0.9}, id="1"), *done("calls")], DONE],
    }
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()]) as w:
        played = await w.play()
    beats = [e for e in played.events if isinstance(e, CallHeartbeat)]
    assert Counter(len(e.path) for e in beats) == {1: 3, 2: 3}
    assert Counter(len(e.path) for e in played.events if isinstance(e, StepStarted)) == {1: 2, 2: 2}


# -- a watcher that comes back ------------------------------------------------------------------------------------------------


async def test_o6_resumed_root_watcher_gets_child_events_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*text("Two. "), *task("a", id="1"), *task("b", id="2"), *done("calls")], DONE],
        "a": [[*text("I am a."), *call("read", {"name": "a", "seconds": 1}, id="1"), *done("calls")], DONE],
        "b": [[*text("I am b."), *call("read", {"name": "b", "seconds": 2}, id="1"), *done("calls")], DONE],
    }
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()]) as w:
        cursor = w.session.subscribe(after=0)
        seen: list[Seen] = []
        positions = [cursor.position]
        async with w.session.prompt("go") as turn, trio.open_nursery() as nursery:

            async def watch() -> None:
                async for event in cursor:
                    seen.append(event)
                    positions.append(cursor.position)
                    if isinstance(event, TurnEnded) and event.session_id == w.session.id:
                        return

            nursery.start_soon(watch)
            await turn.wait()

        def durable(events: Sequence[Seen]) -> list[tuple[SessionId, int]]:
            return [(e.session_id, e.seq) for e in events if isinstance(e, EventBase) and e.seq is not None]

        whole = durable(seen)
        assert len(set(whole)) == len(whole)
        for cut in range(len(seen) + 1):
            rest = drained(w.session.subscribe(after=decode_position(encode_position(positions[cut]))))
            assert not any(isinstance(e, Resync) for e in rest)
            assert durable(seen[:cut]) + durable(rest) == whole


async def test_sub_agents_at_a_serial_host_finish(autojump_clock: MockClock) -> None:
    """A parent whose answer goes on, and which led the way to the cache, never waits for a child that waits for it."""

    async def run(args: Task, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent(args.prompt)).text

    script: Script = {
        "go": [[Pause(1), *task("a", id="1"), *task("b", id="2"), Pause(5), *text("Both."), *done("calls")], DONE],
        "a": [[Pause(1), *task("deep"), Pause(1), *done("calls")], DONE],
        "b": [DONE],
        "deep": [DONE],
    }
    info = ModelInfo(name="h/m", host="h", parallel=1)
    settings = Settings(system="x" * LONG_PREFIX, agent_depth=2)
    tools = [engine.tool(name="task", read_only=True)(run)]
    async with world(by_prompt(script), repeat=True, tools=tools, info=info, settings=settings) as w:
        start = trio.current_time()
        played = await w.play()
        assert trio.current_time() - start == pytest.approx(8)
    assert [s.text for s in played.settlements] == ["Done.", "Done."]
    assert played.result.stop_reason == "completed"

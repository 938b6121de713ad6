"""T19: what is promised of sub-agents, over the real tool `task`. (O8 is in `tests/session/test_sub_agents.py`.)"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.agents.agent_result import AgentResult
from engine.config.agent_config import AgentConfig
from engine.config.config import Config
from engine.core.errors import Overloaded, SubAgentRefused
from engine.core.events import (
    CallProgress,
    CallSettled,
    CallStarted,
    ModelSwitched,
    PermissionAsked,
    QuestionAsked,
    SessionCreated,
    StepEnded,
    TurnEnded,
    TurnStarted,
)
from engine.core.hooks import Hooks, StopDecision, Stopping
from engine.core.llm_types import ModelInfo, ModelOptions, ModelRequest
from engine.core.messages import Usage
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.session.engine import engine_runtime
from engine.session.engine_options import PermissionOptions
from engine.session.session import live_session
from engine.session.turn import Turn
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.harness import Scenario
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.edit import edit_tool
from engine.tools.builtin.plan_exit import PLAN_EXIT
from engine.tools.builtin.read import READ
from engine.tools.builtin.task import Agent, task_tool
from engine.tools.builtin.write import write_tool
from engine.tools.call_values import ToolOutput
from engine.tools.tool import Tool
from tests.session.test_sub_agents import by_prompt, child_of, of
from tests.support.bench import Bench
from tests.support.world import Played, Seen, World, about, said, world

DONE: Answer = [*text("Done."), *done()]
Script = dict[str, Sequence[Answer]]


def send(prompt: str, *, agent: str = "any", id: str = "1", **more: object) -> Answer:  # noqa: A002
    return call("task", {"agent": agent, "prompt": prompt, **more}, id=id)


def first_lines(played: Played) -> list[str]:
    return [settlement.text.split("\n")[0] for settlement in played.settlements]


def facts(played: Played, number: int = 0) -> dict[str, object]:
    found: dict[str, object] = json.loads(played.settlements[number].metadata)
    return found


ANY = task_tool([Agent(name="any")])


# -- rights -----------------------------------------------------------------------------------------------


async def test_t19_read_only_parent_has_read_only_child(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*call("write", {"name": "a"}, id="1"), *call("read", {"name": "b"}, id="2"), *done("calls")], DONE],
    }
    tools = [ANY, *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy(profile="full")) as w:
        session = await w.engine.create_session(cwd="/opt", rules=["deny write *"])
        played = await w.play(session=session)
    assert played.stop_reason == "completed"
    assert bench.log == ["+b", "-b"]
    (denied,) = [e.settlement for e in played.events if isinstance(e, CallSettled) and e.settlement.status == "denied"]
    assert "deny write *" in denied.text


async def test_t19_configured_deny_holds_in_the_child(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    config = Config(
        rules=(parse_rule("deny read *.env"),), agents={"any": AgentConfig(rules=(parse_rule("allow read *"),))}
    )
    script: Script = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*call("read", {"path": ".env"}, id="1"), *done("calls")], DONE],
    }
    tools = [task_tool([Agent.of("any", config.agents["any"])]), READ]
    model = ScriptedProvider([by_prompt(script)], repeat=True)
    async with engine.open_engine(
        model=model, config=config, tools=tools, permissions=PermissionOptions(profile="full")
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        children = [e for e in live_session(session).journal._log if isinstance(e, CallSettled) and len(e.path) == 2]
    (settled,) = [e.settlement for e in children]
    assert (settled.status, "KEY=1" in settled.text) == ("denied", False)


async def test_t19_child_rules_can_only_forbid_more(autojump_clock: MockClock) -> None:
    bench = Bench()
    own = Agent(name="any", rules=(parse_rule("allow write *"), parse_rule("deny read *")))
    script: Script = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*call("write", {"name": "a"}, id="1"), *call("read", {"name": "b"}, id="2"), *done("calls")], DONE],
    }
    tools = [task_tool([own]), *bench.tools()]
    asked: list[tuple[str, ...]] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append((event.permission, *map(str, event.path)))
            await turn.reply(event.request_id, engine.Once())

    async with world(by_prompt(script), repeat=True, tools=tools, approver=Policy()) as w:
        played = await w.play(react=react)
        child = child_of(w, played.events)
    # What its agent allows is asked about all the same: whoever sent for it has not that right.
    assert asked == [("task", w.session.id), ("write", w.session.id, child)]
    assert bench.log == ["+a", "-a"]


async def test_t19_unanswered_headless_question_is_denied(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*call("write", {"name": "a"}, id="1"), *done("calls")], DONE],
    }
    approver = Policy(user=(parse_rule("allow task *"),))
    async with world(by_prompt(script), repeat=True, tools=[ANY, *bench.tools()], approver=approver) as w:
        result = await w.session.run("go")
    assert (result.stop_reason, bench.log) == ("completed", [])


# -- how it ends --------------------------------------------------------------------------------------------


async def test_t19_child_provider_error_is_quoted(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*send("look"), *done("calls")], DONE], "look": [[Fail(Overloaded("the host is dead"))]]}
    settings = Settings(retry=RetryPolicy(attempts=0))
    async with world(by_prompt(script), repeat=True, tools=[ANY], settings=settings) as w:
        played = await w.play()
    told = facts(played)
    assert (told["status"], told["stop_reason"], played.settlements[0].failed) == ("error", "provider_error", True)
    assert "the host is dead" in str(told["error"])
    assert played.stop_reason == "completed"


@pytest.mark.parametrize(
    ("agent", "answers", "status", "reason"),
    [
        (Agent(name="slow", seconds=3), [[Pause(60), *DONE]], "timeout", "deadline"),
        (
            Agent(name="slow", steps=2),
            [[*call("read", {"name": str(n)}, id="1"), *done("calls")] for n in range(9)],
            "stopped",
            "step_limit",
        ),
        (
            Agent(name="slow", cost=2),
            [[*call("read", {"name": str(n)}, id="1"), *done("calls", usage=Usage(input=1))] for n in range(9)],
            "stopped",
            "cost_limit",
        ),
    ],
    ids=["seconds", "steps", "cost"],
)
async def test_t19_child_over_its_limit_leaves_siblings_alone(
    autojump_clock: MockClock, agent: Agent, answers: Sequence[Answer], status: str, reason: str
) -> None:
    script: Script = {
        "go": [[*send("slow", agent="slow", id="1"), *send("quick", id="2"), *done("calls")], DONE],
        "slow": answers,
        "quick": [[Pause(5), *text("Quick."), *done()]],
    }
    tools = [task_tool([agent, Agent(name="any")]), *Bench().tools()]
    info = ModelInfo(name="scripted/dear", price_input=1_000_000)
    settings = Settings(wrap_up=False)
    async with world(by_prompt(script), repeat=True, tools=tools, info=info, settings=settings) as w:
        played = await w.play()
    assert [(facts(played, n)["status"], facts(played, n)["stop_reason"]) for n in (0, 1)] == [
        (status, reason),
        ("completed", "completed"),
    ]
    assert first_lines(played)[1] == "Quick."
    assert (played.stop_reason, trio.current_time()) == ("completed", about(5))


async def test_t19_earlier_parent_deadline_wins(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*send("look", agent="slow"), *done("calls")]], "look": [[Pause(60), *DONE]]}
    settings = Settings(limits=Limits(seconds=4))
    tools = [task_tool([Agent(name="slow", seconds=30)])]
    async with world(by_prompt(script), repeat=True, tools=tools, settings=settings) as w:
        played = await w.play()
        ends = [(len(e.path), e.result.stop_reason) for e in played.events if isinstance(e, TurnEnded)]
    assert (ends, trio.current_time()) == ([(2, "deadline"), (1, "deadline")], about(4))


async def test_child_usage_counts_for_its_ancestors(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*send("look"), *done("calls", usage=Usage(input=10))], DONE],
        "look": [[*text("It is."), *done(usage=Usage(input=3, output=4))]],
    }
    info = ModelInfo(name="scripted/dear", price_input=1_000_000, price_output=1_000_000)
    async with world(by_prompt(script), repeat=True, tools=[ANY], info=info) as w:
        played = await w.play()
        child = await w.engine.open_session(child_of(w, played.events))
        assert (child.state.usage, child.state.cost) == (Usage(input=3, output=4), about(7))
    assert (facts(played)["tokens"], facts(played)["cost"]) == (7, about(7))
    assert (played.result.usage, played.result.cost) == (Usage(input=13, output=4), about(17))


async def test_child_gets_its_agents_model_prompt_and_tools(autojump_clock: MockClock) -> None:
    bench = Bench()
    agent = Agent(
        name="any", system="You look.", tools=("read", "no"), without=("write",), options=ModelOptions(temperature=0.5)
    )
    script: Script = {"go": [[*send("look"), *done("calls")], DONE], "look": [DONE]}
    async with world(by_prompt(script), repeat=True, tools=[task_tool([agent]), *bench.tools()]) as w:
        played = await w.play()
        (created,) = [e for e in played.events if isinstance(e, SessionCreated)]
        asked = w.requests[1]
    assert (created.agent, asked.system, [tool.name for tool in asked.tools]) == ("any", "You look.", ["read"])
    assert (asked.options.temperature, w.requests[0].options.temperature) == (0.5, None)


async def test_stop_hook_sees_the_agent_name(autojump_clock: MockClock) -> None:
    told: list[str] = []

    async def stopping(end: Stopping) -> StopDecision:
        told.append(end.agent)
        return StopDecision()

    script: Script = {"go": [[*send("look"), *done("calls")], DONE], "look": [DONE]}
    hooks = Hooks(stop=(stopping,), sub_agent_stop=(stopping,))
    async with world(by_prompt(script), repeat=True, tools=[ANY], hooks=hooks) as w:
        await w.play()
    assert told == ["any", ""]


# -- depth, lineage, places ------------------------------------------------------------------------------------


async def test_t19_too_deep_nesting_is_refused(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*send("one"), *done("calls")], DONE],
        "one": [[*send("two"), *done("calls")], DONE],
        "two": [[*send("three"), *done("calls")], DONE],
    }
    for depth, said_of in (
        (1, "1 level deep here, and this is level 1"),
        (2, "2 levels deep here, and this is level 2"),
    ):
        script_now = by_prompt(script)
        settings = Settings(agent_depth=depth)
        async with world(script_now, repeat=True, tools=[ANY], settings=settings) as w:
            played = await w.play()
            offered = [[tool.name for tool in request.tools] for request in w.requests[: depth + 1]]
        refused = [e.settlement for e in played.events if isinstance(e, CallSettled) and e.settlement.status == "error"]
        assert [said_of in settlement.text for settlement in refused] == [True]
        assert offered == [["task"]] * depth + [[]], "it is not offered there either"
        assert played.stop_reason == "completed"


async def test_no_sub_agents_at_all(autojump_clock: MockClock) -> None:
    script: Script = {"go": [[*send("one"), *done("calls")], DONE]}
    async with world(by_prompt(script), repeat=True, tools=[ANY], settings=Settings(agent_depth=0)) as w:
        played = await w.play()
        assert w.requests[0].tools == ()
    assert "0 levels deep here" in played.settlements[0].text


@pytest.mark.parametrize("limit", [1, 4])
async def test_t19_fifty_limited_sub_agents_all_finish(autojump_clock: MockClock, limit: int) -> None:
    names = [f"task number {n * 17}" for n in range(50)]
    script: Script = {name: [[Pause(1), *DONE]] for name in names}
    script["go"] = [[*[item for n in names for item in send(n, id=n)], *done("calls")], DONE]
    settings = Settings(parallel=50, agents_at_once=limit)
    async with world(by_prompt(script), repeat=True, tools=[ANY], settings=settings) as w:
        played = await w.play()
    assert [facts(played, n)["status"] for n in range(50)] == ["completed"] * 50
    assert trio.current_time() == about(-(-50 // limit))
    waits = {e.call_id for e in played.events if isinstance(e, CallProgress)}
    assert len(waits) == 50 - limit, "who waits says so"


@pytest.mark.parametrize("seed", range(4))
def test_nested_sub_agents_do_not_deadlock_on_slots(seed: int) -> None:
    names = [f"branch {n}" for n in range(6)]
    script: Script = {"go": [[*[item for n in names for item in send(n, id=n)], *done("calls")], DONE]}
    for n, name in enumerate(names):
        leaves = [f"leaf {n}{m}" for m in range(3)]
        script[name] = [[*[item for leaf in leaves for item in send(leaf, id=leaf)], *done("calls")], DONE]
        script |= {leaf: [[Pause(1 + m), *DONE]] for m, leaf in enumerate(leaves)}

    async def main() -> None:
        settings = Settings(parallel=50, agents_at_once=2, agent_depth=2)
        async with world(by_prompt(script), repeat=True, tools=[ANY], settings=settings) as w:
            played = await w.play()
        assert [facts(played, n)["status"] for n in range(6)] == ["completed"] * 6
        assert Counter(len(e.path) for e in played.events if isinstance(e, TurnEnded)) == {3: 18, 2: 6, 1: 1}

    seed_scheduler(seed)
    trio.run(main, clock=MockClock(autojump_threshold=0))


async def going_on(w: World, script: dict[str, list[Answer]], task_id: str, prompt: str = "again") -> Played:
    script[prompt] = [[*send("more", task_id=task_id), *done("calls")], DONE]
    return await w.play(prompt)


def by_last(script: dict[str, list[Answer]]) -> Callable[[ModelRequest], Answer]:
    """Answer by the last of the user's messages, whoever asks."""

    def answer(request: ModelRequest) -> Answer:
        prompts = [said(m) for m in request.transcript if said(m) in script]
        return script[prompts[-1]].pop(0)

    return answer


async def test_t19_child_can_be_continued(autojump_clock: MockClock) -> None:
    script: dict[str, list[Answer]] = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*text("It is blue."), *done()]],
        "more": [[*text("And square."), *done()]],
    }
    async with world(by_last(script), repeat=True, tools=[ANY]) as w:
        played = await w.play()
        child = child_of(w, played.events)
        again = await going_on(w, script, child)
        assert first_lines(again) == ["And square."]
        assert facts(again)["task_id"] == child
        assert [said(m) for m in w.requests[-2].transcript] == ["look", "It is blue.", "more"]
        starts = [e.call_id for e in again.events if isinstance(e, TurnStarted) and e.session_id == child]
        assert starts == [again.one(CallStarted).call_id], "its turn names the call that went on with it"
        assert {e.path for e in of(again.events, child)} == {(w.session.id, child)}
        assert not [e for e in again.events if isinstance(e, SessionCreated)]


async def test_t19_child_continues_after_restart_with_current_rights(tmp_path: Path) -> None:
    place = tmp_path / "sessions.db"
    bench = Bench()
    script: dict[str, list[Answer]] = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*text("It is blue."), *done()]],
        "more": [[*call("write", {"name": "a"}, id="1"), *done("calls")], [*text("Denied."), *done()]],
    }
    model = ScriptedProvider([by_last(script)], repeat=True)
    tools = [ANY, *bench.tools()]
    async with engine.open_engine(
        model=model, tools=tools, permissions=PermissionOptions(profile="full"), store=place
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        (child,) = {e.session_id for e in live_session(session).journal._log if len(e.path) == 2}
    other = ScriptedProvider([by_last(script)], repeat=True, info=ModelInfo(name="scripted/other"))
    async with engine.open_engine(
        model=other, tools=tools, permissions=PermissionOptions(profile="full", rules=["deny write *"]), store=place
    ) as eng:
        session = await eng.open_session(session.id)
        script["again"] = [[*send("more", task_id=child), *done("calls")], DONE]
        result = await session.run("again")
        (settled,) = [e.settlement for e in session.events() if isinstance(e, CallSettled)][1:]
        switched = [
            e.model
            for e in live_session(session).journal._log
            if isinstance(e, ModelSwitched) and e.session_id == child
        ]
    assert (result.stop_reason, settled.text.split("\n")[0], bench.log) == ("completed", "Denied.", [])
    # That was before it was shown here.
    assert switched == []
    assert json.loads(settled.metadata)["task_id"] == child


async def test_t19_uncontinuable_children_are_refused(autojump_clock: MockClock) -> None:
    script: dict[str, list[Answer]] = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [DONE],
        "elsewhere": [DONE],
    }
    async with world(by_last(script), repeat=True, tools=[ANY]) as w:
        played = await w.play()
        child = child_of(w, played.events)
        other = await w.engine.create_session(cwd="/opt")
        await w.play("elsewhere", session=other)
        wrong = {
            w.session.id: f"{w.session.id} is this very session",
            other.id: f"'{other.id}' is no sub-agent of this session",
            "ses_nobody": "'ses_nobody' is no sub-agent of this session",
            "x" * 500: f"{'x' * 80!r} is no sub-agent of this session",
        }
        for number, (task_id, words) in enumerate(wrong.items()):
            again = await going_on(w, script, task_id, f"again {number}")
            assert again.statuses == ["error"]
            assert words in again.settlements[0].text
            assert again.stop_reason == "completed"
        engine_runtime(w.engine).sessions.close(live_session(other))
        again = await going_on(w, script, other.id, "and now")
        assert f"'{other.id}' is no sub-agent of this session" in again.settlements[0].text
        # A child of a child, and a child that a host has opened for itself.
        opened = await w.engine.open_session(child)
        again = await going_on(w, script, child, "and then")
        assert "is open by itself in this engine" in again.settlements[0].text
        engine_runtime(w.engine).sessions.close(live_session(opened))
        script["more"] = [[Pause(5), *DONE]]
        script["both"] = [
            [*send("more", task_id=child, id="1"), *send("more", task_id=child, id="2"), *done("calls")],
            DONE,
        ]
        both = await w.play("both")
        assert sorted(both.statuses) == ["completed", "error"]
        assert any(f"{child} is running" in settlement.text for settlement in both.settlements)


async def test_a_grandchild_is_nobodys_child_but_its_parents(autojump_clock: MockClock) -> None:
    script: dict[str, list[Answer]] = {
        "go": [[*send("one"), *done("calls")], DONE],
        "one": [[*send("two"), *done("calls")], DONE],
        "two": [DONE],
    }
    async with world(by_last(script), repeat=True, tools=[ANY], settings=Settings(agent_depth=2)) as w:
        played = await w.play()
        grandchild = next(e.session_id for e in played.events if isinstance(e, TurnStarted) and len(e.path) == 3)
        again = await going_on(w, script, grandchild)
        assert f"'{grandchild}' is no sub-agent of this session" in again.settlements[0].text


async def test_tool_reports_changes_as_a_type(autojump_clock: MockClock) -> None:
    results: list[AgentResult] = []
    refused: list[str] = []

    @attrs.frozen
    class Nothing:
        """Nothing."""

    @engine.tool(name="both", read_only=True)
    async def both(args: Nothing, ctx: engine.ToolContext) -> str:
        results.append(await ctx.run_agent("look", seconds=5, name="me"))
        results.append(await ctx.run_agent("more", resume=results[0].session_id))
        for wrong in (ctx.session_id, "nobody"):
            try:
                await ctx.run_agent("more", resume=wrong)
            except SubAgentRefused as error:
                refused.append(str(error))
        return "ok"

    script: dict[str, list[Answer]] = {
        "go": [[*call("both", {}, id="1"), *done("calls")], DONE],
        "look": [[*text("Blue."), *done(usage=Usage(input=2))]],
        "more": [[Fail(Overloaded("gone"))]],
    }
    settings = Settings(retry=RetryPolicy(attempts=0))
    async with world(by_last(script), repeat=True, tools=[both], settings=settings) as w:
        played = await w.play()
        child = child_of(w, played.events)
    first, second = results
    assert first == AgentResult(stop_reason="completed", text="Blue.", usage=Usage(input=2), steps=1, session_id=child)
    assert (first.status, first.error, second.status, second.session_id) == ("completed", "", "error", child)
    assert second.error.startswith("provider_error: ")
    assert len(refused) == 2


# -- what was changed --------------------------------------------------------------------------------------


async def test_child_changes_are_reported_by_its_tools(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    script: Script = {
        "go": [[*send("change"), *done("calls")], DONE],
        "change": [
            [*call("read", {"path": "a.py"}, id="1"), *done("calls")],
            [
                *call("edit", {"path": "a.py", "old_string": "one", "new_string": "two"}, id="2"),
                *call("edit", {"path": "a.py", "old_string": "nine", "new_string": "ten"}, id="3"),
                *call("write", {"path": "b.py", "content": "new\n"}, id="4"),
                *call("write", {"path": "c.py", "content": "new\n"}, id="5"),
                *done("calls"),
            ],
            DONE,
        ],
    }
    tools = [ANY, READ, edit_tool(), write_tool()]
    model = ScriptedProvider([by_prompt(script)], repeat=True)
    async with engine.open_engine(
        model=model,
        tools=tools,
        permissions=PermissionOptions(profile="full", rules=["deny edit c.py"]),
        settings=Settings(agent_depth=2),
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        (settled,) = [e.settlement for e in session.events() if isinstance(e, CallSettled)]
    told = json.loads(settled.metadata)
    assert (told["changed"], told["changes_known"]) == ([str(tmp_path / "a.py"), str(tmp_path / "b.py")], True)
    assert settled.text.endswith(f"It changed {tmp_path / 'a.py'}, {tmp_path / 'b.py'}.]")


async def test_unreported_changes_are_unknown_up_to_the_root(autojump_clock: MockClock) -> None:
    results: list[AgentResult] = []

    async def run(args: engine_task, ctx: engine.ToolContext) -> ToolOutput:
        result = await ctx.run_agent(args.prompt)
        results.append(result)
        return ToolOutput(text=result.text, changed=())

    @engine.tool(name="tells", read_only=False)
    async def tells(args: Nothing, ctx: engine.ToolContext) -> ToolOutput:
        return ToolOutput(text="ok", changed=("/x",))

    bench = Bench()
    script: Script = {
        "go": [[*call("sub", {"prompt": "one"}, id="1"), *done("calls")], DONE],
        "one": [[*call("sub", {"prompt": "two"}, id="1"), *call("tells", {}, id="2"), *done("calls")], DONE],
        "two": [[*call("write", {"name": "a"}, id="1"), *done("calls")], DONE],
    }
    tools: list[Tool] = [engine.tool(name="sub", read_only=True)(run), tells, *bench.tools()]
    async with world(by_prompt(script), repeat=True, tools=tools, settings=Settings(agent_depth=2)) as w:
        await w.play()
    assert [(result.changed, result.changes_known) for result in results] == [((), False), (("/x",), False)]


@attrs.frozen
class engine_task:  # noqa: N801  # the arguments of a tool, nothing else
    """Run one."""

    prompt: str


@attrs.frozen
class Nothing:
    """Nothing."""


# -- what a cancel leaves ---------------------------------------------------------------------------------


@engine.tool(name="tells", read_only=False)
async def _tells(args: Nothing, ctx: engine.ToolContext) -> ToolOutput:
    return ToolOutput(text="ok", changed=("/x",))


@engine.tool(name="stays", read_only=False)
async def _stays(args: Nothing, ctx: engine.ToolContext) -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(30)
    return "late"


CUT = "Cancelled before it had finished."


@pytest.mark.parametrize(
    ("calls", "said_first", "changed", "known", "ending"),
    [
        (["read"], True, [], True, "aborted after 1 step. It changed no files.]"),
        (["tells", "read"], False, ["/x"], True, "aborted after 1 step. It changed /x.]"),
        (["write"], False, [], False, "aborted after 1 step. It ran what may have changed files.]"),
        (["stays"], False, [], False, "aborted after 1 step. It ran what may have changed files.]"),
    ],
)
@pytest.mark.parametrize("way", ["user", "deadline"])
async def test_cancelled_child_reports_changes_and_can_be_continued(
    autojump_clock: MockClock,
    calls: list[str],
    said_first: bool,
    changed: list[str],
    known: bool,
    ending: str,
    way: str,
) -> None:
    asks: Answer = [
        each
        for n, name in enumerate(calls)
        for each in call(name, {"name": "a", "seconds": 60} if name in {"read", "write"} else {}, id=str(n))
    ]
    script: dict[str, list[Answer]] = {
        "go": [[*send("look"), *done("calls")]],
        "look": [[*(text("I found it.") if said_first else []), *asks, *done("calls")]],
        "more": [DONE],
    }
    tools = [ANY, _tells, _stays, *Bench().tools()]
    async with world(by_last(script), repeat=True, tools=tools) as w:
        limits = Limits(seconds=1) if way == "deadline" else Limits()
        async with w.session.prompt("go", settings=Settings(limits=limits)) as turn:
            if way == "user":
                await trio.sleep(1)
                turn.cancel()
            await turn.wait()
            assert trio.current_time() <= 1.25 + 1e-6
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        (child,) = {e.session_id for e in live_session(w.session).journal._log if len(e.path) == 2}
        assert (settled.status, settled.reason, settled.outcome_unknown) == ("aborted", "cancelled", False)
        assert settled.text.split("\n\n")[0] == (f"{CUT} Its last message:\nI found it." if said_first else CUT)
        status = "timeout" if way == "deadline" else "aborted"
        assert settled.text.endswith(f"[any, task_id {child}: {ending.replace('aborted', status)}")
        told = json.loads(settled.metadata)
        assert (told["task_id"], told["status"], told["changed"], told["changes_known"]) == (
            child,
            status,
            changed,
            known,
        )
        again = await going_on(w, script, child)
        assert first_lines(again) == ["Done."]


async def test_report_survives_a_cancel(autojump_clock: MockClock) -> None:
    """The child is done and is being saved when its parent is cancelled."""
    script: Script = {"go": [[*send("look"), *done("calls")], DONE], "look": [[*text("It is blue."), *done()]]}
    async with world(by_prompt(script), repeat=True, tools=[ANY]) as w:
        w.store.delay = 2.0
        async with w.session.prompt("go") as turn:
            async for event in w.session.subscribe():
                if isinstance(event, StepEnded) and len(event.path) == 2:
                    break
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, settled.reason) == ("aborted", "cancelled")
        assert settled.text.startswith(
            "Cancelled just as it had finished. Its message:\nIt is blue.\n\n[any, task_id ses"
        )
        assert json.loads(settled.metadata)["status"] == "completed"


# -- plans ------------------------------------------------------------------------------------------------------


async def test_plan_agent_changes_nothing_before_approval(tmp_path: Path) -> None:
    write = call("write", {"path": "a.py", "content": "new\n"}, id="1")
    script: list[Answer] = [
        [*write, *done("calls")],
        [*call("plan_exit", {"plan": "Write a.py."}, id="2"), *done("calls")],
        [*call("write", {"path": "a.py", "content": "new\n"}, id="3"), *done("calls")],
        DONE,
    ]
    tools = [PLAN_EXIT, write_tool(), READ]
    async with engine.open_engine(
        model=ScriptedProvider(script), tools=tools, permissions=PermissionOptions(profile="full")
    ) as eng:
        session = await eng.create_session(cwd=tmp_path, agent="plan")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    assert not (tmp_path / "a.py").exists()
                    await turn.answer(event.request_id, "Approve")
        statuses = [e.settlement.status for e in session.events() if isinstance(e, CallSettled)]
        assert session.state.agent == "plan"
    assert statuses == ["denied", "completed", "completed"]
    assert (tmp_path / "a.py").read_text() == "new\n"


@pytest.mark.parametrize(
    ("how", "again"),
    [("open", "completed"), ("open as plan", "denied"), ("fork", "completed"), ("fork as plan", "denied")],
)
async def test_plan_approval_lasts_until_plan_mode(tmp_path: Path, how: str, again: str) -> None:
    write = [*call("write", {"path": "a.py", "content": "new\n"}, id="1"), *done("calls")]
    script: list[Answer] = [[*call("plan_exit", {"plan": "Write a.py."}, id="2"), *done("calls")], DONE, write, DONE]
    opening = {
        "model": ScriptedProvider(script),
        "tools": [PLAN_EXIT, write_tool()],
        "permissions": PermissionOptions(profile="full"),
        "store": tmp_path / "sessions.db",
    }
    async with engine.open_engine(**opening) as eng:  # type: ignore[arg-type]
        session = await eng.create_session(cwd=tmp_path, agent="plan")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    await turn.answer(event.request_id, "Approve")
    async with engine.open_engine(**opening) as eng:  # type: ignore[arg-type]
        begin = eng.fork_session if "fork" in how else eng.open_session
        later = await begin(session.id, agent="plan" if "as plan" in how else None)
        await later.run("and now")
        statuses = [e.settlement.status for e in later.events() if isinstance(e, CallSettled)]
    assert statuses[-1] == again
    assert (tmp_path / "a.py").exists() == (again == "completed")


async def test_approved_plan_overrides_no_deny(tmp_path: Path) -> None:
    script: list[Answer] = [
        [*call("plan_exit", {"plan": "Write a.py."}, id="2"), *done("calls")],
        [*call("write", {"path": "a.py", "content": "new\n"}, id="3"), *done("calls")],
        DONE,
    ]
    tools = [PLAN_EXIT, write_tool()]
    async with engine.open_engine(
        model=ScriptedProvider(script),
        tools=tools,
        permissions=PermissionOptions(profile="full", rules=["deny edit *"]),
    ) as eng:
        session = await eng.create_session(cwd=tmp_path, agent="plan")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    await turn.answer(event.request_id, "Approve")
        statuses = [e.settlement.status for e in session.events() if isinstance(e, CallSettled)]
    assert statuses == ["completed", "denied"]


async def test_sub_agent_of_plan_has_the_same_bounds(tmp_path: Path) -> None:
    script: Script = {
        "go": [[*send("change"), *done("calls")], DONE],
        "change": [[*call("write", {"path": "a.py", "content": "new\n"}, id="1"), *done("calls")], DONE],
    }
    model = ScriptedProvider([by_prompt(script)], repeat=True)
    async with engine.open_engine(
        model=model, tools=[ANY, write_tool()], permissions=PermissionOptions(profile="full")
    ) as eng:
        session = await eng.create_session(cwd=tmp_path, agent="plan")
        await session.run("go")
        statuses = [e.settlement.status for e in live_session(session).journal._log if isinstance(e, CallSettled)]
    assert statuses == ["denied", "completed"]
    assert not (tmp_path / "a.py").exists()


async def test_sub_agent_bounds_override_its_rules(autojump_clock: MockClock) -> None:
    bench = Bench()
    agent = Agent(name="any", rules=(parse_rule("allow write *"),), bounds=(parse_rule("deny write *"),))
    script: Script = {
        "go": [[*send("look"), *done("calls")], DONE],
        "look": [[*call("write", {"name": "a"}, id="1"), *call("read", {"name": "b"}, id="2"), *done("calls")], DONE],
    }
    approver = Policy(profile="full")
    async with world(
        by_prompt(script), repeat=True, tools=[task_tool([agent]), *bench.tools()], approver=approver
    ) as w:
        await w.play()
    assert bench.log == ["+b", "-b"]


# -- a cancel anywhere -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_t19_cancel_of_three_levels_within_one_grace(is_full: bool) -> None:
    def level(number: int) -> Answer:
        return [*text(f"Level {number}. "), *send("deeper", id=f"s{number}"), *done("calls")]

    deep: Answer = [
        *call("look", {"key": "x", "seconds": 0.5}, id="1"),
        *call("look", {"key": "y", "seconds": 0.2, "manner": "cleans_up"}, id="2"),
        *done("calls"),
    ]
    scenario = Scenario(
        script=[level(1), level(2), level(3), deep], tools=(ANY,), settings=Settings(agent_depth=3), must_stop=False
    )
    assert cancel_everywhere(scenario, ways=("user", "host"), every=4 if is_full else 12).runs > 30


@pytest.mark.slow
def test_cancel_anywhere_while_children_are_queued(is_full: bool) -> None:
    looks = [[*call("look", {"key": key, "seconds": 0.5}, id="1"), *done("calls")] for key in ("x", "y", "z")]
    calls = [item for n in range(3) for item in send(f"t{n}", id=str(n))]
    scenario = Scenario(
        script=[[*calls, *done("calls")], *looks], tools=(ANY,), settings=Settings(agents_at_once=1), must_stop=True
    )
    assert cancel_everywhere(scenario, ways=("user", "host"), every=3 if is_full else 12).runs > 25


@pytest.mark.slow
def test_cancel_anywhere_while_requests_wait_for_a_limit(is_full: bool) -> None:
    looks = [[*call("look", {"key": key, "seconds": 0.5}, id="1"), *done("calls")] for key in ("x", "y", "z")]
    calls = [item for n in range(3) for item in send(f"t{n}", id=str(n))]
    # Room for the longest answer of one request: the others wait for its end.
    scenario = Scenario(
        script=[[*calls, *done("calls")], *looks],
        tools=(ANY,),
        settings=Settings(limits=Limits(tokens=12_000)),
        must_stop=True,
    )
    assert cancel_everywhere(scenario, ways=("user", "host"), every=3 if is_full else 48).runs > 6

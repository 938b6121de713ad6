"""`task`: which sub-agents there are, what the model is told of how one ended, and that it ends with its parent."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.agents.agent_result import AgentResult
from engine.config.agent_config import AgentConfig
from engine.config.config import Config
from engine.core.arguments import parse
from engine.core.errors import ConfigError, InvalidArguments, Overloaded, ToolError, UnknownModel
from engine.core.events import CallSettled, EventBase, PermissionAsked, SessionCreated, TurnEnded
from engine.core.ids import SessionId
from engine.core.messages import Usage
from engine.core.settings import RetryPolicy, Settings
from engine.permission.policy import Policy
from engine.session.turn import Turn
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.harness import Scenario
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.tools.builtin.task import MAX_PROMPT_CHARS, Agent, Agents, Task, task_tool
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool
from engine.tools.tool_context import AgentRequest, ToolContext
from tests.support.needs import need_of
from tests.support.world import Seen, about, world
from tests.tools.conftest import Listener

LOOK = Agent(name="look", description="Looks  for\nthings.", system="You look.", steps=3, tools=("read", "task"))
WORK = Agent(name="work", model="scripted/model")
TOOL = task_tool([WORK, LOOK])
DONE: Answer = [*text("Done."), *done()]
COMPLETED = AgentResult(stop_reason="completed", session_id=SessionId("ses_2"))


@attrs.define
class Runner(Listener):
    """Runs agents by ending at once, as it is told."""

    result: AgentResult | Exception = COMPLETED
    ran: list[AgentRequest] = attrs.field(factory=list[AgentRequest])

    async def run_agent(self, request: AgentRequest) -> AgentResult:
        self.ran.append(request)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def run(
    ctx: ToolContext, args: Task, result: AgentResult | Exception, tool: Tool = TOOL
) -> tuple[Runner, ToolOutput]:
    runner = Runner(result=result)
    output = await tool.body(args, attrs.evolve(ctx, host=runner))
    assert isinstance(output, ToolOutput)
    return runner, output


async def test_task_prompt_and_answer(ctx: ToolContext) -> None:
    result = AgentResult(
        stop_reason="completed",
        text="Found. \n",
        steps=2,
        usage=Usage(input=3, output=4),
        cost=0.5,
        session_id=SessionId("ses_2"),
        changed=("/a", "/b"),
        changes_known=False,
    )
    runner, output = await run(ctx, Task("look", "look there"), result)
    assert runner.ran == [AgentRequest(prompt="look there", agent=LOOK, name="look")]
    assert (output.text, output.failed, output.changed) == (
        "Found.\n\n[look, task_id ses_2: completed after 2 steps. It changed /a, /b, and ran what may have changed others.]",
        False,
        (),
    )
    assert json.loads(output.metadata) == {
        "summary": "look: completed, 2 requests",
        "agent": "look",
        "task_id": "ses_2",
        "status": "completed",
        "stop_reason": "completed",
        "error": "",
        "steps": 2,
        "tokens": 7,
        "cost": 0.5,
        "changed": ["/a", "/b"],
        "changes_known": False,
    }
    runner, _ = await run(ctx, Task("work", "x", "ses_1"), result)
    assert runner.ran == [AgentRequest(prompt="x", agent=WORK, name="work", resume="ses_1")]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            COMPLETED,
            "(The sub-agent ended without a message.)\n\n[look, task_id ses_2: completed after 0 steps. It changed no files.]",
        ),
        (
            attrs.evolve(
                COMPLETED, stop_reason="step_limit", detail="3 steps", text="So far.", steps=3, changes_known=False
            ),
            "The sub-agent look did not complete its task (step_limit: 3 steps, after 3 steps). Its last message:\n"
            "So far.\n\n[look, task_id ses_2: stopped after 3 steps. It ran what may have changed files.]",
        ),
        (
            attrs.evolve(COMPLETED, stop_reason="provider_error", steps=1, changed=tuple(f"/{n}" for n in range(52))),
            "The sub-agent look did not complete its task (provider_error, after 1 step). It sent no message.\n\n"
            f"[look, task_id ses_2: error after 1 step. It changed {', '.join(f'/{n}' for n in range(50))} and 2 more.]",
        ),
    ],
)
async def test_how_it_ended(ctx: ToolContext, result: AgentResult, said: str) -> None:
    _, output = await run(ctx, Task("look", "x"), result)
    assert (output.text, output.failed) == (said, result.stop_reason != "completed")


async def test_unstartable_sub_agents(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match="The sub-agent work could not be started: no provider answers"):
        await run(ctx, Task("work", "x"), UnknownModel("no provider answers"))


@pytest.mark.parametrize(("task_id", "resumed"), [(None, None), ("", None), (" ", None), ("ses_1", "ses_1")])
async def test_empty_optional_arguments_are_ignored(ctx: ToolContext, task_id: str | None, resumed: str | None) -> None:
    runner, _ = await run(ctx, Task("look", "x", task_id), COMPLETED)
    assert [errand.resume for errand in runner.ran] == [resumed]


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("lok", "There is no sub-agent named 'lok'. There is: look."),
        ("nobody", "There is no sub-agent named 'nobody'. There is: look, work."),
        ("x" * 1_000, f"There is no sub-agent named '{'x' * 64}'. There is: look, work."),
        ("", "There is no sub-agent named ''. There is: look, work."),
    ],
)
async def test_unknown_name_is_refused(ctx: ToolContext, agent: str, said: str) -> None:
    with pytest.raises(ToolError) as raised:
        await run(ctx, Task(agent, "x"), COMPLETED)
    assert str(raised.value) == said


def test_t13_agent_list_is_sorted_stable_and_permitted() -> None:
    assert TOOL.description.endswith(
        "The sub-agents:\n- look: Looks for things.\n- work: use it only if the user asks for it by name."
    )
    assert task_tool(Agents.of([LOOK, WORK])).description == TOOL.description
    denied = task_tool([WORK, LOOK], denied={"work"})
    assert denied.description.endswith("The sub-agents:\n- look: Looks for things.")
    assert task_tool([WORK], denied=["work"]).description.endswith("(there are none)")


async def test_hidden_agent_works_by_name_only(ctx: ToolContext) -> None:
    hidden = task_tool([LOOK, Agent(name="secret", hidden=True)])
    assert "secret" not in hidden.description
    _, output = await run(ctx, Task("secret", "x"), COMPLETED, hidden)
    assert output.text.startswith("(The sub-agent ended without a message.)")
    with pytest.raises(ToolError, match=r"There is: look\.$"):
        await run(ctx, Task("secre", "x"), COMPLETED, hidden)


def test_configured_sub_agents() -> None:
    config = Config(agents={"own": AgentConfig(tools=("question",)), "boss": AgentConfig(mode="primary")})
    table = Agents.of_config(config.all_agents)
    assert table.names == ("explore", "general", "own")
    assert [agent.has("question") for agent in table.agents] == [False, False, True]


async def test_t13_one_that_is_denied_is_not_there(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"no sub-agent named 'work'. There is: look\."):
        await run(ctx, Task("work", "x"), COMPLETED, task_tool([WORK, LOOK], denied=["work"]))


def test_invalid_agent_tables() -> None:
    with pytest.raises(ConfigError, match="two agents are named look"):
        task_tool([LOOK, WORK, LOOK])
    for name in ("", "a b", "../x", "x" * 65, "é"):
        with pytest.raises(ConfigError, match="an agent's name"):
            Agent(name=name)
    with pytest.raises(ConfigError, match="steps must be at least 1"):
        Agent(name="x", steps=0)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"agent": "x"},
        {"prompt": "x"},
        {"agent": 5, "prompt": "x"},
        {"agent": "x", "prompt": " "},
        {"agent": "x", "prompt": "x" * (MAX_PROMPT_CHARS + 1)},
        {"agent": "x", "prompt": "x", "model": "y"},
    ],
)
def test_arguments_that_do_not_fit(arguments: object) -> None:
    with pytest.raises(InvalidArguments):
        parse(Task, json.dumps(arguments))


def test_the_right_it_needs() -> None:
    need = Need(permission="task", patterns=("look",), detail="look: x")
    assert need_of(TOOL, Task("look", "x")) == need
    assert need_of(TOOL, Task("nobody", "x")).is_own
    assert not TOOL.read_only
    assert TOOL.safe(Task("look", "x"))


# -- in a turn -----------------------------------------------------------------------------------------


def tasks(*prompts: str) -> Answer:
    calls = [
        item
        for n, prompt in enumerate(prompts)
        for item in call("task", {"agent": "look", "prompt": prompt}, id=str(n))
    ]
    return [*calls, *done("calls")]


async def test_sub_agent_answer_is_the_result(autojump_clock: MockClock) -> None:
    async with world(tasks("look there"), [*text("It is there."), *done()], DONE, tools=[TOOL]) as w:
        played = await w.play()
    assert [s.text.split("\n")[0] for s in played.settlements] == ["It is there."]
    assert [request.system for request in w.requests] == ["", "You look.", ""]


async def test_failed_child_is_reported_with_its_reason(autojump_clock: MockClock) -> None:
    script = (tasks("x"), [*text("I am ", id="1"), Fail(Overloaded("the host is dead"))], DONE)
    async with world(*script, tools=[TOOL], settings=Settings(retry=RetryPolicy(attempts=0))) as w:
        played = await w.play()
    (settled,) = played.settlements
    assert (settled.status, settled.failed, played.stop_reason) == ("completed", True, "completed")
    assert settled.text.startswith("The sub-agent look did not complete its task (provider_error: ")
    assert "the host is dead" in settled.text


async def test_step_limit_of_a_sub_agent(autojump_clock: MockClock) -> None:
    again: Answer = [*call("task", {"agent": "nobody", "prompt": "x"}, id="9"), *done("calls")]
    settings = Settings(wrap_up=False)
    async with world(tasks("x"), again, again, again, DONE, tools=[TOOL], settings=settings) as w:
        played = await w.play()
    assert "did not complete its task (step_limit" in played.settlements[0].text
    assert "after 3 steps" in played.settlements[0].text


async def test_several_work_side_by_side(autojump_clock: MockClock) -> None:
    slow: Answer = [Pause(5), *DONE]
    async with world(tasks("a", "b", "c"), slow, slow, slow, DONE, tools=[TOOL]) as w:
        played = await w.play()
    assert [s.text.split("\n")[0] for s in played.settlements] == ["Done."] * 3
    assert trio.current_time() == about(5)


async def test_permission_is_asked_for_known_agents_only(autojump_clock: MockClock) -> None:
    asked: list[Sequence[str]] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append((event.permission, *event.patterns, event.detail))
            await turn.reply(event.request_id, engine.Once())

    wrong: Answer = [*call("task", {"agent": "nobody", "prompt": "x"}, id="1"), *done("calls")]
    async with world(wrong, tasks("x"), DONE, DONE, tools=[TOOL], approver=Policy()) as w:
        played = await w.play(react=react)
    assert asked == [("task", "look", "look: x")]
    assert [s.status for s in played.settlements] == ["error", "completed"]


@pytest.mark.parametrize("way", ["user", "host"])
async def test_cancelled_task_settles_with_its_child(autojump_clock: MockClock, way: str) -> None:
    async with world(tasks("x"), [*text("So far."), Pause(60), *done()], tools=[TOOL]) as w:
        seen: list[EventBase] = []
        watcher = w.session.subscribe()
        with trio.CancelScope() as host:
            async with w.session.prompt("go") as turn:
                await trio.sleep(1)
                turn.cancel() if way == "user" else host.cancel(reason="the test")
                await turn.wait()
        while (event := watcher.try_next()) is not None:
            assert isinstance(event, EventBase)
            seen.append(event)
        assert trio.current_time() == about(1)
        child = next(e.session_id for e in seen if isinstance(e, SessionCreated) and e.session_id != w.session.id)
        ends = [e.session_id for e in seen if isinstance(e, TurnEnded)]
        settled = [e for e in seen if isinstance(e, CallSettled)]
        assert ends == [child, w.session.id]
        assert "So far." in settled[-1].settlement.text
        await w.goes_on()


@pytest.mark.slow
def test_a_cancel_anywhere() -> None:
    looks = [[*call("look", {"key": key, "seconds": 0.5}, id="1"), *done("calls")] for key in ("x", "y")]
    scenario = Scenario(script=[tasks("x", "y"), *looks], tools=(TOOL,), must_stop=True)
    assert cancel_everywhere(scenario, ways=("user", "host")).runs > 200

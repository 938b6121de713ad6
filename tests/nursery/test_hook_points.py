"""The points at which hooks are asked, other than those of a call: what each may change, and that none may hurt.

Those of a call are in test_pipeline.py, those at the model's end in test_loop_stop_hooks.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import AuthFailed, ContextOverflow, Overloaded
from engine.core.events import (
    HistoryReplaced,
    LoopContinued,
    Notice,
    NudgeAdded,
    PermissionAsked,
    PromptBlocked,
    QuestionAsked,
    RecoveryAsked,
    RetryScheduled,
    SessionCreated,
    TurnEnded,
)
from engine.core.hooks import (
    Compacted,
    Compacting,
    CompactionDecision,
    Context,
    Hooks,
    Idling,
    Notified,
    PromptDecision,
    Prompted,
    Remark,
    RequestDecision,
    Requesting,
    SessionEnding,
    SessionStarting,
    StopDecision,
    Stopping,
)
from engine.core.messages import Message, UserMessage
from engine.core.protocols import ContextView
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.engine_options import PermissionOptions, Ports
from engine.session.turn import Turn
from engine.testing.fakes import CountingIds, ScriptedKeeper, SlowStore, TrioClock
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.bench import Bench
from tests.support.world import Played, Seen, about, said, world

S = TypeVar("S")
D = TypeVar("D")

DONE: Answer = [*text("Done."), *done()]
ASKING: Answer = [*call("read", {"name": "a"}, id="1"), *done("calls")]


def note(
    log: list[S] | list[object], decision: D | None = None, seconds: float = 0.0
) -> Callable[[S], Awaitable[D | None]]:
    async def hook(subject: S) -> D | None:
        log.append(subject)
        await trio.sleep(seconds)
        return decision

    return hook


async def raising(subject: object) -> None:
    raise RuntimeError("the hook broke")


async def hanging(subject: object) -> None:
    await trio.sleep_forever()


async def wrong(subject: object) -> int:
    return 5


FAILING: dict[str, object] = {"raises": raising, "hangs": hanging, "returns-int": wrong, "not-callable": "hook"}
POINTS = [field.name for field in attrs.fields(Hooks)]


def keeper() -> ScriptedKeeper:
    return ScriptedKeeper(compacts=[lambda view: view.transcript[-1:]])


@pytest.mark.parametrize("kind", FAILING)
@pytest.mark.parametrize("point", [p for p in POINTS if p not in {"before_tool", "permission_request"}])
async def test_failing_hook_is_reported_and_ignored(autojump_clock: MockClock, point: str, kind: str) -> None:
    """All but those that guard a call; see test_pipeline.py for those."""
    bench = Bench()

    async def reply(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.sleep(40)
            await turn.reply(event.request_id, engine.Once())

    hooks = Hooks(**{point: (FAILING[kind],)})  # type: ignore[arg-type]  # the point of it
    first = [*call("write", {"name": "a"}, id="1"), *call("sub", {}, id="2"), *done("calls")]

    @engine.tool(read_only=True)
    async def sub(args: Nothing, ctx: engine.ToolContext) -> engine.ToolOutput:
        result = await ctx.run_agent("do")
        return engine.ToolOutput(text=result.text, failed=True)

    async with world(
        first, DONE, DONE, tools=[*bench.tools(), sub], hooks=hooks, approver=Policy(), keeper=keeper()
    ) as w:
        played = await w.play(react=reply)
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        await trio.sleep(100)
        await w.goes_on()
        await trio.sleep(100)
        session = w.session
    told = [e for e in session.events() if isinstance(e, Notice)]
    codes = {e.code for e in told}
    if point == "sub_agent_stop":
        assert codes == set()  # the child's own log has it
        assert [e.code for e in played.events if isinstance(e, Notice)] == ["hook_failed"]
    else:
        assert codes == {"hook_failed"}
        assert all(e.level == "warning" for e in told)


@attrs.frozen
class Nothing:
    """Do it."""


# -- the user's words -----------------------------------------------------------------------------------------


async def test_prompt_hook_runs_before_the_request(autojump_clock: MockClock) -> None:
    log: list[Prompted] = []
    async with world(DONE, hooks=Hooks(user_prompt=(note(log),))) as w:
        await w.play("do it")
        message = w.session.state.transcript[0]
    assert isinstance(message, UserMessage)
    assert log == [Prompted(session_id=w.session.id, cwd="/opt", text="do it", message=message)]


async def test_hook_text_follows_the_prompt_and_stays(autojump_clock: MockClock) -> None:
    hooks = Hooks(
        user_prompt=(
            note([], PromptDecision(context="the branch is main")),
            note([], PromptDecision()),
            note([], PromptDecision(context="it is Friday")),
        )
    )
    async with world(DONE, hooks=hooks) as w:
        played = await w.play("do it")
        assert [said(m) for m in w.requests[0].transcript] == [
            "do it",
            "[the hook hook] the branch is main[the hook hook] it is Friday",
        ]
        assert played.one(NudgeAdded).message.origin == "engine"
        await w.goes_on()
        assert [said(m) for m in w.requests[-1].transcript][:2] == [said(m) for m in w.requests[0].transcript]


async def test_blocked_prompt_ends_the_turn(autojump_clock: MockClock) -> None:
    log: list[Prompted] = []
    seen: list[Prompted] = []
    blocks = note(seen, PromptDecision(verdict="block", reason="there is a key in it", context="never seen"))
    async with world(DONE, hooks=Hooks(user_prompt=(blocks, note(log)))) as w:
        played = await w.play("the key is hunter2")
        assert (played.stop_reason, played.result.detail) == ("hook_stopped", "there is a key in it")
        assert (w.requests, log, len(w.session.state.transcript)) == ([], [], 0)
        blocked = played.one(PromptBlocked)
        assert (blocked.source, blocked.reason) == ("the hook hook", "there is a key in it")
        w.will_say([*text("Still here."), *done()])
        async with w.session.prompt("and now") as turn:
            await turn.wait()
        assert turn.result.stop_reason == "hook_stopped"


async def test_blocked_prompt_is_not_in_the_next_request(autojump_clock: MockClock) -> None:
    async def no_keys(prompted: Prompted) -> PromptDecision | None:
        return PromptDecision(verdict="block") if "hunter2" in prompted.text else None

    async with world(DONE, DONE, hooks=Hooks(user_prompt=(no_keys,))) as w:
        assert (await w.play("one")).stop_reason == "completed"
        played = await w.play("the key is hunter2")
        assert played.result.detail == "the hook no_keys blocked the prompt"
        assert (await w.play("two")).stop_reason == "completed"
        assert [said(m) for m in w.requests[-1].transcript] == ["one", "Done.", "two"]


async def test_steers_and_queued_input_are_shown_too(autojump_clock: MockClock) -> None:
    log: list[Prompted] = []
    bench = Bench()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, engine.CallStarted):
            turn.steer("left")

    first = [*call("read", {"name": "a", "seconds": 1}, id="1"), *done("calls")]
    async with world(first, DONE, DONE, tools=bench.tools(), hooks=Hooks(user_prompt=(note(log),))) as w:
        await w.play(react=steer)
        w.session.inputs.queue("right")
        await trio.sleep(1)
    assert [(p.text, p.message.origin) for p in log] == [("go", "user"), ("left", "steer"), ("right", "queue")]


async def test_blocked_steer_ends_turn_but_keeps_work(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def no_steers(prompted: Prompted) -> PromptDecision | None:
        return PromptDecision(verdict="block", reason="no") if prompted.message.origin == "steer" else None

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, engine.CallStarted):
            turn.steer("left")

    first = [*call("read", {"name": "a", "seconds": 1}, id="1"), *done("calls")]
    async with world(first, tools=bench.tools(), hooks=Hooks(user_prompt=(no_steers,))) as w:
        played = await w.play(react=steer)
        assert (played.stop_reason, played.statuses) == ("hook_stopped", ["completed"])
        assert "left" not in repr(w.session.state.transcript)
        await w.goes_on()


async def test_sub_agent_task_is_no_user_prompt(autojump_clock: MockClock) -> None:
    log: list[Prompted] = []

    @engine.tool(read_only=True)
    async def sub(args: Nothing, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent("do")).text

    first = [*call("sub", {}, id="1"), *done("calls")]
    async with world(first, DONE, DONE, tools=[sub], hooks=Hooks(user_prompt=(note(log),))) as w:
        await w.play()
    assert [p.text for p in log] == ["go"]


async def test_cancel_while_prompt_hook_hangs(autojump_clock: MockClock) -> None:
    async with world(DONE, hooks=Hooks(user_prompt=(hanging,))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            assert (await turn.wait()).stop_reason == "aborted"
            assert trio.current_time() == about(1)
        assert w.requests == []


@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["before the first round", "in the hook"])
async def test_prompt_that_no_hook_passed_is_never_sent(autojump_clock: MockClock, seconds: float) -> None:
    """Neither in the turn that was cancelled, nor in the next one."""
    log: list[Prompted] = []

    async def hangs_at_first(prompted: Prompted) -> PromptDecision:
        log.append(prompted)
        if len(log) == 1 and seconds:
            await trio.sleep_forever()
        return PromptDecision()

    async with world(DONE, DONE, hooks=Hooks(user_prompt=(hangs_at_first,))) as w:
        async with w.session.prompt("my password is 1234") as turn:
            if seconds:
                await trio.sleep(seconds)
            turn.cancel()
        (blocked,) = [event for event in w.session.events() if isinstance(event, PromptBlocked)]
        assert blocked.reason == "the turn ended before the hooks had seen it"
        await w.play("And now?")
        assert [said(m) for m in w.requests[0].transcript] == ["And now?"]


# -- a request -------------------------------------------------------------------------------------------------


async def test_request_hook_sees_each_final_request(autojump_clock: MockClock) -> None:
    log: list[Requesting] = []
    bench = Bench()
    script: list[Answer] = [ASKING, [Fail(Overloaded("busy", retryable=True))], DONE]
    async with world(*script, tools=bench.tools(), hooks=Hooks(request=(note(log),))) as w:
        played = await w.play()
        assert played.reasons == ["next_step", "provider_retry"]
        assert [(r.step, r.attempt) for r in log] == [(1, 1), (2, 1), (2, 2)]
        assert [r.request for r in log] == w.requests


async def test_request_hook_text_is_in_that_request(autojump_clock: MockClock) -> None:
    async with world(DONE, hooks=Hooks(request=(note([], RequestDecision(context="it is late")),))) as w:
        await w.play()
        assert [said(m) for m in w.requests[0].transcript] == ["go", "[the hook hook] it is late"]


async def test_a_request_hook_may_stop_the_turn(autojump_clock: MockClock) -> None:
    async def third_never(requesting: Requesting) -> RequestDecision | None:
        return RequestDecision(stop=True, reason="too much already") if requesting.step == 2 else None

    bench = Bench()
    async with world(ASKING, DONE, tools=bench.tools(), hooks=Hooks(request=(third_never,))) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail, len(w.requests)) == ("hook_stopped", "too much already", 1)
        assert played.statuses == ["completed"]
        await w.check(w.session, played.events)


async def test_tools_changed_by_a_request_hook_are_sent(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def loads(requesting: Requesting) -> None:
        w.session.use_tools(bench.tools())

    async with world(DONE, hooks=Hooks(request=(loads,))) as w:
        await w.play()
        assert [tool.name for tool in w.requests[0].tools] == ["read", "write"]


# -- the end of the model's work -------------------------------------------------------------------------------


async def test_c8_sub_agent_runs_its_own_stop_hooks(autojump_clock: MockClock) -> None:
    stop: list[Stopping] = []
    child: list[Stopping] = []

    @engine.tool(read_only=True)
    async def sub(args: Nothing, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent("do")).text

    async def once_more(stopping: Stopping) -> StopDecision | None:
        child.append(stopping)
        return StopDecision(verdict="block", reason="look again") if not stopping.already_blocked else None

    first = [*call("sub", {}, id="1"), *done("calls")]
    half: Answer = [*text("Half."), *done()]
    whole: Answer = [*text("Whole."), *done()]
    hooks = Hooks(stop=(note(stop),), sub_agent_stop=(once_more,))
    async with world(first, half, whole, DONE, tools=[sub], hooks=hooks) as w:
        played = await w.play()
    assert [(s.text, s.already_blocked) for s in child] == [("Half.", 0), ("Whole.", 1)]
    assert {s.session_id for s in child} != {w.session.id}
    assert [s.text for s in stop] == ["Done."]
    assert played.settlements[0].text == "Whole."


async def test_c8_sub_agent_can_be_stopped_by_hook(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def sub(args: Nothing, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent("do")).stop_reason

    first = [*call("sub", {}, id="1"), *done("calls")]
    hooks = Hooks(sub_agent_stop=(note([], StopDecision(verdict="prevent", reason="enough")),))
    async with world(first, DONE, DONE, tools=[sub], hooks=hooks) as w:
        played = await w.play()
    assert (played.settlements[0].text, played.stop_reason) == ("hook_stopped", "completed")


async def test_c8_completion_hooks_run_last(autojump_clock: MockClock) -> None:
    log: list[str] = []

    def named(name: str) -> Callable[[Stopping], Awaitable[StopDecision | None]]:
        async def hook(stopping: Stopping) -> StopDecision | None:
            log.append(f"{name} {stopping.text} {stopping.already_blocked}")
            is_first = name == "completed" and not stopping.already_blocked
            return StopDecision(verdict="block", reason="the tests are missing") if is_first else None

        return hook

    hooks = Hooks(stop=(named("stop"),), task_completed=(named("completed"),))
    async with world([*text("One."), *done()], [*text("Two."), *done()], hooks=hooks) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "Two.", ["stop_hook_blocked"])
        assert log == ["stop One. 0", "completed One. 0", "stop Two. 1", "completed Two. 1"]
        assert said(w.requests[1].transcript[-1]) == "the tests are missing"


async def test_c8_completion_that_is_always_blocked_is_bounded(autojump_clock: MockClock) -> None:
    hooks = Hooks(task_completed=(note([], StopDecision(verdict="block", reason="not yet")),))
    answers: list[Answer] = [[*text(f"Done {n}."), *done()] for n in range(9)]
    async with world(*answers, hooks=hooks) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail, len(w.requests)) == ("stop_hook_limit", "not yet", 4)


async def test_c8_completion_may_be_prevented(autojump_clock: MockClock) -> None:
    hooks = Hooks(task_completed=(note([], StopDecision(verdict="prevent", reason="not on Fridays")),))
    async with world(DONE, hooks=hooks) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("hook_stopped", "not on Fridays")


async def test_c8_completion_hooks_run_only_at_completion(autojump_clock: MockClock) -> None:
    log: list[Stopping] = []
    hooks = Hooks(task_completed=(note(log),))
    scripts: list[tuple[str, list[Answer], Settings]] = [
        ("auth_failed", [[Fail(AuthFailed("no key"))]], Settings()),
        ("refusal", [[*text("No."), *done("refusal")]], Settings()),
        ("step_limit", [[*text("So far."), *done()]], Settings(limits=Limits(steps=1))),
        ("incomplete", [[*text("Half")]], Settings()),
    ]
    for reason, script, settings in scripts:
        async with world(*script, hooks=hooks, settings=settings, tools=Bench().tools()) as w:
            assert (await w.play()).stop_reason == reason
    assert log == []


async def test_steer_during_completion_hooks_is_not_lost(autojump_clock: MockClock) -> None:
    async with world(DONE, [*text("More."), *done()], hooks=Hooks(task_completed=(note([], None, 5),))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.steer("one more thing")
            result = await turn.wait()
    assert (result.stop_reason, result.text, len(w.requests)) == ("completed", "More.", 2)


# -- compaction ------------------------------------------------------------------------------------------------


async def test_compaction_hooks_run_before_and_after(autojump_clock: MockClock) -> None:
    before: list[Compacting] = []
    after: list[Compacted] = []
    hooks = Hooks(before_compaction=(note(before),), after_compaction=(note(after, Context(context="use tabs")),))
    async with world(DONE, DONE, hooks=hooks, keeper=keeper()) as w:
        played = await w.play("do it")
        assert played.reasons == ["compacted"]
        replaced = played.one(HistoryReplaced)
        assert before == [Compacting(session_id=w.session.id, cwd="/opt", trigger="full", messages=1)]
        assert after == [Compacted(session_id=w.session.id, cwd="/opt", trigger="full", messages=replaced.messages)]
        assert [said(m) for m in w.requests[0].transcript] == ["do it", "[the hook hook] use tabs"]
        await w.play("again")
    assert (len(before), len(after)) == (1, 1), "where nothing is compacted, nobody is asked"


async def test_a_hook_may_block_a_compaction(autojump_clock: MockClock) -> None:
    busy = keeper()
    seen: list[Compacting] = []
    blocks = note(seen, CompactionDecision(verdict="block", reason="in the middle of a proof"))
    async with world(DONE, hooks=Hooks(before_compaction=(blocks,)), keeper=busy) as w:
        played = await w.play()
        notice = played.one(Notice)
    assert (busy.requests, played.stop_reason, played.all(HistoryReplaced)) == ([], "completed", [])
    assert (notice.code, notice.text) == (
        "compaction_blocked",
        "the hook hook blocked a compaction: in the middle of a proof",
    )


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_overflow_compaction_is_marked_and_can_be_blocked(autojump_clock: MockClock, is_blocked: bool) -> None:
    before: list[Compacting] = []
    after: list[Compacted] = []

    def last(view: ContextView) -> Sequence[Message]:
        return view.transcript[-1:]

    decision = CompactionDecision(verdict="block") if is_blocked else None
    hooks = Hooks(before_compaction=(note(before, decision),), after_compaction=(note(after),))
    script: list[Answer] = [[Fail(ContextOverflow("too long"))], [Fail(ContextOverflow("too long"))], DONE]
    # The first of the two is collapsed.
    async with world(*script, hooks=hooks, keeper=ScriptedKeeper(forced=[last, last])) as w:
        played = await w.play()
    assert [c.trigger for c in before] == ["overflow"]
    assert [c.trigger for c in after] == ([] if is_blocked else ["overflow"])
    assert played.stop_reason == ("prompt_too_long" if is_blocked else "completed")


# -- notifications ---------------------------------------------------------------------------------------------


async def notified_of(played: Played, log: list[Notified]) -> list[tuple[str, str]]:
    asked = played.all(PermissionAsked) + played.all(QuestionAsked) + played.all(RecoveryAsked)
    assert [n.request_id for n in log] == [e.request_id for e in asked]
    return [(n.kind, n.text) for n in log]


async def test_user_is_notified_of_a_permission_question(autojump_clock: MockClock) -> None:
    log: list[Notified] = []
    bench = Bench()

    async def reply(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.sleep(3)
            await turn.reply(event.request_id, engine.Once())

    first = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    hooks = Hooks(notification=(note(log, Remark(message="sent")), note(log, None, 60)))
    async with world(first, DONE, tools=bench.tools(), hooks=hooks, approver=Policy()) as w:
        played = await w.play(react=reply)
        assert trio.current_time() == about(3), "a slow notification holds up nobody"
        assert played.statuses == ["completed"]
        assert [n.kind for n in log] == ["permission", "permission"]
        assert log[0].text.startswith("write needs the permission 'write'")
        assert [(n.code, n.text) for n in played.all(Notice)] == [("hook_message", "the hook hook says: sent")]


async def test_user_is_notified_of_question_and_failed_model(autojump_clock: MockClock) -> None:
    log: list[Notified] = []

    @engine.tool(read_only=True)
    async def ask(args: Nothing, ctx: engine.ToolContext) -> str:
        outcome, answers = await ctx.ask_user("tea or coffee?")
        return f"{outcome} {answers}"

    async def reply(turn: Turn, event: Seen) -> None:
        if isinstance(event, QuestionAsked):
            await turn.answer(event.request_id, "tea")
        if isinstance(event, RecoveryAsked):
            await turn.recover(event.request_id, "wait")

    first = [*call("ask", {}, id="1"), *done("calls")]
    script: list[Answer] = [first, [Fail(Overloaded("busy", retryable=True))], DONE]
    settings = Settings(on_exhausted="ask", retry=RetryPolicy(attempts=0))
    async with world(*script, tools=[ask], hooks=Hooks(notification=(note(log),)), settings=settings) as w:
        played = await w.play(react=reply)
        assert played.stop_reason == "completed"
        assert await notified_of(played, log) == [("question", "tea or coffee?"), ("recovery", "busy")]


async def test_cancel_during_notification_withdraws_the_question(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    hooks = Hooks(notification=(hanging,))
    async with world(first, tools=bench.tools(), hooks=hooks, approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            assert (await turn.wait()).stop_reason == "aborted"
            assert trio.current_time() == about(1)
        await w.goes_on()
        with trio.move_on_after(1) as host:
            w.will_say(first)
            async with w.session.prompt("go"):
                await trio.sleep_forever()
        assert host.cancelled_caught


# -- sessions --------------------------------------------------------------------------------------------------


async def test_session_start_hooks_run_once(autojump_clock: MockClock) -> None:
    log: list[SessionStarting] = []
    hooks = Hooks(session_start=(note(log, Context(context="the branch is main")),))
    store = SlowStore()
    async with world(DONE, hooks=hooks, store=store) as w:
        assert [type(e) for e in w.session.events()] == [SessionCreated, NudgeAdded]
        await w.play("do it")
        assert [said(m) for m in w.requests[0].transcript] == ["[the hook hook] the branch is main", "do it"]
        assert await w.engine.open_session(w.session.id) is w.session
    model = ScriptedProvider([DONE])
    async with engine.open_engine(
        model=model,
        hooks=hooks,
        store=store,
        ports=Ports(clock=TrioClock(), ids=CountingIds()),
        permissions=PermissionOptions(approver=AllowAll()),
    ) as eng:
        session = await eng.open_session(w.session.id)
        assert await eng.open_session(w.session.id) is session
        await session.run("again")
    assert [(s.source, s.session_id, s.cwd, s.model) for s in log] == [
        ("new", w.session.id, "/opt", "scripted/model"),
        ("resumed", w.session.id, "/opt", "scripted/model"),
    ]
    assert len(model.requests[0].transcript) == 5


async def test_sub_agent_session_has_no_session_hooks(autojump_clock: MockClock) -> None:
    log: list[object] = []

    @engine.tool(read_only=True)
    async def sub(args: Nothing, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent("do")).text

    hooks = Hooks(session_start=(note(log),), idle=(note(log),), session_end=(note(log),))
    async with world([*call("sub", {}, id="1"), *done("calls")], DONE, DONE, tools=[sub], hooks=hooks) as w:
        await w.play()
        await trio.sleep(1)
    assert [type(subject) for subject in log] == [SessionStarting, Idling, SessionEnding]


async def test_cancel_during_a_hanging_start_hook(autojump_clock: MockClock) -> None:
    model = ScriptedProvider([DONE])
    async with engine.open_engine(model=model, hooks=Hooks(session_start=(hanging,))) as eng:
        with trio.move_on_after(1) as scope:
            await eng.create_session()
        assert scope.cancelled_caught
        assert trio.current_time() == about(1)


async def test_session_end_hooks_run_at_engine_close(autojump_clock: MockClock) -> None:
    log: list[SessionEnding] = []
    hooks = Hooks(session_end=(note(log, Remark(message="goodbye"), 1),))
    async with world(DONE, hooks=hooks) as w:
        other = await w.engine.create_session(cwd="/srv")
        await w.play()
        before = trio.current_time()
    assert trio.current_time() - before == about(1), "all at once"
    assert {(s.session_id, s.cwd) for s in log} == {(w.session.id, "/opt"), (other.id, "/srv")}
    last = w.session.events()[-1]
    assert isinstance(last, Notice)
    assert last.text == "the hook hook says: goodbye"


@pytest.mark.parametrize("how", ["left", "raised", "cancelled"])
async def test_session_end_hooks_are_bounded(autojump_clock: MockClock, how: str) -> None:
    log: list[SessionEnding] = []

    async def slow(ending: SessionEnding) -> None:
        try:
            await trio.sleep(60)
        finally:
            log.append(ending)

    started = trio.current_time()
    with trio.CancelScope() as scope:
        try:
            async with world(DONE, hooks=Hooks(session_end=(slow,)), settings=Settings(durable_within=2.0)):
                if how == "raised":
                    raise KeyError("mine")
                if how == "cancelled":
                    scope.cancel()
                    await trio.sleep(1)
        except KeyError:
            assert how == "raised"
    # Of what the engine's own setting gives, nine tenths.
    assert (len(log), trio.current_time() - started) == (1, about(1.8))


async def test_idle_hooks_run_after_each_turn(autojump_clock: MockClock) -> None:
    log: list[Idling] = []
    async with world(DONE, DONE, DONE, hooks=Hooks(idle=(note(log, Remark(message="bored")),))) as w:
        first = await w.play()
        await trio.sleep(1)
        assert log == [Idling(session_id=w.session.id, cwd="/opt", result=first.result)]
        w.session.inputs.queue("two")
        w.session.inputs.queue("three")
        await trio.sleep(1)
        assert len(log) == 2, "while input waits the session is not idle"
        notices = [e for e in w.session.events() if isinstance(e, Notice)]
        assert [n.text for n in notices] == ["the hook hook says: bored"] * 2
        assert all(n.turn_id is None for n in notices)


async def test_idle_hooks_run_after_a_cancel(autojump_clock: MockClock) -> None:
    log: list[Idling] = []
    async with world([Pause(60), *DONE], hooks=Hooks(idle=(note(log),))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        await trio.sleep(1)
    assert [i.result.stop_reason for i in log] == ["aborted"]


async def test_idle_hooks_end_with_activity_or_close(
    autojump_clock: MockClock,
) -> None:
    ended: list[float] = []

    async def slow(idling: Idling) -> None:
        try:
            await trio.sleep(20)
        finally:
            ended.append(trio.current_time())

    async with world(DONE, DONE, hooks=Hooks(idle=(slow,))) as w:
        await w.play()
        await trio.sleep(5)
        assert ended == []
        await w.play()
        assert ended == [about(5)]
        await trio.sleep(5)
    assert ended == [about(5), about(10)]
    assert trio.current_time() == about(10)


async def test_leaving_the_block_skips_idle_hooks(autojump_clock: MockClock) -> None:
    async with world(DONE, hooks=Hooks(idle=(hanging,))) as w:
        played = await w.play()
        assert trio.current_time() == 0
        assert isinstance(played.events[-1], TurnEnded)


async def test_retry_order_is_unchanged_by_hooks(autojump_clock: MockClock) -> None:
    hooks = Hooks(request=(note([], RequestDecision(context="again")),))
    script: list[Answer] = [[Fail(Overloaded("busy", retryable=True))], DONE]
    async with world(*script, hooks=hooks) as w:
        played = await w.play()
    assert played.order(NudgeAdded, LoopContinued, RetryScheduled) == [
        "NudgeAdded",
        "LoopContinued",
        "RetryScheduled",
        "NudgeAdded",
    ]

"""Permissions in the real loop: a question, its one answer, and what becomes of the call, the turn and other questions."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

import engine
from engine.core.errors import RequestNotFound
from engine.core.events import CallSettled, CallStarted, PermissionAnswered, PermissionAsked, TurnEnded
from engine.core.permission_types import Judgement, PermissionQuery
from engine.core.settings import Settings
from engine.journal.state import Busy, Waiting
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.answer_types import Answer as Reply
from engine.session.turn import Turn
from engine.testing.script import Answer, Pause, ScriptItem, call, done, text
from engine.tools.call_values import Need
from engine.tools.tool import Tool
from tests.support.world import Played, React, Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]


@attrs.frozen(kw_only=True)
class Path:
    """Write a file."""

    path: str = "a"
    seconds: float = 0.0


def needs(args: Path) -> Need:
    return Need(permission="write", patterns=(args.path,), detail=f"write {args.path}")


def tools(log: list[str]) -> tuple[Tool, ...]:
    async def run(args: Path, ctx: engine.ToolContext) -> str:
        log.append(args.path)
        await trio.sleep(args.seconds)
        return f"wrote {args.path}"

    @engine.tool(read_only=True)
    async def curious(args: Path, ctx: engine.ToolContext) -> str:
        """Ask in the middle of the work."""
        answer, feedback = await ctx.ask(needs(args))
        return f"{answer}: {feedback}"

    write = engine.tool(name="write", need=needs)(run)
    together = engine.tool(name="together", need=needs, safe=True)(run)
    return write, together, curious, engine.tool(name="look", read_only=True)(run)


def calls(tool: str, *paths: str) -> list[ScriptItem]:
    return [item for path in paths for item in call(tool, {"path": path}, id=f"{tool}{path}")]


def step(tool: str, *paths: str) -> Answer:
    return [*calls(tool, *paths), *done("calls")]


def replies(*answers: Reply) -> React:
    left = list(answers)

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await turn.reply(event.request_id, left.pop(0))

    return react


def answers(played: Played) -> list[str]:
    return [e.answer for e in played.all(PermissionAnswered)]


# -- one question ---------------------------------------------------------------------------------


async def test_once_allows_one_call(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Once(), engine.Once()))
    assert log == ["a", "a"]
    assert answers(played) == ["once", "once"]
    order = played.order(PermissionAsked, PermissionAnswered, CallStarted, CallSettled)
    assert order == ["PermissionAsked", "PermissionAnswered", "CallStarted", "CallSettled"] * 2


async def test_question_describes_the_call(autojump_clock: MockClock) -> None:
    async with world(step("write", "a/b"), DONE, tools=tools([]), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Once()))
    asked = played.one(PermissionAsked)
    assert (asked.tool, asked.permission, asked.patterns, asked.detail) == ("write", "write", ("a/b",), "write a/b")
    assert asked.call_id == played.one(CallStarted).call_id
    assert asked.seq is not None


async def test_read_only_call_is_not_asked_about(autojump_clock: MockClock) -> None:
    async with world(step("look", "a"), DONE, tools=tools([]), approver=Policy()) as w:
        played = await w.play()
    assert (played.all(PermissionAsked), played.statuses) == ([], ["completed"])


async def test_always_lasts_for_the_session(autojump_clock: MockClock) -> None:
    log: list[str] = []
    script = [step("write", "a"), step("write", "a"), step("write", "b"), DONE]
    async with world(*script, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Always(), engine.Once()))
        assert [e.patterns for e in played.all(PermissionAsked)] == [("a",), ("b",)]
        w.will_say(step("write", "a"), DONE)
        assert (await w.play()).all(PermissionAsked) == []
    assert log == ["a", "a", "b", "a"]


async def test_always_is_limited_to_its_session(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        await w.play(react=replies(engine.Always()))
        other = await w.engine.create_session()
        w.will_say(step("write", "a"), DONE)
        played = await w.play(session=other, react=replies(engine.Once()))
    assert len(played.all(PermissionAsked)) == 1


async def test_always_answers_covered_open_questions(autojump_clock: MockClock) -> None:
    log: list[str] = []
    left: list[str] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            left.append(event.request_id)
            if len(left) == 3:
                await turn.reply(left[0], engine.Always())
                with pytest.raises(RequestNotFound):
                    await turn.reply(left[2], engine.Once())
                assert w.session.state.status == Waiting((left[1],))  # type: ignore[arg-type]
                await turn.reply(left[1], engine.Once())

    three = [*calls("together", "a", "b"), *call("together", {"path": "a"}, id="again"), *done("calls")]
    async with world(three, DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=react)
    assert answers(played) == ["always", "once", "once"]
    assert sorted(log) == ["a", "a", "b"]


@attrs.define
class Fickle(Policy):
    """An approver that fails when it is asked about an open question once more."""

    fails: bool = attrs.field(default=False, init=False)

    def judge(self, query: PermissionQuery) -> Judgement:
        if self.fails:
            raise OSError("the rules can't be read")
        return Policy.judge(self, query)


async def test_approver_failing_for_other_question_leaves_it_open(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: list[str] = []
    approver = Fickle()

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event.request_id)
            if len(asked) == 2:
                approver.fails = True
                await turn.reply(asked[0], engine.Always())
                approver.fails = False
                await turn.reply(asked[1], engine.Once())

    async with world(step("together", "a", "b"), DONE, tools=tools(log), approver=approver) as w:
        played = await w.play(react=react)
    assert (sorted(log), sorted(answers(played))) == (["a", "b"], ["always", "once"])
    assert played.stop_reason == "completed"


async def test_rejection_ends_turn_and_call_never_runs(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Reject()))
        assert log == []
        assert (played.stop_reason, played.result.detail) == ("permission_rejected", "write was rejected")
        assert [(s.status, s.text) for s in played.settlements] == [("denied", "Rejected by the user.")]
        assert (answers(played), len(w.requests)) == (["reject"], 1)
        await w.goes_on()


async def test_rejection_cancels_running_and_queued_siblings(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = [
        *call("look", {"path": "long", "seconds": 60}, id="1"),
        *calls("together", "b"),
        *calls("write", "c"),
        *done("calls"),
    ]
    async with world(first, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Reject()))
        assert log == ["long"]
        assert played.statuses == ["cancelled", "denied", "not_executed"]
        assert played.stop_reason == "permission_rejected"
        assert autojump_clock.current_time() == 0
        await w.goes_on()


async def test_rejection_with_feedback_continues_the_turn(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=replies(engine.Reject(feedback="use b instead")))
    assert (log, played.stop_reason) == ([], "completed")
    assert said(w.requests[1].transcript[-1]) == "Rejected by the user: use b instead"
    assert [(e.answer, e.feedback) for e in played.all(PermissionAnswered)] == [("reject", "use b instead")]


async def test_one_rejection_resolves_three_questions(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    asked: list[str] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event.request_id)
            if len(asked) == 3:
                await turn.reply(asked[1], engine.Reject())

    async with world(step("together", "a", "b", "c"), tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=react)
        assert log == []
        by_request = {e.request_id: e.answer for e in played.all(PermissionAnswered)}
        assert len(played.all(PermissionAnswered)) == 3
        assert [by_request[r] for r in asked] == ["reject"] * 3  # type: ignore[index]
        assert played.statuses == ["denied"] * 3
        assert played.order(TurnEnded) == ["TurnEnded"]
        assert played.stop_reason == "permission_rejected"
        with pytest.raises(RequestNotFound):
            await w.session.reply(asked[0], engine.Once())
        await w.goes_on()


async def test_feedback_rejects_other_questions_too(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: list[str] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event.request_id)
            if len(asked) == 3:
                await turn.reply(asked[1], engine.Reject(feedback="use pnpm"))

    async with world(step("together", "a", "b", "c"), DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=react)
        by_request = {e.request_id: (e.answer, e.feedback) for e in played.all(PermissionAnswered)}
        along = ("reject", "another call of this step was rejected: use pnpm")
        assert [by_request[r] for r in asked] == [along, ("reject", "use pnpm"), along]  # type: ignore[index]
        assert (log, played.stop_reason, played.statuses) == ([], "completed", ["denied"] * 3)
        assert said(w.requests[1].transcript[-1]).count("use pnpm") == 3


async def test_a_second_reply_is_a_typed_error(autojump_clock: MockClock) -> None:
    async def twice(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await turn.reply(event.request_id, engine.Once())
            for answer in (engine.Once(), engine.Always(), engine.Reject()):
                with pytest.raises(RequestNotFound, match=event.request_id):
                    await turn.reply(event.request_id, answer)

    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=twice)
        assert (answers(played), log, played.stop_reason) == (["once"], ["a"], "completed")
        await w.goes_on()


async def test_any_watcher_may_answer_through_the_session(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        watcher = w.session.subscribe()
        turn = w.engine.start_turn(w.session, "go")
        async for event in watcher:
            if isinstance(event, PermissionAsked):
                await w.session.reply(event.request_id, engine.Once())
                break
        assert (await turn.wait()).stop_reason == "completed"
    assert log == ["a"]


# -- nobody answers --------------------------------------------------------------------------------------


async def test_an_unanswered_question_waits(autojump_clock: MockClock) -> None:
    statuses: list[object] = []
    async with world(step("write", "a"), DONE, tools=tools([]), approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(3_600)
            (asked,) = [e for e in w.session.events() if isinstance(e, PermissionAsked)]
            statuses.append(w.session.state.status)
            await turn.reply(asked.request_id, engine.Once())
            statuses.append(w.session.state.status)
            assert (await turn.wait()).stop_reason == "completed"
        assert statuses == [Waiting((asked.request_id,)), Busy(1)]


async def test_expired_question_is_a_denial(autojump_clock: MockClock) -> None:
    log: list[str] = []
    settings = Settings(question_timeout=60)
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy(), settings=settings) as w:
        played = await w.play()
        assert (log, answers(played), played.statuses) == ([], ["expired"], ["denied"])
        assert "no one answered" in played.settlements[0].text
        assert (played.stop_reason, autojump_clock.current_time()) == ("completed", about(60))
        with pytest.raises(RequestNotFound):
            await w.session.reply(played.one(PermissionAsked).request_id, engine.Once())
        await w.goes_on()


async def test_an_answer_in_time_is_no_expiry(autojump_clock: MockClock) -> None:
    async def late(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.sleep(59.9)
            await turn.reply(event.request_id, engine.Once())

    settings = Settings(question_timeout=60)
    async with world(step("write", "a"), DONE, tools=tools([]), approver=Policy(), settings=settings) as w:
        played = await w.play(react=late)
    assert answers(played) == ["once"]


async def test_cancelled_turn_withdraws_its_question(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), tools=tools(log), approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(5)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(5)
        assert (result.stop_reason, result.during) == ("aborted", "waiting")
        events = w.session.events()
        (asked,) = [e for e in events if isinstance(e, PermissionAsked)]
        (answered,) = [e for e in events if isinstance(e, PermissionAnswered)]
        assert (answered.request_id, answered.answer) == (asked.request_id, "withdrawn")
        (settled,) = [e.settlement for e in events if isinstance(e, CallSettled)]
        assert (settled.reason, log) == ("not_executed", [])
        with pytest.raises(RequestNotFound):
            await w.session.reply(asked.request_id, engine.Once())
        await w.goes_on()


@pytest.mark.parametrize("how", ["settings", "run"])
async def test_headless_question_is_a_denial(autojump_clock: MockClock, how: str) -> None:
    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Policy()) as w:
        if how == "run":
            result = await w.session.run("go")
        else:
            result = (await w.play(settings=Settings(headless="deny"))).result
        assert (log, result.stop_reason) == ([], "completed")
        assert "no one is available to give it" in said(w.requests[1].transcript[-1])
        assert not [e for e in w.session.events() if isinstance(e, PermissionAsked)]


# -- rules -------------------------------------------------------------------------------------------------


class Deny(AllowAll):
    def judge(self, query: PermissionQuery) -> Judgement:
        return Judgement(verdict="deny", source="the house rules")


async def test_denied_by_rule_is_never_asked(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(step("write", "a"), DONE, tools=tools(log), approver=Deny()) as w:
        played = await w.play()
    assert (log, played.all(PermissionAsked), played.statuses) == ([], [], ["denied"])
    assert "the house rules" in played.settlements[0].text
    assert played.stop_reason == "completed"


async def test_always_never_overrules_a_rule_that_denies(autojump_clock: MockClock) -> None:
    """Deny > grant: an open question that a rule denies by now is not released by a grant, and the next call is denied."""

    class Later(Policy):
        def judge(self, query: PermissionQuery) -> Judgement:
            if "secret" in query.patterns:
                return Judgement(verdict="deny", source="the house rules")
            return super().judge(query)

    log: list[str] = []
    async with world(step("write", "a"), step("write", "secret"), DONE, tools=tools(log), approver=Later()) as w:
        played = await w.play(react=replies(engine.Always()))
    assert (log, played.statuses) == (["a"], ["completed", "denied"])


async def test_the_session_waits_for_all_its_open_questions(autojump_clock: MockClock) -> None:
    states: list[object] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.testing.wait_all_tasks_blocked()
            states.append(w.session.state.status)
            await turn.reply(event.request_id, engine.Once())

    async with world(step("together", "a", "b"), DONE, tools=tools([]), approver=Policy()) as w:
        played = await w.play(react=react)
    asked = [e.request_id for e in played.all(PermissionAsked)]
    assert states == [Waiting((asked[0], asked[1])), Waiting((asked[1],))]


# -- questions of a tool -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (engine.Once(), "once: "),
        (engine.Always(), "always: "),
        (engine.Reject(feedback="no"), "reject: no"),
        (engine.Reject(), "reject: "),
    ],
)
async def test_tool_may_ask_while_running(autojump_clock: MockClock, answer: Reply, expected: str) -> None:
    async with world(step("curious", "a"), DONE, tools=tools([]), approver=Policy()) as w:
        played = await w.play(react=replies(answer))
    assert [s.text for s in played.settlements] == [expected]
    assert played.stop_reason == "completed"
    order = played.order(CallStarted, PermissionAsked, PermissionAnswered, CallSettled)
    assert order == ["CallStarted", "PermissionAsked", "PermissionAnswered", "CallSettled"]


async def test_tool_question_is_withdrawn_with_its_wait(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def hasty(args: Path, ctx: engine.ToolContext) -> str:
        with trio.move_on_after(5):
            await ctx.ask(needs(args))
        return "went on without"

    async with world([*call("hasty", {}, id="1"), *done("calls")], DONE, tools=[hasty], approver=Policy()) as w:
        played = await w.play()
    assert (answers(played), [s.text for s in played.settlements]) == (["withdrawn"], ["went on without"])


async def test_tool_question_without_user_is_rejected(autojump_clock: MockClock) -> None:
    async with world(step("curious", "a"), DONE, tools=tools([]), approver=Policy()) as w:
        await w.session.run("go")
    assert said(w.requests[1].transcript[-1]) == "reject: no one is available to answer"


async def test_question_blocks_neither_stream_nor_calls(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = [*calls("look", "a"), *calls("together", "b"), Pause(5), *calls("look", "c"), Pause(5), *done("calls")]

    async def late(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            assert trio.current_time() == 0
            await trio.sleep(8)
            await turn.reply(event.request_id, engine.Once())

    async with world(first, DONE, tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=late)
    assert (log, autojump_clock.current_time()) == (["a", "c", "b"], about(10))
    assert played.statuses == ["completed"] * 3


async def test_reply_at_the_cancel_changes_nothing(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def both(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            turn.cancel()
            try:
                await turn.reply(event.request_id, engine.Once())
            except RequestNotFound:
                return

    async with world(step("write", "a"), tools=tools(log), approver=Policy()) as w:
        played = await w.play(react=both)
        assert (played.stop_reason, log) == ("aborted", [])
        assert played.statuses == ["not_executed"]
        assert len(answers(played)) == 1
        await w.goes_on()


async def test_shielded_tools_question_is_withdrawn_before_end(
    autojump_clock: MockClock,
) -> None:
    late: list[str] = []

    @engine.tool(read_only=True)
    async def stubborn(args: Path, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            late.append((await ctx.ask(needs(args)))[0])
            # Nobody is there any more to be asked.
            late.append((await ctx.ask(needs(args)))[0])
        return "late"

    async with world([*call("stubborn", {}, id="1"), *done("calls")], tools=[stubborn], approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1.25)
        assert result.stop_reason == "aborted"
        events = w.session.events()
        (asked,) = [e for e in events if isinstance(e, PermissionAsked)]
        (answered,) = [e for e in events if isinstance(e, PermissionAnswered)]
        assert (answered.request_id, answered.answer) == (asked.request_id, "withdrawn")
        assert late == ["withdrawn", "withdrawn"]
        with pytest.raises(RequestNotFound):
            await w.session.reply(asked.request_id, engine.Once())
        await w.goes_on()

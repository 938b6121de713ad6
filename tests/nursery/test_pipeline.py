"""C5 and C11 in the real loop: hooks around a call, rules that no hook overrules, and hooks that demand a stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.errors import ToolError
from engine.events import CallSettled, CallStarted, Notice, PermissionAsked
from engine.hooks import Hooks, StopDecision, ToolDecision, ToolHook, ToolUse
from engine.messages import ResultsMessage
from engine.ports import Judgement, PermissionQuery
from engine.settings import Settings
from engine.testing.script import Answer, call, done, text
from engine.tools.spec import Need, Tool
from engine.turn import Turn
from tests.support.world import Played, Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]
Rule = Literal["allow", "ask", "deny"]


@attrs.frozen(kw_only=True)
class Path:
    """Touch a file."""

    path: str = "a"
    seconds: float = 0.0


def needs(args: Path) -> Need:
    return Need(permission="touch", patterns=(args.path,))


def touch(log: list[str]) -> Tool:
    @engine.tool(read_only=True, need=needs)
    async def touch(args: Path, ctx: engine.ToolContext) -> str:
        await trio.sleep(args.seconds)
        log.append(args.path)
        if args.path == "missing":
            raise ToolError("no such file")
        return f"touched {args.path}"

    return touch


@attrs.define(eq=False)
class Rules:
    """Rules by path; what is not named is allowed."""

    by_path: dict[str, Rule] = attrs.field(factory=dict[str, Rule])
    asked: list[str] = attrs.field(factory=list[str])

    def judge(self, query: PermissionQuery) -> Judgement:
        self.asked.extend(query.patterns)
        verdicts = [self.by_path.get(pattern, "allow") for pattern in query.patterns]
        verdict: Rule = "deny" if "deny" in verdicts else "ask" if "ask" in verdicts else "allow"
        return Judgement(verdict=verdict, source=f"the rule of the test for {query.patterns}")

    def grant(self, asked: PermissionAsked) -> None:
        self.asked.append("granted")


def deciding(decision: ToolDecision | None, log: list[ToolUse] | None = None) -> ToolHook:
    async def hook(use: ToolUse) -> ToolDecision | None:
        await trio.lowlevel.checkpoint()
        if log is not None:
            log.append(use)
        return decision

    return hook


async def allow(turn: Turn, event: Seen) -> None:
    if isinstance(event, PermissionAsked):
        await turn.reply(event.request_id, engine.Once())


def one_call(path: str = "a") -> Answer:
    return [*call("touch", {"path": path}, id="1"), *done("calls")]


# -- the order, and who overrules whom --------------------------------------------------------------------


async def test_c5_the_stages_of_a_call_come_in_their_order(autojump_clock: MockClock) -> None:
    log: list[str] = []

    def noting(what: str) -> ToolHook:
        async def hook(use: ToolUse) -> None:
            log.append(f"{what} {use.settlement.text if use.settlement else '-'}")

        return hook

    class NotingRules(Rules):
        def judge(self, query: PermissionQuery) -> Judgement:
            log.append("rules")
            return super().judge(query)

    hooks = Hooks(
        before_tool=(noting("before 1"), noting("before 2")), after_tool=(noting("after 1"), noting("after 2"))
    )
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=NotingRules()) as w:
        await w.play()
    assert log == ["before 1 -", "before 2 -", "rules", "a", "after 1 touched a", "after 2 touched a"]


async def test_c5_what_does_not_validate_reaches_no_hook(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(None, uses),), after_tool=(deciding(None, uses),))
    first = [*call("touch", {"path": 5}, id="1"), *done("calls")]
    async with world(first, DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
    assert (uses, log, played.statuses) == ([], [], ["error"])


@pytest.mark.parametrize(
    ("hook", "rule", "expected"),
    [
        ("none", "allow", "runs"),
        ("none", "ask", "asks"),
        ("none", "deny", "denied by rule"),
        ("allow", "allow", "runs"),
        ("allow", "ask", "asks"),
        ("allow", "deny", "denied by rule"),
        ("ask", "allow", "asks"),
        ("ask", "ask", "asks"),
        ("ask", "deny", "denied by rule"),
        ("deny", "allow", "denied by hook"),
        ("deny", "ask", "denied by hook"),
        ("deny", "deny", "denied by hook"),
    ],
)
async def test_c5_a_hooks_allow_bypasses_no_rule_and_its_deny_is_final(
    autojump_clock: MockClock, hook: Literal["none", "allow", "ask", "deny"], rule: Rule, expected: str
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict=hook, reason="house rule")),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"a": rule})) as w:
        played = await w.play(react=allow)
    (settled,) = played.settlements
    asked = len(played.all(PermissionAsked))
    match expected:
        case "runs":
            assert (log, asked, settled.status) == (["a"], 0, "completed")
        case "asks":
            assert (log, asked, settled.status) == (["a"], 1, "completed")
        case "denied by rule":
            assert (log, asked, settled.status) == ([], 0, "denied")
            assert "the rule of the test" in settled.text
        case _:
            assert (log, asked, settled.status) == ([], 0, "denied")
            assert "house rule" in settled.text
    assert played.stop_reason == "completed", "a denial lets the model go on"


async def test_c5_of_several_hooks_the_strictest_counts_and_a_deny_asks_no_further(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    uses: list[ToolUse] = []
    hooks = Hooks(
        before_tool=(
            deciding(ToolDecision(verdict="allow")),
            deciding(ToolDecision(verdict="ask"), uses),
            deciding(ToolDecision(verdict="allow"), uses),
        )
    )
    async with world(one_call(), one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules()) as w:
        played = await w.play(react=allow)
    assert (len(uses), len(played.all(PermissionAsked))) == (4, 2)

    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="deny")), deciding(None, uses)))
    uses.clear()
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
    assert (uses, played.statuses) == ([], ["denied"])


# -- hooks that change things ----------------------------------------------------------------------------------


async def test_c5_a_hook_may_change_the_arguments_and_later_hooks_and_rules_see_the_new_ones(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    uses: list[ToolUse] = []
    rules = Rules()
    hooks = Hooks(before_tool=(deciding(ToolDecision(arguments='{"path": "b"}')), deciding(None, uses)))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=rules) as w:
        played = await w.play()
    assert (log, rules.asked) == (["b"], ["b"])
    assert [use.arguments for use in uses] == ['{"path": "b"}']
    assert played.statuses == ["completed"]


async def test_c5_changed_arguments_that_violate_the_schema_are_an_error_and_not_executed(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="allow", arguments='{"path": 5}')),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
    assert (log, played.statuses) == ([], ["error"])


async def test_c5_changed_arguments_that_hit_a_deny_are_denied(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="allow", arguments='{"path": "secret"}')),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"secret": "deny"})) as w:
        played = await w.play()
    assert (log, played.statuses) == ([], ["denied"])


async def test_c5_a_hook_after_the_tool_may_replace_what_the_model_reads(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []
    hooks = Hooks(after_tool=(deciding(ToolDecision(text="[redacted]"), uses), deciding(None, uses)))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks) as w:
        await w.play()
    assert said(w.requests[1].transcript[-1]) == "[redacted]"
    assert [use.settlement.text for use in uses if use.settlement] == ["touched a", "[redacted]"]
    assert {(use.tool, use.session_id) for use in uses} == {("touch", w.session.id)}


async def test_c5_a_hook_after_the_tool_sees_errors_and_timeouts_too(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []

    @engine.tool(read_only=True, timeout=1)
    async def slow(args: Path, ctx: engine.ToolContext) -> str:
        await trio.sleep(10)
        return "never"

    first = [*call("touch", {"path": "missing"}, id="1"), *call("slow", {}, id="2"), *done("calls")]
    hooks = Hooks(after_tool=(deciding(None, uses),))
    async with world(first, DONE, tools=[touch([]), slow], hooks=hooks) as w:
        await w.play()
    assert [use.settlement.reason or use.settlement.status for use in uses if use.settlement] == ["error", "timeout"]


# -- hooks that fail -------------------------------------------------------------------------------------------------


class Rude(BaseException):
    """No ordinary exception."""


async def raising(use: object) -> None:
    raise RuntimeError("the hook broke")


async def rude(use: object) -> None:
    raise Rude


async def grouped(use: object) -> None:
    raise BaseExceptionGroup("both", [Rude(), ValueError("x")])


async def hanging(use: object) -> None:
    await trio.sleep_forever()


def not_async(use: object) -> ToolDecision:
    return ToolDecision(verdict="allow")


async def wrong_arity() -> None:
    raise AssertionError("never called")


def returning(value: object) -> Callable[[object], Awaitable[object]]:
    async def hook(use: object) -> object:
        await trio.lowlevel.checkpoint()
        return value

    return hook


FAILING: dict[str, object] = {
    "raises": raising,
    "raises-base": rude,
    "raises-group": grouped,
    "hangs": hanging,
    "not-async": not_async,
    "wrong-arity": wrong_arity,
    "not-callable": "a string",
    "returns-int": returning(5),
    "returns-str": returning("deny"),
    "returns-another-decision": returning(StopDecision(verdict="block")),
    "returns-class": returning(ToolDecision),
    "unknown-verdict": returning(ToolDecision(verdict="maybe")),  # type: ignore[arg-type]
    "unhashable-verdict": returning(ToolDecision(verdict=["deny"])),  # type: ignore[arg-type]
    "arguments-no-str": returning(ToolDecision(arguments={"path": "b"})),  # type: ignore[arg-type]
    "text-no-str": returning(ToolDecision(text=5)),  # type: ignore[arg-type]
    "reason-no-str": returning(ToolDecision(verdict="allow", reason=5)),  # type: ignore[arg-type]
    "stop-no-bool": returning(ToolDecision(stop="no")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", FAILING)
async def test_a_before_hook_that_fails_denies_the_call_and_the_turn_goes_on(
    autojump_clock: MockClock, kind: str
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(FAILING[kind],))  # type: ignore[arg-type]  # the point of it
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
        assert log == []
        assert played.statuses == ["denied"]
        assert "hook" in played.settlements[0].text
        assert [n.code for n in played.all(Notice)] == ["hook_failed"]
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        assert autojump_clock.current_time() == (about(30) if kind == "hangs" else 0)
        await w.goes_on()


@pytest.mark.parametrize("kind", FAILING)
async def test_an_after_hook_that_fails_lets_the_result_be(autojump_clock: MockClock, kind: str) -> None:
    log: list[str] = []
    hooks = Hooks(after_tool=(FAILING[kind],))  # type: ignore[arg-type]  # the point of it
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
        assert log == ["a"]
        assert [(s.status, s.text) for s in played.settlements] == [("completed", "touched a")]
        assert [n.code for n in played.all(Notice)] == ["hook_failed"]
        assert played.stop_reason == "completed"
        await w.goes_on()


async def test_the_settings_say_how_long_a_hook_may_take(autojump_clock: MockClock) -> None:
    hooks = Hooks(before_tool=(hanging,))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, settings=Settings(hook_timeout=2)) as w:
        played = await w.play()
    assert autojump_clock.current_time() == about(2)
    assert "within 2 s" in played.one(Notice).text


async def test_a_cancel_while_a_hook_hangs_settles_the_call_at_once(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(hanging,))
    async with world(one_call(), tools=[touch(log)], hooks=hooks) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert trio.current_time() == about(1)
        (settled,) = [e.settlement for e in w.session.journal.events() if isinstance(e, CallSettled)]
        assert (settled.reason, log) == ("not_executed", [])


async def test_a_cancel_while_an_after_hook_hangs_keeps_that_the_tool_has_run(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(after_tool=(hanging,))
    async with world(one_call(), tools=[touch(log)], hooks=hooks) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        (settled,) = [e.settlement for e in w.session.journal.events() if isinstance(e, CallSettled)]
        assert (settled.status, log) == ("completed", ["a"])
        assert "withheld" in settled.text


# -- C11 -------------------------------------------------------------------------------------------------------------------


STOP = ToolDecision(stop=True, reason="the release is frozen")


def check_stopped(played: Played, requests: Sequence[object], detail: str = "the release is frozen") -> None:
    assert (played.stop_reason, played.result.detail) == ("hook_stopped", detail)
    assert len(requests) == 1


async def test_c11_a_stop_of_a_hook_after_one_of_three_calls_lets_all_three_settle(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def second_only(use: ToolUse) -> ToolDecision | None:
        return STOP if '"b"' in use.arguments else None

    first = [
        *call("touch", {"path": "a", "seconds": 5}, id="1"),
        *call("touch", {"path": "b", "seconds": 1}, id="2"),
        *call("touch", {"path": "c", "seconds": 9}, id="3"),
        *done("calls"),
    ]
    async with world(first, tools=[touch(log)], hooks=Hooks(after_tool=(second_only,))) as w:
        played = await w.play()
        assert log == ["b", "a", "c"]
        assert played.statuses == ["completed"] * 3
        check_stopped(played, w.requests)
        results = w.session.state.transcript[-1]
        assert isinstance(results, ResultsMessage)
        assert len(results.results) == 3
        assert "frozen" not in repr(w.session.state.transcript), "the reason is for the client, not for the model"
        await w.goes_on()


async def test_c11_a_tool_that_failed_and_a_stop_still_stop(autojump_clock: MockClock) -> None:
    async with world(one_call("missing"), tools=[touch([])], hooks=Hooks(after_tool=(deciding(STOP),))) as w:
        played = await w.play()
        assert played.statuses == ["error"]
        check_stopped(played, w.requests)
        await w.goes_on()


async def test_c11_a_hook_before_the_tool_may_demand_a_stop_and_the_call_settles_first(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    async with world(one_call(), tools=[touch(log)], hooks=Hooks(before_tool=(deciding(STOP),))) as w:
        played = await w.play()
        assert (log, played.statuses) == (["a"], ["completed"])
        check_stopped(played, w.requests)
        await w.goes_on()


@pytest.mark.parametrize(
    "decision",
    [
        attrs.evolve(STOP, verdict="deny"),
        attrs.evolve(STOP, arguments='{"path": 5}'),
        attrs.evolve(STOP, arguments='{"path": "secret"}'),
    ],
    ids=["denied", "invalid", "denied-by-rule"],
)
async def test_c11_a_stop_counts_though_the_call_itself_is_refused(
    autojump_clock: MockClock, decision: ToolDecision
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(decision),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"secret": "deny"})) as w:
        played = await w.play()
        assert log == []
        assert played.statuses[0] in {"denied", "error"}
        check_stopped(played, w.requests)
        await w.goes_on()


async def test_c11_a_stop_without_a_reason_stops_too(autojump_clock: MockClock) -> None:
    for hooks in (
        Hooks(after_tool=(deciding(ToolDecision(stop=True)),)),
        Hooks(before_tool=(deciding(ToolDecision(stop=True)),)),
        Hooks(before_tool=(deciding(ToolDecision(stop=True, verdict="deny")),)),
    ):
        async with world(one_call(), DONE, tools=[touch([])], hooks=hooks) as w:
            played = await w.play()
            assert (played.stop_reason, len(w.requests)) == ("hook_stopped", 1)
            assert played.result.detail


async def test_c11_a_tool_itself_may_demand_the_stop(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def finish(args: Path, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text="finished", stop="the task is handed in")

    async with world([*call("finish", {}, id="1"), *done("calls")], tools=[finish]) as w:
        played = await w.play()
        check_stopped(played, w.requests, "the task is handed in")
        assert played.statuses == ["completed"]
        await w.goes_on()


async def test_c11_it_differs_from_a_denial_and_from_an_abort(autojump_clock: MockClock) -> None:
    denying = Hooks(before_tool=(deciding(ToolDecision(verdict="deny", reason="no")),))
    async with world(one_call(), DONE, tools=[touch([])], hooks=denying) as w:
        played = await w.play()
        assert (played.stop_reason, len(w.requests)) == ("completed", 2)

    running = [
        *call("touch", {"path": "a"}, id="1"),
        *call("touch", {"path": "b", "seconds": 60}, id="2"),
        *done("calls"),
    ]
    async with world(running, tools=[touch([])], hooks=Hooks(after_tool=(deciding(STOP),))) as w:
        played = await w.play()
        assert (played.statuses, autojump_clock.current_time()) == (["completed"] * 2, about(60))


async def test_c11_a_queued_call_still_runs_before_the_stop(autojump_clock: MockClock) -> None:
    """Current calls settle: they are not cancelled, whatever the hook's wish for the turn."""
    log: list[str] = []

    @engine.tool
    async def alone(args: Path, ctx: engine.ToolContext) -> str:
        await trio.sleep(1)
        log.append(args.path)
        return "ok"

    first = [item for name in "ab" for item in call("alone", {"path": name}, id=name)]
    async with world([*first, *done("calls")], tools=[alone], hooks=Hooks(after_tool=(deciding(STOP),))) as w:
        played = await w.play()
        assert (log, len(played.all(CallStarted))) == (["a", "b"], 2)
        check_stopped(played, w.requests)

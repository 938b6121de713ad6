"""C5 and C11 in the real loop: hooks around a call, rules that no hook overrules, and hooks that demand a stop."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, ToolError
from engine.core.events import (
    CallChanged,
    CallJudged,
    CallQueued,
    CallSettled,
    CallStarted,
    Notice,
    NudgeAdded,
    PermissionAnswered,
    PermissionAsked,
    Verdict,
)
from engine.core.hooks import (
    Hooks,
    PermissionDecision,
    PermissionHook,
    PermissionRequested,
    StopDecision,
    ToolDecision,
    ToolHook,
    ToolUse,
)
from engine.core.messages import ResultsMessage, TextPart, UserMessage
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.core.settings import Settings
from engine.journal.fold import fold
from engine.session.answer_types import Answer as Answer_
from engine.session.turn import Turn
from engine.testing.script import Answer, call, done, text
from engine.tools.call_values import Need
from engine.tools.tool import Tool
from tests.support.world import Played, Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]
Rule = Literal["allow", "ask", "deny", "none"]


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
    """Rules by path; what is not named is allowed, and where there is "none", the default asks."""

    by_path: dict[str, Rule] = attrs.field(factory=dict[str, Rule])
    asked: list[str] = attrs.field(factory=list[str])

    def judge(self, query: PermissionQuery) -> Judgement:
        self.asked.extend(query.patterns)
        rules = [self.by_path.get(pattern, "allow") for pattern in query.patterns]
        verdict: Verdict = "deny" if "deny" in rules else "ask" if {"ask", "none"} & {*rules} else "allow"
        if verdict == "ask" and "ask" not in rules:
            return Judgement(verdict="ask", source="no rule of the test", is_default=True)
        return Judgement(verdict=verdict, source=f"the rule of the test for {query.patterns}")

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
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


async def test_c5_order_of_the_stages(autojump_clock: MockClock) -> None:
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


async def test_c5_order_of_the_events(autojump_clock: MockClock) -> None:
    async def change(use: ToolUse) -> ToolDecision:
        return ToolDecision(arguments='{"path": "b"}', verdict="ask")

    async def hide(use: ToolUse) -> ToolDecision:
        return ToolDecision(text="[hidden]", context="it was hidden")

    hooks = Hooks(before_tool=(change,), after_tool=(hide,))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, approver=Rules()) as w:
        played = await w.play(react=allow)
    kinds = (
        CallQueued,
        CallJudged,
        CallChanged,
        PermissionAsked,
        PermissionAnswered,
        CallStarted,
        CallSettled,
        NudgeAdded,
    )
    assert played.order(*kinds) == [
        "CallQueued",
        "CallJudged",  # the hook asks
        "CallChanged",  # and has changed the arguments
        "CallJudged",  # the rule allows
        "CallJudged",  # the hook's wish stands
        "PermissionAsked",
        "PermissionAnswered",
        "CallJudged",  # the user allows
        "CallStarted",
        "CallChanged",  # the hook has changed the result
        "CallSettled",
        "NudgeAdded",  # what the hook says to the model
    ]
    changes = [(e.kind, e.text, e.source) for e in played.all(CallChanged)]
    assert changes == [("arguments", '{"path": "b"}', "the hook change"), ("result", "touched b", "the hook hide")]


async def test_c5_alias_is_recorded_as_the_tools_name(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []

    @engine.tool(read_only=True, aliases=("feel",))
    async def touch(args: Path, ctx: engine.ToolContext) -> str:
        return f"touched {args.path}"

    first = [*call("feel", {"path": "a"}, id="1"), *call("Touch", {"path": "b"}, id="2"), *done("calls")]
    async with world(first, DONE, tools=[touch], hooks=Hooks(before_tool=(deciding(None, uses),))) as w:
        played = await w.play()
        assert [use.tool for use in uses] == ["touch", "touch"]
        assert [e.tool for e in played.all(CallQueued)] == ["touch", "touch"]
        results = w.session.state.transcript[2]
        assert isinstance(results, ResultsMessage)
        assert [(r.tool, r.settlement.text) for r in results.results] == [
            ("touch", "touched a"),
            ("touch", "touched b"),
        ]


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
        ("none", "none", "asks"),
        ("none", "ask", "asks"),
        ("none", "deny", "denied by rule"),
        ("allow", "allow", "runs"),
        ("allow", "none", "runs"),
        ("allow", "ask", "asks"),
        ("allow", "deny", "denied by rule"),
        ("ask", "allow", "asks"),
        ("ask", "none", "asks"),
        ("ask", "ask", "asks"),
        ("ask", "deny", "denied by rule"),
        ("deny", "allow", "denied by hook"),
        ("deny", "none", "denied by hook"),
        ("deny", "ask", "denied by hook"),
        ("deny", "deny", "denied by hook"),
    ],
)
@pytest.mark.parametrize("headless", [False, True])
async def test_c5_hook_allow_bypasses_no_rule(
    autojump_clock: MockClock,
    hook: Literal["none", "allow", "ask", "deny"],
    rule: Rule,
    expected: str,
    headless: bool,
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict=hook, reason="house rule")),))
    settings = Settings(headless="deny" if headless else "wait")
    approver = Rules({"a": rule})
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=approver, settings=settings) as w:
        played = await w.play(react=allow)
    (settled,) = played.settlements
    asked = len(played.all(PermissionAsked))
    last = played.all(CallJudged)[-1]
    match expected:
        case "runs":
            assert (log, asked, settled.status, last.verdict) == (["a"], 0, "completed", "allow")
        case "asks" if headless:
            assert (log, asked, settled.status) == ([], 0, "denied")
            assert "no one is available" in settled.text
            assert (last.verdict, last.source) == ("deny", "no one is available to ask")
        case "asks":
            assert (log, asked, settled.status) == (["a"], 1, "completed")
            assert (last.verdict, last.source) == ("allow", "the user, once")
        case "denied by rule":
            assert (log, asked, settled.status) == ([], 0, "denied")
            assert "the rule of the test" in settled.text
            assert (last.verdict, last.source) == ("deny", "the rule of the test for ('a',)")
        case _:
            assert (log, asked, settled.status) == ([], 0, "denied")
            assert "house rule" in settled.text
            assert (last.verdict, last.source) == ("deny", "the hook hook")
    assert played.stop_reason == "completed", "a denial lets the model go on"


@pytest.mark.parametrize(
    ("hook", "rule", "said"),
    [
        ("none", "allow", [("allow", "the rule of the test for ('a',)")]),
        ("allow", "none", [("allow", "the hook hook"), ("ask", "no rule of the test"), ("allow", "the hook hook")]),
        (
            "ask",
            "allow",
            [
                ("ask", "the hook hook"),
                ("allow", "the rule of the test for ('a',)"),
                ("ask", "the hook hook"),
                ("allow", "the user, once"),
            ],
        ),
        (
            "allow",
            "ask",
            [
                ("allow", "the hook hook"),
                ("ask", "the rule of the test for ('a',)"),
                ("allow", "the user, once"),
            ],
        ),
        ("deny", "allow", [("deny", "the hook hook")]),
    ],
)
async def test_c5_decisions_are_recorded_and_last_counts(
    autojump_clock: MockClock,
    hook: Literal["none", "allow", "ask", "deny"],
    rule: Rule,
    said: list[tuple[str, str]],
) -> None:
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict=hook)),))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, approver=Rules({"a": rule})) as w:
        played = await w.play(react=allow)
    assert [(e.verdict, e.source) for e in played.all(CallJudged)] == said


@pytest.mark.parametrize(
    ("answer", "verdict", "source"),
    [
        (engine.Once(), "allow", "the user, once"),
        (engine.Always(), "allow", "the user, for always"),
        (engine.Reject(), "deny", "the user"),
        (engine.Reject("not that"), "deny", "the user"),
        (None, "deny", "no one answered in time"),
    ],
    ids=repr,
)
async def test_c5_the_answer_is_recorded_with_its_source(
    autojump_clock: MockClock, answer: Answer_ | None, verdict: str, source: str
) -> None:
    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked) and answer is not None:
            await turn.reply(event.request_id, answer)

    settings = Settings(question_timeout=5.0)
    async with world(one_call(), DONE, tools=[touch([])], approver=Rules({"a": "ask"}), settings=settings) as w:
        played = await w.play(react=react)
    last = played.all(CallJudged)[-1]
    assert (last.verdict, last.source) == (verdict, source)


async def test_c5_undeterminable_need_is_denied(autojump_clock: MockClock) -> None:
    def unsure(args: Path) -> Need:
        raise RuntimeError("who knows")

    @engine.tool(need=unsure)
    async def odd(args: Path, ctx: engine.ToolContext) -> str:
        raise AssertionError("never entered")

    async with world([*call("odd", {}, id="1"), *done("calls")], DONE, tools=[odd]) as w:
        played = await w.play()
    assert [(e.verdict, e.source) for e in played.all(CallJudged)] == [
        ("deny", "the tool, which failed to say what it needs")
    ]
    assert played.statuses == ["denied"]


async def test_c5_strictest_hook_counts(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    uses: list[ToolUse] = []
    hooks = Hooks(
        before_tool=(
            deciding(ToolDecision(verdict="allow")),
            deciding(ToolDecision(verdict="ask", reason="it is Friday"), uses),
            deciding(ToolDecision(verdict="allow"), uses),
        )
    )
    async with world(one_call(), one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules()) as w:
        played = await w.play(react=allow)
    assert (len(uses), len(played.all(PermissionAsked))) == (4, 2)
    # Whoever is asked learns why.
    assert [n.text for n in played.all(Notice)] == ["the hook hook asks for confirmation: it is Friday"] * 2

    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="deny")), deciding(None, uses)))
    uses.clear()
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
    assert played.statuses == ["denied"]
    assert [use.arguments for use in uses] == ['{"path": "a"}'], "a later hook may keep a log of what was tried"


# -- hooks that change things ----------------------------------------------------------------------------------


async def test_c5_changed_arguments_reach_later_hooks(
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


async def test_c5_invalid_changed_arguments_do_not_run(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="allow", arguments='{"path": 5}')),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
    assert (log, played.statuses) == ([], ["error"])


async def test_c5_changed_arguments_may_be_denied(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(deciding(ToolDecision(verdict="allow", arguments='{"path": "secret"}')),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"secret": "deny"})) as w:
        played = await w.play()
    assert (log, played.statuses) == ([], ["denied"])


async def test_c5_after_hook_may_replace_the_result(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []
    hooks = Hooks(after_tool=(deciding(ToolDecision(text="[redacted]"), uses), deciding(None, uses)))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks) as w:
        await w.play()
    assert said(w.requests[1].transcript[-1]) == "[redacted]"
    assert [use.settlement.text for use in uses if use.settlement] == ["touched a", "[redacted]"]
    assert {(use.tool, use.session_id) for use in uses} == {("touch", w.session.id)}


async def test_c5_replaced_content_stays_in_the_log(autojump_clock: MockClock) -> None:
    first = deciding(ToolDecision(text="[one]"))
    second = deciding(ToolDecision(text="[two]"))
    same = deciding(ToolDecision(text="[two]"))
    async with world(one_call(), DONE, tools=[touch([])], hooks=Hooks(after_tool=(first, second, same))) as w:
        played = await w.play()
        assert [(e.kind, e.text) for e in played.all(CallChanged)] == [("result", "touched a"), ("result", "[one]")]
        assert played.settlements[0].text == "[two]"
        assert "touched a" not in repr(w.session.state.transcript)


async def test_c5_hooks_see_the_final_arguments(autojump_clock: MockClock) -> None:
    uses: list[ToolUse] = []
    seen = deciding(None, uses)
    mended = [*call("touch", {"path": "a", "seconds": "1"}, id="1"), *done("calls")]
    async with world(mended, DONE, tools=[touch([])], hooks=Hooks(before_tool=(seen,), after_tool=(seen,))) as w:
        await w.play()
    assert [json.loads(use.arguments) for use in uses] == [{"path": "a", "seconds": 1.0}] * 2

    uses.clear()
    change = deciding(ToolDecision(arguments='{"path": "b"}'))
    async with world(
        one_call(), DONE, tools=[touch([])], hooks=Hooks(before_tool=(change, seen), after_tool=(seen,))
    ) as w:
        await w.play()
    assert [use.arguments for use in uses] == ['{"path": "b"}'] * 2
    assert {use.cwd for use in uses} == {"/opt"}


# -- hooks that speak to the model -------------------------------------------------------------------------------


async def test_c5_hook_messages_follow_results_in_order(autojump_clock: MockClock) -> None:
    async def before(use: ToolUse) -> ToolDecision:
        return ToolDecision(context=f"before {json.loads(use.arguments)['path']}")

    async def after(use: ToolUse) -> ToolDecision:
        return ToolDecision(context=f"after {json.loads(use.arguments)['path']}")

    first = [
        *call("touch", {"path": "a", "seconds": 5}, id="1"),
        *call("touch", {"path": "missing", "seconds": 1}, id="2"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=[touch([])], hooks=Hooks(before_tool=(before,), after_tool=(after,))) as w:
        played = await w.play()
        told = w.requests[1].transcript[-1]
        assert isinstance(told, UserMessage)
        assert told.origin == "engine"
        assert [part.text for part in told.parts if isinstance(part, TextPart)] == [
            "[the hook before, about touch] before a",
            "[the hook after, about touch] after a",
            "[the hook before, about touch] before missing",
            "[the hook after, about touch] after missing",
        ]
        assert isinstance(w.requests[1].transcript[-2], ResultsMessage)
        assert played.one(NudgeAdded).message == told
        stored = await w.store.load(w.session.id)
        assert told in fold(stored).transcript


async def test_hook_message_of_denied_call_is_kept(autojump_clock: MockClock) -> None:
    decision = ToolDecision(verdict="deny", reason="no", context="the freeze ends on Friday", stop=True)
    async with world(one_call(), tools=[touch([])], hooks=Hooks(before_tool=(deciding(decision),))) as w:
        played = await w.play()
        assert played.stop_reason == "hook_stopped"
        assert said(w.session.state.transcript[-1]).endswith("the freeze ends on Friday")
        await w.goes_on()
        assert said(w.requests[-1].transcript[-2]).endswith("the freeze ends on Friday")


async def test_hook_message_survives_a_later_cancel(autojump_clock: MockClock) -> None:
    first = [
        *call("touch", {"path": "a"}, id="1"),
        *call("touch", {"path": "b", "seconds": 60}, id="2"),
        *done("calls"),
    ]
    hooks = Hooks(after_tool=(deciding(ToolDecision(context="a is warm")),))
    async with world(first, tools=[touch([])], hooks=hooks) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert said(w.session.state.transcript[-1]) == "[the hook hook, about touch] a is warm"
        await w.goes_on()


async def test_hook_message_to_the_user_is_a_notice(autojump_clock: MockClock) -> None:
    hooks = Hooks(before_tool=(deciding(ToolDecision(message="mind the gap")),))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks) as w:
        notice = (await w.play()).one(Notice)
    assert (notice.level, notice.code, notice.text) == ("info", "hook_message", "the hook hook says: mind the gap")


# -- hooks for what failed --------------------------------------------------------------------------------------


async def test_c5_failure_hooks_run_last_on_failures(autojump_clock: MockClock) -> None:
    log: list[str] = []

    def noting(what: str) -> ToolHook:
        async def hook(use: ToolUse) -> ToolDecision:
            assert use.settlement is not None
            log.append(f"{what}: {use.settlement.text}")
            return ToolDecision(text=f"{use.settlement.text}!", context=f"{what} saw it")

        return hook

    @engine.tool(read_only=True, timeout=1)
    async def slow(args: Path, ctx: engine.ToolContext) -> str:
        await trio.sleep(10)
        return "never"

    @engine.tool(read_only=True)
    async def fails(args: Path, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text="exit code 1", failed=True)

    tools = [touch([]), slow, fails]
    for name, arguments, has_failed in (
        ("touch", {"path": "a"}, False),
        ("touch", {"path": "missing"}, True),
        ("slow", {}, True),
        ("fails", {}, True),
    ):
        log.clear()
        hooks = Hooks(after_tool=(noting("after"),), tool_failed=(noting("failed"),))
        async with world([*call(name, arguments, id="1"), *done("calls")], DONE, tools=tools, hooks=hooks) as w:
            played = await w.play()
        assert [line.partition(":")[0] for line in log] == (["after", "failed"] if has_failed else ["after"])
        assert played.settlements[0].text.endswith("!!" if has_failed else "!")


async def test_cancel_in_failure_hook_withholds_text(autojump_clock: MockClock) -> None:
    async with world(one_call("missing"), tools=[touch([])], hooks=Hooks(tool_failed=(hanging,))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, "withheld" in settled.text) == ("error", True)


# -- hooks on permissions -------------------------------------------------------------------------------------------


def permitting(decision: PermissionDecision | None, log: list[PermissionRequested] | None = None) -> PermissionHook:
    async def permit(wanted: PermissionRequested) -> PermissionDecision | None:
        await trio.lowlevel.checkpoint()
        if log is not None:
            log.append(wanted)
        return decision

    return permit


@pytest.mark.parametrize(
    ("before", "rule", "permit", "expected"),
    [
        ("none", "none", "allow", "runs"),
        ("none", "none", "none", "asks"),
        ("none", "none", "deny", "denied"),
        ("none", "ask", "allow", "asks"),
        ("none", "ask", "deny", "denied"),
        ("ask", "allow", "allow", "asks"),
        ("ask", "none", "allow", "asks"),
        ("ask", "allow", "deny", "denied"),
        ("allow", "ask", "allow", "asks"),
        ("none", "allow", "deny", "not asked"),
        ("allow", "none", "deny", "not asked"),
        ("none", "deny", "allow", "denied by rule"),
    ],
)
@pytest.mark.parametrize("headless", [False, True])
async def test_c5_permission_hook_answers_only_for_users(
    autojump_clock: MockClock,
    before: Literal["none", "allow", "ask"],
    rule: Rule,
    permit: Literal["none", "allow", "deny"],
    expected: str,
    headless: bool,
) -> None:
    log: list[str] = []
    wanted: list[PermissionRequested] = []
    hooks = Hooks(
        before_tool=(deciding(ToolDecision(verdict=before)),),
        permission_request=(permitting(PermissionDecision(verdict=permit, reason="house rule"), wanted),),
    )
    settings = Settings(headless="deny" if headless else "wait")
    approver = Rules({"a": rule})
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=approver, settings=settings) as w:
        played = await w.play(react=allow)
    (settled,) = played.settlements
    asked = len(played.all(PermissionAsked))
    match expected:
        case "runs" | "not asked":
            assert (log, asked, settled.status) == (["a"], 0, "completed")
        case "asks" if headless:
            assert (log, asked, settled.status) == ([], 0, "denied")
        case "asks":
            assert (log, asked, settled.status) == (["a"], 1, "completed")
        case "denied":
            assert (log, asked, settled.text) == ([], 0, "Denied by a hook: house rule")
        case _:
            assert (log, asked) == ([], 0)
            assert "the rule of the test" in settled.text
    is_reached = expected not in {"not asked", "denied by rule"}
    assert [w.is_ruled for w in wanted] == ([before == "ask" or rule == "ask"] if is_reached else [])


async def test_c5_permission_hook_gets_the_full_question(autojump_clock: MockClock) -> None:
    wanted: list[PermissionRequested] = []
    hooks = Hooks(permission_request=(permitting(None, wanted),))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, approver=Rules({"a": "ask"})) as w:
        played = await w.play(react=allow)
    asked = played.one(PermissionAsked)
    assert wanted == [
        PermissionRequested(
            session_id=w.session.id,
            cwd="/opt",
            call_id=asked.call_id,
            tool="touch",
            arguments='{"path": "a"}',
            permission="touch",
            patterns=("a",),
            offers=("a",),
            is_ruled=True,
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "rule", "status", "touched", "asked"),
    [
        ('{"path": "b"}', "allow", "completed", ["b"], 0),
        ('{"path": "b"}', "none", "completed", ["b"], 0),
        ('{"path": "b"}', "ask", "completed", ["b"], 1),
        ('{"path": "b"}', "deny", "denied", [], 0),
        ('{"path": 5}', "allow", "error", [], 0),
        ("nonsense", "allow", "error", [], 0),
    ],
)
async def test_c5_permission_hook_changes_are_judged_again(
    autojump_clock: MockClock, arguments: str, rule: Rule, status: str, touched: list[str], asked: int
) -> None:
    log: list[str] = []
    decision = PermissionDecision(verdict="allow", arguments=arguments)
    hooks = Hooks(permission_request=(permitting(decision),))
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"a": "none", "b": rule})) as w:
        played = await w.play(react=allow)
    assert (log, played.statuses, len(played.all(PermissionAsked))) == (touched, [status], asked)


async def test_permission_hook_deny_is_final(
    autojump_clock: MockClock,
) -> None:
    wanted: list[PermissionRequested] = []
    change = permitting(PermissionDecision(verdict="allow", arguments='{"path": "b"}'))
    deny = permitting(PermissionDecision(verdict="deny"), wanted)
    never = permitting(None, wanted)
    hooks = Hooks(permission_request=(change, deny, never))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, approver=Rules({"a": "none"})) as w:
        played = await w.play()
    assert ([w.arguments for w in wanted], played.statuses) == (['{"path": "b"}'] * 2, ["denied"])


@pytest.mark.parametrize("kind", ["raises", "hangs", "returns-int", "returns-another-decision", "not-callable"])
async def test_a_permission_hook_that_fails_denies_the_call(autojump_clock: MockClock, kind: str) -> None:
    log: list[str] = []
    hooks = Hooks(permission_request=(FAILING[kind],))  # type: ignore[arg-type]  # the point of it
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks, approver=Rules({"a": "ask"})) as w:
        played = await w.play(react=allow)
        assert (log, played.statuses, played.all(PermissionAsked)) == ([], ["denied"], [])
        assert [n.code for n in played.all(Notice)] == ["hook_failed"]
        assert played.all(CallJudged)[-1].source.endswith(", which failed")
        await w.goes_on()


async def test_c11_a_permission_hook_may_demand_a_stop(autojump_clock: MockClock) -> None:
    decision = PermissionDecision(verdict="deny", reason="not here", stop=True, stop_reason="the release is frozen")
    async with world(
        one_call(),
        tools=[touch([])],
        hooks=Hooks(permission_request=(permitting(decision),)),
        approver=Rules({"a": "ask"}),
    ) as w:
        played = await w.play()
        assert played.settlements[0].text == "Denied by a hook: not here"
        check_stopped(played, w.requests)
        assert "frozen" not in repr(w.session.state.transcript)


async def test_tools_own_question_skips_permission_hooks(autojump_clock: MockClock) -> None:
    """A tool that needs somebody still asks."""

    @engine.tool(read_only=True)
    async def wants(args: Path, ctx: engine.ToolContext) -> str:
        answer, _ = await ctx.ask(Need(permission="more", patterns=("x",)))
        return answer

    hooks = Hooks(permission_request=(permitting(PermissionDecision(verdict="allow")),))
    async with world(
        [*call("wants", {}, id="1"), *done("calls")], DONE, tools=[wants], hooks=hooks, approver=Rules({"x": "ask"})
    ) as w:
        played = await w.play(react=allow)
    assert (len(played.all(PermissionAsked)), played.settlements[0].text) == (1, "once")


# -- names and deadlines ----------------------------------------------------------------------------------------------


@attrs.frozen
class Guard:
    """A hook with a name and a deadline of its own."""

    name: str = "the guard of the house"
    timeout: float = 2.0
    seconds: float = 0.0

    async def __call__(self, use: ToolUse) -> ToolDecision:
        await trio.sleep(self.seconds)
        return ToolDecision(verdict="deny")


async def test_hook_declares_name_and_deadline(autojump_clock: MockClock) -> None:
    async with world(one_call(), DONE, tools=[touch([])], hooks=Hooks(before_tool=(Guard(),))) as w:
        assert (await w.play()).one(CallJudged).source == "the hook the guard of the house"
    for seconds, settings in ((3.0, Settings()), (1.0, Settings(hook_timeout=0.5))):
        before = autojump_clock.current_time()
        hooks = Hooks(before_tool=(Guard(seconds=seconds),))
        async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, settings=settings) as w:
            played = await w.play()
        assert autojump_clock.current_time() - before == about(min(seconds, 2.0))
        assert bool(played.all(Notice)) == (seconds > 2.0)


def test_hooks_stand_in_tuples() -> None:
    for wrong in (hanging, [hanging], "hook", None):
        with pytest.raises(ConfigError, match="before_tool"):
            Hooks(before_tool=wrong)  # type: ignore[arg-type]  # the point of it


def test_hooks_of_two_sources_run_in_order() -> None:
    one, two = Hooks(before_tool=(hanging,), stop=(raising,)), Hooks(before_tool=(raising,), idle=(hanging,))
    assert one.then(two) == Hooks(before_tool=(hanging, raising), stop=(raising,), idle=(hanging,))


async def test_c5_after_hook_sees_errors_and_timeouts(autojump_clock: MockClock) -> None:
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
async def test_failing_before_hook_denies_the_call(autojump_clock: MockClock, kind: str) -> None:
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
async def test_failing_after_hook_keeps_the_result(autojump_clock: MockClock, kind: str) -> None:
    log: list[str] = []
    hooks = Hooks(after_tool=(FAILING[kind],))  # type: ignore[arg-type]  # the point of it
    async with world(one_call(), DONE, tools=[touch(log)], hooks=hooks) as w:
        played = await w.play()
        assert log == ["a"]
        assert [(s.status, s.text) for s in played.settlements] == [("completed", "touched a")]
        assert [n.code for n in played.all(Notice)] == ["hook_failed"]
        assert played.stop_reason == "completed"
        await w.goes_on()


async def test_settings_limit_hook_time(autojump_clock: MockClock) -> None:
    hooks = Hooks(before_tool=(hanging,))
    async with world(one_call(), DONE, tools=[touch([])], hooks=hooks, settings=Settings(hook_timeout=2)) as w:
        played = await w.play()
    assert autojump_clock.current_time() == about(2)
    assert "within 2 s" in played.one(Notice).text


async def test_cancel_while_a_hook_hangs(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(before_tool=(hanging,))
    async with world(one_call(), tools=[touch(log)], hooks=hooks) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert trio.current_time() == about(1)
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.reason, log) == ("not_executed", [])


async def test_cancel_while_an_after_hook_hangs(autojump_clock: MockClock) -> None:
    log: list[str] = []
    hooks = Hooks(after_tool=(hanging,))
    async with world(one_call(), tools=[touch(log)], hooks=hooks) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, log) == ("completed", ["a"])
        assert "withheld" in settled.text


async def test_cancelled_hooks_group_keeps_the_cancel(autojump_clock: MockClock) -> None:
    async def spiteful(use: ToolUse) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("both", [cancelled, ValueError("not so fast")]) from None  # noqa: ASYNC104  # the point of it

    log: list[str] = []
    async with world(one_call(), tools=[touch(log)], hooks=Hooks(before_tool=(spiteful,))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            assert (await turn.wait()).stop_reason == "aborted"
        assert log == []
        with trio.move_on_after(1) as host:
            w.will_say(one_call())
            await w.session.run("go")
        assert host.cancelled_caught


# -- C11 -------------------------------------------------------------------------------------------------------------------


STOP = ToolDecision(stop=True, reason="the release is frozen")


def check_stopped(played: Played, requests: Sequence[object], detail: str = "the release is frozen") -> None:
    assert (played.stop_reason, played.result.detail) == ("hook_stopped", detail)
    assert len(requests) == 1


async def test_c11_hook_stop_lets_all_calls_settle(autojump_clock: MockClock) -> None:
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


async def test_c11_failed_tool_and_stop_still_stop(autojump_clock: MockClock) -> None:
    async with world(one_call("missing"), tools=[touch([])], hooks=Hooks(after_tool=(deciding(STOP),))) as w:
        played = await w.play()
        assert played.statuses == ["error"]
        check_stopped(played, w.requests)
        await w.goes_on()


async def test_c11_stop_before_a_tool_settles_it(
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
async def test_c11_stop_counts_for_a_denied_call(autojump_clock: MockClock, decision: ToolDecision) -> None:
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


async def test_c11_stop_differs_from_denial_and_abort(autojump_clock: MockClock) -> None:
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


async def test_c11_queued_call_runs_before_the_stop(autojump_clock: MockClock) -> None:
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

"""C12: every stop reason of the closed set is reached by some script, and each leaves a session that goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import AuthFailed, ContentFiltered, ContextOverflow, Overloaded, RateLimited
from engine.core.events import STOP_REASONS, PermissionAsked, StopReason, TurnEnded
from engine.core.hooks import Hooks, StopDecision, Stopping
from engine.core.llm_types import ModelInfo
from engine.core.messages import Message, Usage
from engine.core.permission_types import Approver
from engine.core.protocols import ContextView
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.journal.fold import fold
from engine.journal.state import Idle
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.turn import Turn
from engine.testing.fakes import ScriptedKeeper
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedAnswer
from tests.support.bench import Bench
from tests.support.world import Seen, about, world

DONE: Answer = [*text("Done."), *done()]


def whole(view: ContextView) -> Sequence[Message]:
    return view.transcript[:]


def reading(name: str, usage: Usage | None = None, seconds: float = 0) -> Answer:
    return [*call("read", {"name": name, "seconds": seconds}, id="1"), *done("calls", usage=usage)]


def spoken(output: int, told: str) -> Answer:
    return [*text(told), *done(usage=Usage(output=output))]


async def prevent(stopping: Stopping) -> StopDecision:
    return StopDecision(verdict="prevent", reason="frozen")


async def block(stopping: Stopping) -> StopDecision:
    return StopDecision(verdict="block", reason="not yet")


class BrokenKeeper(ScriptedKeeper):
    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        raise RuntimeError("a bug")


async def nothing(turn: Turn, event: Seen) -> None:
    """Just watch."""


async def reject(turn: Turn, event: Seen) -> None:
    if isinstance(event, PermissionAsked):
        await turn.reply(event.request_id, engine.Reject())


async def cancel(turn: Turn, event: Seen) -> None:
    if type(event).__name__ == "TextDelta":
        turn.cancel()


@attrs.frozen(kw_only=True)
class Case:
    """A script that ends for one reason; `detail` is part of what a person is told."""

    script: list[ScriptedAnswer]
    detail: str = ""
    settings: Settings = Settings()
    hooks: Hooks = Hooks()
    keeper: Callable[[], ScriptedKeeper] = ScriptedKeeper
    approver: Callable[[], Approver] = AllowAll
    react: Callable[[Turn, Seen], object] = nothing
    info: ModelInfo = ModelInfo(name="scripted/model")


CASES: dict[StopReason, Case] = {
    "completed": Case(script=[reading("a"), DONE]),
    "aborted": Case(script=[[*text("Half"), Pause(60), *done()]], react=cancel, detail="cancelled by the user"),
    "step_limit": Case(script=[reading("a"), DONE], settings=Settings(limits=Limits(steps=2)), detail="limit"),
    "token_budget": Case(
        script=[reading("a", Usage(output=5_000)), DONE],
        settings=Settings(limits=Limits(tokens=5_000)),
        detail="5000 of 5000 tokens",
    ),
    "diminishing": Case(
        script=[spoken(n, f"Answer {n}.") for n in (5, 6, 7, 8)],
        settings=Settings(token_target=10_000),
        detail="continuations",
    ),
    "cost_limit": Case(
        script=[reading("a", Usage(output=1)), DONE],
        settings=Settings(limits=Limits(cost=0.5)),
        info=ModelInfo(name="scripted/dear", price_output=1_000_000),
        detail="1.0000 of 0.5000",
    ),
    "deadline": Case(
        script=[reading("a", seconds=60), DONE], settings=Settings(limits=Limits(seconds=5)), detail="5 s have passed"
    ),
    "hook_stopped": Case(script=[DONE], hooks=Hooks(stop=(prevent,)), detail="frozen"),
    "stop_hook_limit": Case(script=[spoken(0, f"{n}") for n in range(4)], hooks=Hooks(stop=(block,)), detail="not yet"),
    "blocking_limit": Case(script=[DONE], keeper=lambda: ScriptedKeeper(blocked=True), detail="window"),
    "prompt_too_long": Case(script=[[Fail(ContextOverflow("too long"))]], detail="too long"),
    "compaction_ineffective": Case(
        script=[DONE], keeper=lambda: ScriptedKeeper(compacts=[whole] * 9), detail="as full after compacting"
    ),
    "output_limit": Case(
        script=[[*text("cut"), *done("length")]],
        settings=Settings(output_cap=64_000, output_recoveries=0),
        detail="cut off",
    ),
    "incomplete": Case(script=[text("Half")], detail="without a finish reason"),
    "refusal": Case(script=[[*text("No."), *done("refusal", raw="policy 7")]], detail="policy 7"),
    "content_filter": Case(script=[[Fail(ContentFiltered("filtered"))]], detail="filtered"),
    "rate_limited": Case(
        script=[[Fail(RateLimited("slow down", retryable=True, retry_after=900))]], detail="slow down"
    ),
    "auth_failed": Case(script=[[Fail(AuthFailed("no key"))]], detail="no key"),
    "provider_error": Case(
        script=[[Fail(Overloaded("busy", retryable=True))]],
        settings=Settings(retry=RetryPolicy(attempts=0)),
        detail="busy",
    ),
    "doom_loop": Case(script=[reading("a")] * 9, settings=Settings(headless="deny"), detail="same call"),
    "permission_rejected": Case(
        script=[[*call("write", {}, id="1"), *done("calls")]],
        approver=Policy,
        react=reject,
        detail="write was rejected",
    ),
    "internal_error": Case(script=[DONE], keeper=BrokenKeeper, detail="a bug"),
}


def test_c12_every_stop_reason_has_a_script() -> None:
    assert set(CASES) == set(STOP_REASONS)


@pytest.mark.parametrize("reason", STOP_REASONS)
async def test_c12_each_stop_reason_has_its_detail(autojump_clock: MockClock, reason: StopReason) -> None:
    case = CASES[reason]
    bench = Bench()
    async with world(
        *case.script,
        tools=bench.tools(),
        settings=case.settings,
        hooks=case.hooks,
        keeper=case.keeper(),
        approver=case.approver(),
        info=case.info,
    ) as w:
        played = await w.play(react=case.react)  # type: ignore[arg-type]  # all of them are async
        result = played.result
        assert result.stop_reason == reason
        assert case.detail in result.detail
        assert (result.detail == "") == (reason == "completed")
        assert (result.during is not None) == (reason == "aborted")
        assert (result.reset_at is not None) == (reason == "rate_limited")
        # One end, last, the same in every view of it.
        ended = played.all(TurnEnded)
        assert [e.result for e in ended] == [result]
        assert played.events[-1] is ended[0]
        assert w.session.state.last_result == result
        assert fold(w.session.events()).last_result == result
        assert w.session.state.status == Idle()
        assert result.durable
        assert bench.running == 0
        if reason not in {
            "internal_error",
            "hook_stopped",
            "stop_hook_limit",
            "blocking_limit",
            "compaction_ineffective",
        }:
            await w.goes_on()


@pytest.mark.parametrize("reason", [r for r in STOP_REASONS if r != "internal_error"])
async def test_c12_next_turn_has_a_valid_transcript(autojump_clock: MockClock, reason: StopReason) -> None:
    case = CASES[reason]
    bench = Bench()
    async with world(
        *case.script,
        tools=bench.tools(),
        settings=case.settings,
        approver=case.approver(),
        info=case.info,
    ) as w:
        await w.play(react=case.react)  # type: ignore[arg-type]  # all of them are async
        await w.goes_on()


@pytest.mark.parametrize("during", ["streaming", "tools", "waiting"])
async def test_c12_aborted_turn_reports_where_it_was(autojump_clock: MockClock, during: str) -> None:
    script: dict[str, Answer] = {
        "streaming": [*text("Half"), Pause(60), *done()],
        "tools": reading("a", seconds=60),
        "waiting": [Fail(Overloaded("busy", retryable=True))],
    }
    bench = Bench()
    settings = Settings(retry=RetryPolicy(base=60))
    async with world(script[during], tools=bench.tools(), settings=settings) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert trio.current_time() == about(1)
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", during)
        await w.goes_on()

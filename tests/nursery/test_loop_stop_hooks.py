"""C8: stop hooks are asked when the model comes to an end by itself, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import AuthFailed, Overloaded
from engine.core.events import CallStarted, Notice
from engine.core.hooks import Hooks, StopDecision, StopHook, Stopping, ToolDecision
from engine.core.llm_types import TextChunk, TextDone, TextStarted
from engine.core.messages import FinishReason, UserMessage
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.session.turn import Turn
from engine.testing.script import Answer, Break, Fail, Pause, ScriptItem, call, done, text
from tests.support.bench import Bench
from tests.support.world import Seen, about, said, world


def answer(told: str, reason: FinishReason = "stop") -> Answer:
    return [*text(told), *done(reason)]


def hook(decide: Callable[[Stopping], StopDecision | None], log: list[Stopping] | None = None) -> Hooks:
    async def stop(stopping: Stopping) -> StopDecision | None:
        await trio.lowlevel.checkpoint()
        if log is not None:
            log.append(stopping)
        return decide(stopping)

    return Hooks(stop=(stop,))


BLOCK = StopDecision(verdict="block", reason="The tests still fail: run them.")
PREVENT = StopDecision(verdict="prevent", reason="The release is frozen.")


async def test_c8_single_block_adds_a_step(autojump_clock: MockClock) -> None:
    log: list[Stopping] = []
    hooks = hook(lambda s: BLOCK if s.already_blocked == 0 else None, log)
    async with world(answer("Done."), answer("Now really."), hooks=hooks) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text, played.reasons) == (
        "completed",
        "Now really.",
        ["stop_hook_blocked"],
    )
    last = w.requests[1].transcript[-1]
    assert isinstance(last, UserMessage)
    assert (said(last), last.origin) == (BLOCK.reason, "engine")
    assert [(s.text, s.already_blocked, s.session_id) for s in log] == [
        ("Done.", 0, w.session.id),
        ("Now really.", 1, w.session.id),
    ]


async def test_c8_constant_block_is_bounded(autojump_clock: MockClock) -> None:
    hooks = hook(lambda _: BLOCK)
    answers = [answer(f"Done {n}.") for n in range(9)]
    async with world(*answers, hooks=hooks) as w:
        played = await w.play()
    assert played.reasons == ["stop_hook_blocked"] * 3
    assert (played.stop_reason, played.result.detail) == ("stop_hook_limit", BLOCK.reason)
    assert played.result.text == "Done 3."


async def test_c8_bound_is_a_setting_per_turn(autojump_clock: MockClock) -> None:
    hooks = hook(lambda _: BLOCK)
    answers = [answer(f"Done {n}.") for n in range(9)]
    async with world(*answers, hooks=hooks, settings=Settings(stop_hook_limit=1)) as w:
        first, second = await w.play(), await w.play()
    assert [first.reasons, second.reasons] == [["stop_hook_blocked"]] * 2
    assert (first.stop_reason, second.stop_reason) == ("stop_hook_limit", "stop_hook_limit")


async def test_c8_a_hook_may_prevent_further_work(autojump_clock: MockClock) -> None:
    async with world(answer("Done."), hooks=hook(lambda _: PREVENT)) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("hook_stopped", PREVENT.reason)
        assert (played.result.text, played.reasons) == ("Done.", [])
        assert "frozen" not in repr(w.session.state.transcript)


async def test_c8_the_first_hook_that_objects_decides(autojump_clock: MockClock) -> None:
    log: list[str] = []

    def named(name: str, decision: StopDecision | None) -> StopHook:
        async def stop(stopping: Stopping) -> StopDecision | None:
            log.append(name)
            return decision if stopping.already_blocked == 0 else None

        return stop

    hooks = Hooks(stop=(named("a", None), named("b", StopDecision()), named("c", BLOCK), named("d", PREVENT)))
    async with world(answer("Done."), answer("Again."), hooks=hooks) as w:
        played = await w.play()
    assert log == ["a", "b", "c", "a", "b", "c", "d"]
    assert played.reasons == ["stop_hook_blocked"]


# -- hooks that fail ---------------------------------------------------------------------------------------


class Rude(BaseException):
    """No ordinary exception."""


def returning(value: object) -> object:
    async def stop(stopping: object) -> object:
        await trio.lowlevel.checkpoint()
        return value

    return stop


async def raising(stopping: Stopping) -> None:
    raise RuntimeError("the hook broke")


async def rude(stopping: Stopping) -> None:
    raise Rude


async def hanging(stopping: Stopping) -> None:
    await trio.sleep_forever()


FAILING: dict[str, object] = {
    "raises": raising,
    "raises-base": rude,
    "hangs": hanging,
    "not-async": lambda stopping: BLOCK,
    "not-callable": 5,
    "returns-str": returning("block"),
    "returns-another-decision": returning(ToolDecision(stop=True)),
    "unknown-verdict": returning(StopDecision(verdict="maybe")),  # type: ignore[arg-type]
    "reason-no-str": returning(StopDecision(verdict="block", reason=5)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", FAILING)
async def test_c8_failing_hook_does_not_block(autojump_clock: MockClock, kind: str) -> None:
    hooks = Hooks(stop=(FAILING[kind],))  # type: ignore[arg-type]  # the point of it
    async with world(answer("Done."), hooks=hooks) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "Done.", [])
        assert [n.code for n in played.all(Notice)] == ["hook_failed"]
        assert autojump_clock.current_time() == (about(30) if kind == "hangs" else 0)
        await w.goes_on()


async def test_c8_failing_hook_leaves_the_next_one_working(autojump_clock: MockClock) -> None:
    hooks = Hooks(stop=(raising, *hook(lambda s: BLOCK if s.already_blocked == 0 else None).stop))
    async with world(answer("Done."), answer("Again."), hooks=hooks) as w:
        played = await w.play()
    assert played.reasons == ["stop_hook_blocked"]


async def test_c8_cancel_while_a_stop_hook_hangs(autojump_clock: MockClock) -> None:
    async with world(answer("Done."), hooks=Hooks(stop=(hanging,))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1)
        assert (result.stop_reason, result.text) == ("aborted", "Done.")


# -- when they are not asked ----------------------------------------------------------------------------------


async def never_blocked(
    *answers: Answer, stop_reason: str, requests: int, settings: Settings | None = None, repeat: bool = False
) -> None:
    log: list[Stopping] = []
    bench = Bench()
    hooks = hook(lambda _: BLOCK, log)
    async with world(*answers, hooks=hooks, tools=bench.tools(), settings=settings, repeat=repeat) as w:
        played = await w.play()
    assert log == []
    assert (played.stop_reason, len(w.requests)) == (stop_reason, requests)
    assert "stop_hook_blocked" not in played.reasons


@pytest.mark.parametrize(
    ("failure", "stop_reason", "requests"),
    [
        (Fail(AuthFailed("no key")), "auth_failed", 1),
        (Fail(Overloaded("busy", retryable=True)), "provider_error", 6),
        (Break(), "provider_error", 6),
    ],
)
async def test_c8_no_stop_hooks_after_provider_error(
    autojump_clock: MockClock, failure: ScriptItem, stop_reason: str, requests: int
) -> None:
    partial: list[ScriptItem] = [TextStarted("t"), TextChunk("t", "Half"), failure]
    await never_blocked(partial, stop_reason=stop_reason, requests=requests, repeat=True)


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [("refusal", "refusal"), ("content_filter", "content_filter"), ("overflow", "prompt_too_long")],
)
async def test_c8_no_stop_hooks_after_refusal(
    autojump_clock: MockClock, finish: FinishReason, stop_reason: str
) -> None:
    await never_blocked(answer("No.", finish), stop_reason=stop_reason, requests=1)


async def test_c8_no_stop_hooks_after_incomplete_answer(autojump_clock: MockClock) -> None:
    await never_blocked([*text("Half")], stop_reason="incomplete", requests=1)


async def test_c8_no_stop_hooks_at_output_limit(autojump_clock: MockClock) -> None:
    settings = Settings(output_cap=64_000, output_recoveries=0)
    await never_blocked(answer("cut", "length"), stop_reason="output_limit", requests=1, settings=settings)


@pytest.mark.parametrize("wrap_up", [True, False])
async def test_c8_no_stop_hooks_at_step_limit(autojump_clock: MockClock, wrap_up: bool) -> None:
    calling = [*call("read", {"name": "a"}, id="1"), *done("calls")]
    settings = Settings(limits=Limits(steps=2), wrap_up=wrap_up)
    last = answer("That is it.") if wrap_up else calling
    await never_blocked(calling, last, stop_reason="step_limit", requests=2, settings=settings)


async def test_c8_no_stop_hooks_after_abort(autojump_clock: MockClock) -> None:
    log: list[Stopping] = []
    async with world([*text("Half"), Pause(60), *done()], hooks=hook(lambda _: BLOCK, log)) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert (turn.result.stop_reason, log) == ("aborted", [])


async def test_c8_no_stop_hooks_between_steps(autojump_clock: MockClock) -> None:
    log: list[Stopping] = []
    bench = Bench()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            turn.steer("and then this")

    calling = [*text("Working."), *call("read", {"name": "a", "seconds": 1}, id="1"), *done("calls")]
    async with world(calling, answer("Done."), hooks=hook(lambda _: None, log), tools=bench.tools()) as w:
        await w.play(react=steer)
    assert [s.text for s in log] == ["Done."]

    log.clear()
    half: list[ScriptItem] = [TextStarted("t"), TextChunk("t", "Fi"), Pause(1), TextChunk("t", "rst."), TextDone("t")]

    async def steer_late(turn: Turn, event: Seen) -> None:
        if getattr(event, "text", "") == "Fi":
            turn.steer("and then this")

    async with world([*half, *done()], answer("Second."), hooks=hook(lambda _: None, log)) as w:
        played = await w.play(react=steer_late)
    assert (played.reasons, [s.text for s in log]) == (["steered"], ["Second."])


async def test_c8_steer_during_a_stop_hook_is_kept(autojump_clock: MockClock) -> None:
    async def slow(stopping: Stopping) -> StopDecision:
        await trio.sleep(5)
        return StopDecision()

    async with world(answer("First."), answer("Second."), hooks=Hooks(stop=(slow,))) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.steer("one more thing")
            result = await turn.wait()
    assert (result.stop_reason, result.text, len(w.requests)) == ("completed", "Second.", 2)


async def test_c8_no_stop_hooks_during_retries(autojump_clock: MockClock) -> None:
    log: list[Stopping] = []
    settings = Settings(retry=RetryPolicy(attempts=2))
    async with world([Break()], [Break()], answer("Done."), hooks=hook(lambda _: None, log), settings=settings) as w:
        await w.play()
    assert len(log) == 1

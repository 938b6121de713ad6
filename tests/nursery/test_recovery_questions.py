"""A model's host has failed for good, and whoever watches says how to go on (T23)."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import ConfigError, Overloaded, ProviderError, RateLimited, RequestNotFound, UnknownModel
from engine.core.events import PartDiscarded, RecoveryAnswered, RecoveryAsked, RetryScheduled
from engine.core.llm_types import ModelInfo
from engine.core.messages import ReasoningPart, TextPart
from engine.core.settings import RetryPolicy, Settings
from engine.journal.state import Waiting
from engine.session.answer_types import Recovery
from engine.testing.fake_tools import FakeTools
from engine.testing.script import Fail, call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.bench import Bench
from tests.support.world import World, world

BUSY = [Fail(Overloaded("busy", retryable=True))]
DONE = [*text("Done."), *done()]
ASK = Settings(on_exhausted="ask", retry=RetryPolicy(attempts=1, base=1.0))


class Seen:
    """What a watcher saw of one turn."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.times: list[float] = []

    def all(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


async def watch(w: World, how: Recovery, *, model: object = None, settings: Settings = ASK, times: int = 1) -> Seen:
    """Prompt the session, and answer the first questions with *how*, the others with "stop"."""
    seen = Seen()
    async with w.session.prompt("go", settings=settings) as turn:
        async for event in turn:
            seen.events.append(event)
            if isinstance(event, RecoveryAsked):
                seen.times.append(trio.current_time())
                is_first = len(seen.times) <= times
                await turn.recover(
                    event.request_id, how if is_first else "stop", model=cast("Any", model) if is_first else None
                )
        seen.times.append(trio.current_time())
    return seen


async def test_wait_uses_the_longest_delay(autojump_clock: MockClock) -> None:
    async with world(BUSY, BUSY, DONE) as w:
        start = trio.current_time()
        seen = await watch(w, "wait")
        result = w.session.state.last_result
        assert result is not None
        assert (result.stop_reason, result.text, len(w.requests)) == ("completed", "Done.", 3)
        assert [round(time - start) for time in seen.times] == [1, 61]
    asked, answered = seen.all(RecoveryAsked), seen.all(RecoveryAnswered)
    assert [(e.model, e.message, e.reset_at) for e in asked] == [("scripted/model", "busy", None)]
    assert [(e.request_id, e.answer, e.model) for e in answered] == [(asked[0].request_id, "wait", "")]
    assert [e.attempt for e in seen.all(RetryScheduled)] == [1, 1]


async def test_limit_is_awaited_until_its_reset(autojump_clock: MockClock) -> None:
    limited = [Fail(RateLimited("enough", retryable=True, retry_after=3_600.0))]
    async with world(limited, DONE) as w:
        start = trio.current_time()
        seen = await watch(w, "wait")
    assert seen.all(RecoveryAsked)[0].reset_at == start + 3_600
    assert [round(time - start) for time in seen.times] == [0, 3_600]


async def test_question_is_repeated_after_a_useless_wait(autojump_clock: MockClock) -> None:
    async with world(BUSY, repeat=True) as w:
        seen = await watch(w, "wait", times=3)
        result = w.session.state.last_result
    assert result is not None
    assert (result.stop_reason, result.detail) == ("provider_error", "busy")
    assert [e.answer for e in seen.all(RecoveryAnswered)] == ["wait", "wait", "wait", "stop"]


async def test_switch_changes_the_model_for_the_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    other = ScriptedProvider(
        [[*call("read", {"name": "a"}, id="1"), *done("calls")], DONE], info=ModelInfo(name="scripted/other")
    )
    half = [*reasoning("Hm.", signature="s"), *text("I'll"), Fail(ProviderError("down", retryable=True))]
    async with world(half, half, DONE, tools=bench.tools()) as w:
        seen = await watch(w, "switch", model=other)
        assert [request.model for request in other.requests] == ["scripted/other"] * 2
        assert len(seen.all(PartDiscarded)) == 4, "what the first one had said is taken back"
        assert seen.all(RecoveryAnswered)[0].model == "scripted/other"
        assert w.session.state.model == "scripted/model", "the session keeps its own"
        await watch(w, "stop")
        assert len(w.requests) == 3


async def test_a_session_may_switch_its_model_for_good(autojump_clock: MockClock) -> None:
    other = ScriptedProvider([DONE], info=ModelInfo(name="scripted/other"), repeat=True)
    thought = [*reasoning("Hm.", signature="s"), *text("First."), *done()]
    async with world(thought) as w:
        await w.session.run("one")
        await w.session.switch_model(other)
        assert w.session.state.model == "scripted/other"
        await w.session.run("two")
    (request,) = other.requests
    said = request.transcript[1]
    assert [type(part) for part in said.parts] == [ReasoningPart, TextPart]  # type: ignore[union-attr]
    assert said.parts[0].model == "scripted/model"  # type: ignore[union-attr]  # so that no encoder sends its signature


async def test_unanswered_question_expires(autojump_clock: MockClock) -> None:
    settings = Settings(on_exhausted="ask", question_timeout=5.0, retry=RetryPolicy(attempts=0))
    async with world(BUSY) as w, w.session.prompt("go", settings=settings) as turn:
        events = [event async for event in turn]
    assert turn.result.stop_reason == "provider_error"
    assert [e.answer for e in events if isinstance(e, RecoveryAnswered)] == ["expired"]


async def test_a_cancel_withdraws_the_question(autojump_clock: MockClock) -> None:
    async with world(BUSY, repeat=True) as w, w.session.prompt("go", settings=ASK) as turn:
        answers: list[str] = []
        async for event in turn:
            if isinstance(event, RecoveryAsked):
                status = w.session.state.status
                turn.cancel()
                assert status == Waiting((event.request_id,))
            if isinstance(event, RecoveryAnswered):
                answers.append(event.answer)
    assert (turn.result.stop_reason, turn.result.during, answers) == ("aborted", "waiting", ["withdrawn"])


async def test_default_and_run_ask_no_questions(autojump_clock: MockClock) -> None:
    async with world(BUSY, repeat=True) as w:
        seen = await watch(w, "wait", settings=Settings(retry=RetryPolicy(attempts=0)))
        assert not seen.all(RecoveryAsked)
        result = await w.session.run("go", settings=ASK)
        assert result.stop_reason == "provider_error"


async def test_sub_agent_question_is_answered_at_root(autojump_clock: MockClock) -> None:
    other = ScriptedProvider([DONE], info=ModelInfo(name="scripted/other"))
    root = [*call("sub", {"key": "x"}, id="1"), *done("calls")]
    async with world(root, BUSY, BUSY, DONE, tools=FakeTools().tools()) as w:
        seen = await watch(w, "switch", model=other)
        assert len(other.requests) == 1
        assert len(seen.all(RecoveryAsked)[0].path) == 2
        assert seen.events[-1].result.stop_reason == "completed"  # type: ignore[attr-defined]


async def test_invalid_answer_leaves_the_question_open(autojump_clock: MockClock) -> None:
    async with world(BUSY, repeat=True) as w, w.session.prompt("go", settings=ASK) as turn:
        async for event in turn:
            if not isinstance(event, RecoveryAsked):
                continue
            request_id = event.request_id
            for how, model in (("wait", "a/b"), ("switch", None), ("retry", None)):
                with pytest.raises(ConfigError):
                    await turn.recover(request_id, cast("Any", how), model=model)
            with pytest.raises(UnknownModel):
                await turn.recover(request_id, "switch", model="nobody/knows")
            with pytest.raises(ConfigError):
                await turn.recover(cast("Any", 5), "stop")
            with pytest.raises(RequestNotFound):
                await turn.recover("nothing", "stop")
            await turn.recover(request_id, "stop")
            with pytest.raises(RequestNotFound):
                await turn.recover(request_id, "stop")
    assert turn.result.stop_reason == "provider_error"


class Learned(ScriptedProvider):
    """A model that is asked about itself."""

    async def learn(self) -> None:
        await trio.sleep(0.1)
        self.info = ModelInfo(name=self.info.name, context=12_345)


async def test_switched_model_is_asked_about_first(autojump_clock: MockClock) -> None:
    one, two = (Learned([DONE], info=ModelInfo(name=f"scripted/{name}")) for name in ("one", "two"))
    async with world(BUSY, BUSY, DONE) as w:
        await watch(w, "switch", model=one)
        assert one.info.context == 12_345
        await w.session.switch_model(two)
        assert two.info.context == 12_345

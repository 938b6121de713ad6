"""C7: a call whose arguments were cut off is asked for again a bounded number of times, and never repeats for ever."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis
import pytest
import trio
from hypothesis import strategies as st
from trio.testing import MockClock

from engine.core.llm_types import ModelInfo, ToolCallChunk, ToolCallStarted
from engine.core.messages import FinishReason, UserMessage
from engine.core.settings import Settings
from engine.testing.script import Answer, Pause, ScriptItem, call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import World, said, world

SMALL = ModelInfo(name="scripted/small", output=8_192)
HALF = '{"name": "a long te'


def cut_call(finish: FinishReason = "length", tool: str = "write", arguments: str = HALF) -> Answer:
    """A call that never ends: what the Chat and Responses wires read when an answer hits the output limit."""
    return [ToolCallStarted("1", tool), ToolCallChunk("1", arguments), *done(finish)]


def closed_half_call(finish: FinishReason = "length") -> Answer:
    """Anthropic closes the block of a call that it has cut off."""
    return [*call("write", HALF, id="1"), *done(finish)]


def nudges(w: World) -> list[str]:
    return [said(m) for m in w.session.state.transcript if isinstance(m, UserMessage) and m.origin == "engine"]


@pytest.mark.parametrize("answer", [cut_call(), closed_half_call()], ids=["unclosed", "closed"])
async def test_cut_call_escalates_recovers_and_ends(autojump_clock: MockClock, answer: Answer) -> None:
    bench = Bench()
    async with world(*[answer] * 30, tools=bench.tools()) as w:
        played = await w.play()
        assert [r.max_output for r in w.requests] == [8_192, 64_000, 64_000, 64_000, 64_000]
        assert played.reasons == ["output_escalate", *["output_recover"] * 3]
        assert played.stop_reason == "output_limit"
        assert "cut off" in played.result.detail
        assert bench.log == []
        assert all("cut off" in s.text and "not valid JSON" not in s.text for s in played.settlements)
        assert all("cut off" in nudge for nudge in nudges(w))
        await w.goes_on()


@pytest.mark.parametrize("finish", ["stop", "calls", "unknown"])
async def test_unclosed_call_ends_whatever_the_finish(autojump_clock: MockClock, finish: FinishReason) -> None:
    async with world(*[cut_call(finish)] * 30, tools=Bench().tools()) as w:
        played = await w.play()
    assert played.reasons == ["output_recover"] * 3
    assert played.stop_reason == "incomplete"


@pytest.mark.parametrize("arguments", [HALF, '{"name": "a"', '{"name":', '{"name": "a", ', "{"])
@pytest.mark.parametrize("finish", ["stop", "calls"])
async def test_closed_half_call_is_cut_off_whatever_the_finish(
    autojump_clock: MockClock, arguments: str, finish: FinishReason
) -> None:
    """Chat Completions can't say that a call was cut off: a server whose window is full sends half of one, and "stop"."""
    async with world(*[[*call("write", arguments, id="1"), *done(finish)]] * 30, tools=Bench().tools()) as w:
        played = await w.play()
    assert (played.reasons, played.stop_reason) == (["output_recover"] * 3, "incomplete")
    assert all("cut off" in s.text and "not valid JSON" not in s.text for s in played.settlements)


async def test_wrong_json_is_no_cut_call(autojump_clock: MockClock) -> None:
    wrong = [*call("write", '{"name": a}', id="1"), *done("calls")]
    async with world(wrong, [*text("Done."), *done()], tools=Bench().tools()) as w:
        played = await w.play()
    assert played.reasons == ["next_step"]
    assert "not valid JSON" in played.settlements[0].text


async def test_whole_calls_of_a_cut_answer_are_kept(autojump_clock: MockClock) -> None:
    """The answer is not thrown away to be sent again with a larger limit: a call of it has run."""
    bench = Bench()
    first = [*call("write", {"name": "a"}, id="0"), *cut_call()]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert (bench.log, played.statuses) == (["+a", "-a"], ["completed", "error"])
    assert played.reasons == ["output_escalate"]
    assert [r.max_output for r in w.requests] == [8_192, 64_000]


async def test_progress_renews_the_recoveries(autojump_clock: MockClock) -> None:
    script: list[Answer] = []
    for number in range(6):
        script += [
            cut_call(arguments=f"{HALF}{number}"),
            [*call("write", {"name": f"a{number}"}, id="1"), *done("calls")],
        ]
    async with world(*script, [*text("Done."), *done()], tools=Bench().tools(), info=SMALL) as w:
        played = await w.play()
    assert played.stop_reason == "completed"


async def test_identical_cut_calls_are_a_repetition(autojump_clock: MockClock) -> None:
    """Also where whole calls stand between them, which renew the recoveries."""
    script: list[Answer] = []
    for number in range(20):
        script += [cut_call(), [*call("read", {"name": f"a{number % 2}"}, id="1"), *done("calls")]]
    async with world(*script, tools=Bench().tools(), info=SMALL, settings=Settings(headless="deny")) as w:
        played = await w.play()
    assert (played.stop_reason, len(w.requests)) == ("doom_loop", 14)


# ---- what was refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
@pytest.mark.parametrize("delay", [(), (Pause(2.0),)], ids=["at once", "later"])
async def test_refusal_runs_no_mutating_call(
    autojump_clock: MockClock, finish: FinishReason, delay: Sequence[ScriptItem]
) -> None:
    bench = Bench()
    script = [*text("I "), *call("write", {"name": "a"}, id="1"), *delay, *done(finish)]
    async with world(script, tools=bench.tools()) as w:
        played = await w.play()
        assert bench.log == []
        assert (played.stop_reason, played.statuses) == (finish, ["not_executed"])
        await w.goes_on()


# ---- answers with nothing to show --------------------------------------------------------------------------------------

EMPTY: dict[str, Answer] = {
    "nothing": done(),
    "blank": [*text(" \n\t"), *done()],
    "invisible": [*text("\u200b\ufeff\u2060\n"), *done()],
    "only thinking": [*reasoning("Hm."), *done()],
    "calls without a call": done("calls"),
    "nothing at all": done("unknown"),
}


@pytest.mark.parametrize("answer", EMPTY.values(), ids=EMPTY)
async def test_empty_answer_is_retried_once(autojump_clock: MockClock, answer: Answer) -> None:
    async with world(answer, [*text("Done."), *done()]) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text, len(w.requests)) == ("completed", "Done.", 2)


@pytest.mark.parametrize("answer", EMPTY.values(), ids=EMPTY)
async def test_second_empty_answer_is_incomplete(autojump_clock: MockClock, answer: Answer) -> None:
    async with world(answer, answer, answer) as w:
        played = await w.play()
        assert (played.stop_reason, len(w.requests)) == ("incomplete", 2)
        assert "empty twice" in played.result.detail
        await w.goes_on()


# ---- every script ends -------------------------------------------------------------------------------------------------

FINISHES: list[FinishReason] = ["stop", "calls", "length", "pause", "refusal", "content_filter", "malformed", "unknown"]
BAD_ANSWERS = st.builds(
    lambda parts, finish: [item for part in parts for item in part] + list(done(finish)),
    st.lists(
        st.sampled_from(
            [
                text("half an answ"),
                text("  ", id="blank"),
                reasoning("Hm."),
                (ToolCallStarted("1", "write"), ToolCallChunk("1", HALF)),
                (ToolCallStarted("2", "read"),),
                call("write", HALF, id="3"),
                call("nosuch", {}, id="4"),
                call("read", {"name": "a"}, id="5"),
                call("read", {"seconds": "no number"}, id="6"),
            ]
        ),
        max_size=3,
        unique=True,
    ),
    st.sampled_from(FINISHES),
)


@pytest.mark.slow
@hypothesis.given(answers=st.lists(BAD_ANSWERS, min_size=1, max_size=3))
@hypothesis.settings(max_examples=3 * hypothesis.settings().max_examples // 2)
def test_every_script_of_bad_answers_ends(answers: list[Answer]) -> None:
    async def main() -> None:
        script = [answers[number % len(answers)] for number in range(400)]
        async with world(*script, tools=Bench().tools(), settings=Settings(headless="deny")) as w:
            played = await w.play()
            assert len(w.requests) <= 60
            assert played.stop_reason != "internal_error"

    trio.run(main, clock=MockClock(autojump_threshold=0))


# As they come without a call that could run.
CALL_LESS = st.builds(
    lambda parts, finish: [item for part in parts for item in part] + list(done(finish)),
    st.lists(
        st.sampled_from(
            [text("  ", id="blank"), reasoning("Hm."), (ToolCallStarted("1", "write"), ToolCallChunk("1", HALF))]
        ),
        max_size=2,
        unique=True,
    ),
    st.sampled_from(FINISHES),
)


@hypothesis.given(answers=st.lists(CALL_LESS | st.none(), min_size=2, max_size=3).filter(any))
@hypothesis.settings(max_examples=30)
def test_unusable_answers_end_turns_despite_progress(answers: list[Answer | None]) -> None:
    """Answers without a call that can run alternate with new calls that succeed (None)."""

    async def main() -> None:
        script: list[Answer] = []
        for number in range(400):
            answer = answers[number % len(answers)]
            new_call = [*call("read", {"name": f"{number}"}, id="1"), *done("calls")]
            script.append(new_call if answer is None else answer)
        async with world(*script, tools=Bench().tools(), settings=Settings(headless="deny")) as w:
            played = await w.play()
            assert len(w.requests) <= 70
            assert played.stop_reason not in {"internal_error", "max_turns"}

    trio.run(main, clock=MockClock(autojump_threshold=0))

"""C7: an answer that is cut off at the output limit is asked for again with a larger limit, then continued."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from engine.core.events import PartDiscarded, StepStarted, TextDelta, TurnEnded
from engine.core.llm_types import ModelInfo, TextChunk, TextStarted, ToolCallChunk, ToolCallStarted
from engine.core.messages import AssistantMessage, Message, TextPart, Usage, UserMessage
from engine.core.protocols import ContextView
from engine.core.settings import Limits, Settings
from engine.testing.fakes import ScriptedKeeper
from engine.testing.script import Answer, Break, Pause, call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import Played, World, said, world

SMALL = ModelInfo(name="scripted/small", output=8_192)
MIDDLE = ModelInfo(name="scripted/middle", output=20_000)


def cut(piece: str, output: int = 100) -> Answer:
    return [*text(piece), *done("length", usage=Usage(input=10, output=output))]


def rest(piece: str) -> Answer:
    return [*text(piece), *done("stop")]


def shown(played: Played) -> str:
    """What a client that honours `PartDiscarded` shows at the end, as one text."""
    parts: dict[str, str] = {}
    for event in played.events:
        if isinstance(event, TextDelta):
            parts[event.part_id] = parts.get(event.part_id, "") + event.text
        elif isinstance(event, PartDiscarded):
            parts.pop(event.part_id, None)
    return "".join(parts.values())


def assistant_texts(w: World) -> list[str]:
    return [m.text for m in w.session.state.transcript if isinstance(m, AssistantMessage)]


async def test_c7_cut_answer_is_retried_with_larger_limit(
    autojump_clock: MockClock,
) -> None:
    async with world(cut("Once upon a"), rest("Once upon a time.")) as w:
        played = await w.play()
    assert played.reasons == ["output_escalate"]
    one, other = w.requests
    assert (one.max_output, other.max_output) == (8_192, 64_000), "65,536, clamped to what the model can"
    assert (one.transcript, one.system, one.tools) == (other.transcript, other.system, other.tools)
    assert (played.result.text, shown(played)) == ("Once upon a time.", "Once upon a time.")
    assert [d.reason for d in played.all(PartDiscarded)] == ["output_escalate"]
    assert [(s.step, s.attempt) for s in played.all(StepStarted)] == [(1, 1), (1, 2)]
    assert assistant_texts(w) == ["Once upon a time."]
    assert played.result.usage.output == 100, "what was thrown away was paid for all the same"


async def test_c7_continuation_nudge_forbids_recap(autojump_clock: MockClock) -> None:
    script = [cut("Once upon a"), cut("Once upon a time there ", 300), cut("was a prin"), rest("cess.")]
    async with world(*script) as w:
        played = await w.play()
    assert played.reasons == ["output_escalate", "output_recover", "output_recover"]
    assert played.result.text == "Once upon a time there was a princess."
    assert shown(played) == played.result.text, "one contiguous answer"
    nudges = [said(m) for m in w.requests[3].transcript if isinstance(m, UserMessage) and m.origin == "engine"]
    assert len(nudges) == 2
    for told in ("exactly where it stopped", "Don't apologise", "don't summarise", "continuation 1 of 3", "400 tokens"):
        assert told in nudges[0]
    assert "continuation 2 of 3" in nudges[1]
    assert assistant_texts(w) == ["Once upon a time there ", "was a prin", "cess."]


async def test_c7_continuations_keep_the_larger_limit(autojump_clock: MockClock) -> None:
    async with world(
        cut("a"), cut("b"), cut("c"), rest("d"), info=ModelInfo(name="scripted/large", output=200_000)
    ) as w:
        await w.play()
    assert [r.max_output for r in w.requests] == [8_192, 65_536, 65_536, 65_536]


async def test_c7_repeated_cut_stops_with_partial_text(autojump_clock: MockClock) -> None:
    async with world(cut("x"), cut("1"), cut("2"), cut("3"), cut("4"), rest("never")) as w:
        played = await w.play()
        assert played.reasons == ["output_escalate"] + ["output_recover"] * 3
        assert (played.stop_reason, played.result.text) == ("output_limit", "1234")
        assert "cut off" in played.result.detail
        assert assistant_texts(w) == ["1", "2", "3", "4"]
        await w.goes_on()


async def test_c7_escalation_is_skipped_at_the_models_limit(
    autojump_clock: MockClock,
) -> None:
    async with world(cut("Once upon "), rest("a time."), info=SMALL) as w:
        played = await w.play()
    assert played.reasons == ["output_recover"]
    assert [r.max_output for r in w.requests] == [8_192, 8_192]
    assert played.result.text == "Once upon a time."


async def test_c7_larger_limit_is_clamped_to_the_model(autojump_clock: MockClock) -> None:
    async with world(cut("Once"), cut("Once upon "), rest("a time."), info=MIDDLE) as w:
        played = await w.play()
    assert played.reasons == ["output_escalate", "output_recover"]
    assert [r.max_output for r in w.requests] == [8_192, 20_000, 20_000]
    assert played.result.text == "Once upon a time."


async def test_c7_the_settings_set_the_limits(autojump_clock: MockClock) -> None:
    settings = Settings(output_cap=100, output_cap_raised=200, output_recoveries=1)
    async with world(cut("a"), cut("b"), cut("c"), rest("d"), settings=settings) as w:
        played = await w.play()
    assert [r.max_output for r in w.requests] == [100, 200, 200]
    assert (played.stop_reason, played.result.text) == ("output_limit", "bc")


async def test_c7_cut_answer_without_recoveries_ends_turn(autojump_clock: MockClock) -> None:
    async with world(cut("a"), info=SMALL, settings=Settings(output_recoveries=0)) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text, played.reasons) == ("output_limit", "a", [])


@pytest.mark.parametrize("arguments", ['{"name": "a', '{"name": "a"', '{"name": "a"}', ""])
async def test_c7_half_parsed_call_never_runs(autojump_clock: MockClock, arguments: str) -> None:
    """Not even where what arrived happens to be valid JSON: the end of the arguments never came."""
    bench = Bench()
    first = [*text("I write."), ToolCallStarted("1", "write"), ToolCallChunk("1", arguments), *done("length")]
    async with world(first, rest("Done."), tools=bench.tools(), info=SMALL) as w:
        played = await w.play()
        assert bench.log == []
        assert played.statuses == ["error"]
        told = played.settlements[0].text
        assert f"cut off after {len(arguments)} characters" in told
        assert "not run" in told
        assert "less in one call" in told
        assert (played.stop_reason, played.reasons) == ("completed", ["output_recover"])
        call_part = next(m for m in w.session.state.transcript if isinstance(m, AssistantMessage)).calls[0]
        assert (call_part.arguments, call_part.complete) == (arguments, False)
        await w.goes_on()


async def test_c7_complete_calls_before_a_cut_run(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        *call("write", {"name": "a"}, id="1"),
        ToolCallStarted("2", "write"),
        ToolCallChunk("2", '{"na'),
        *done("length"),
    ]
    async with world(first, rest("Done."), tools=bench.tools()) as w:
        played = await w.play()
    assert (bench.log, played.statuses) == (["+a", "-a"], ["completed", "error"])


async def test_c7_cut_answer_stays_apart_from_earlier_step(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first = [*text("Let me look."), *call("read", {"name": "a"}, id="1"), *done("calls")]
    async with world(first, cut("It is "), rest("fine."), info=SMALL, tools=bench.tools()) as w:
        played = await w.play()
    assert played.reasons == ["next_step", "output_recover"]
    assert played.result.text == "It is fine."


async def test_c7_cut_reasoning_stays_apart_from_earlier_text(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first = [*text("Let me look."), *call("read", {"name": "a"}, id="1"), *done("calls")]
    thinking = [*reasoning("Hm, hm, hm"), *done("length")]
    async with world(first, thinking, rest("It is fine."), info=SMALL, tools=bench.tools()) as w:
        played = await w.play()
    assert played.reasons == ["next_step", "output_recover"]
    assert played.result.text == "It is fine."


async def test_c7_continuation_may_call_a_tool(autojump_clock: MockClock) -> None:
    bench = Bench()
    second = [*text("time. "), *call("read", {"name": "a"}, id="1"), *done("calls")]
    async with world(cut("Once upon a "), second, rest("The end."), info=SMALL, tools=bench.tools()) as w:
        played = await w.play()
    assert played.reasons == ["output_recover", "next_step"]
    assert (played.result.text, played.stop_reason) == ("The end.", "completed")


async def test_c7_continuations_count_as_steps_but_resends_not(
    autojump_clock: MockClock,
) -> None:
    settings = Settings(limits=Limits(steps=2), wrap_up=False)
    async with world(cut("x"), cut("a"), cut("b"), rest("c"), settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.steps, len(w.requests)) == ("step_limit", 2, 3)
    assert played.result.text == "ab"


async def test_c7_provider_pause_continues_without_nudge(autojump_clock: MockClock) -> None:
    paused = [*text("Searching… "), *done("pause")]
    async with world(paused, rest("found.")) as w:
        played = await w.play()
    assert (played.reasons, played.result.text) == (["provider_pause"], "Searching… found.")
    assert [m.origin for m in w.requests[1].transcript if isinstance(m, UserMessage)] == ["user"]
    assert isinstance(w.requests[1].transcript[-1], AssistantMessage)


async def test_c7_escalation_discards_its_text_first(
    autojump_clock: MockClock,
) -> None:
    async with world([*text("a", id="1"), *text("b", id="2"), *done("length")], rest("whole")) as w:
        played = await w.play()
    order = played.order(TextDelta, PartDiscarded, TurnEnded)
    assert order == ["TextDelta", "TextDelta", "PartDiscarded", "PartDiscarded", "TextDelta", "TurnEnded"]
    last = w.session.state.transcript[-1]
    assert isinstance(last, AssistantMessage)
    assert [p.text for p in last.parts if isinstance(p, TextPart)] == ["whole"]


async def test_c7_compaction_before_continuation_keeps_the_answer(
    autojump_clock: MockClock,
) -> None:
    def keep_all_but_first(view: ContextView) -> Sequence[Message]:
        return view.transcript[:]

    keeper = ScriptedKeeper(compacts=[lambda view: None, keep_all_but_first])
    async with world(cut("Once upon "), rest("a time."), info=SMALL, keeper=keeper) as w:
        played = await w.play()
    assert played.reasons == ["output_recover", "compacted"]
    assert played.result.text == "Once upon a time."


async def test_c7_failed_continuation_keeps_the_answer(autojump_clock: MockClock) -> None:
    broken: Answer = [TextStarted("t"), TextChunk("t", "a ti"), Break()]
    async with world(cut("Once upon "), broken, rest("a time."), info=SMALL) as w:
        played = await w.play()
    assert played.reasons == ["output_recover", "provider_retry"]
    assert played.result.text == shown(played) == "Once upon a time."


async def test_c7_cancelled_continuation_keeps_one_piece(autojump_clock: MockClock) -> None:
    slow: Answer = [TextStarted("t"), TextChunk("t", "a ti"), Pause(60), *done()]
    async with world(cut("Once upon "), slow, info=SMALL) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
    assert turn.result.text == "Once upon a ti"

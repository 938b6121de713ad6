"""Compaction in the turn: foreseen, asked for, put in place, gone on with (T7, T8, T11, T12)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.compaction.compaction_policy import Keeper, NoKeeper
from engine.compaction.summary_prompt import add_rules, parse_sections
from engine.config.config import CompactionConfig
from engine.core.compaction_types import Compaction, CompactionRequest
from engine.core.errors import (
    AuthFailed,
    ConfigError,
    ContentFiltered,
    ContextOverflow,
    MediaTooLarge,
    Overloaded,
    SessionBusy,
    SessionError,
)
from engine.core.events import CompactionEnded, CompactionStarted, HistoryReplaced, Notice, RetryScheduled
from engine.core.hooks import Compacted, Compacting, CompactionDecision, Hooks
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk, TextDone, TextStarted
from engine.core.messages import FilePart, Message, TextPart, Usage, UserMessage
from engine.core.settings import Limits, Settings
from engine.session.session import live_session
from engine.session.turn import Turn
from engine.settings_file.config_file import read_config
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, Fail, Pause, call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.histories import INFO, Written, answers, exchange, saying, says, summary, view, words
from tests.support.world import Seen, World, said, world

DONE = saying("Done.")
LONG = words(9_000)
TALK = (saying(f"One. {LONG}"), saying(f"Two. {LONG}"))
TOO_LONG: Answer = [Fail(ContextOverflow("prompt is too long"))]


@attrs.frozen
class Size:
    """How much to say."""

    tokens: int = 100
    name: str = ""


@engine.tool(read_only=True)
async def fetch(args: Size, ctx: engine.ToolContext) -> str:
    """Say something long."""
    await trio.lowlevel.checkpoint()
    return words(args.tokens, args.name or "thing")


def fetching(tokens: int, name: str, usage: Usage | None = None) -> Answer:
    return [*call("fetch", {"tokens": tokens, "name": name}, id=name), *done("calls", usage=usage)]


async def filled(w: World) -> None:
    """Play two turns that nearly fill the window."""
    await w.play("first: always use tabs")
    await w.play("second")


def origins(request: ModelRequest) -> list[str]:
    return [m.origin for m in request.transcript if isinstance(m, UserMessage)]


def asked_for_a_summary(request: ModelRequest) -> bool:
    return request.system.startswith("You keep the record")


# -- foreseen ----------------------------------------------------------------------------------------------------------


async def test_t7_overflow_is_prevented_by_a_summary(autojump_clock: MockClock) -> None:
    async with world(*TALK, saying(summary(done="- one and two")), DONE, info=INFO) as w:
        await filled(w)
        played = await w.play("third")
        assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "Done.", ["compacted"])
        started, ended = played.one(CompactionStarted), played.one(CompactionEnded)
        assert (started.trigger, started.messages) == ("full", 5)
        assert (ended.outcome, ended.model, ended.messages, ended.source) == ("compacted", "scripted/model", 3, 4)
        assert len(ended.digest) == 32
        assert (ended.after < 2_000, ended.before > 18_000) == (True, True)
        assert played.order(CompactionStarted, HistoryReplaced, CompactionEnded) == [
            "CompactionStarted",
            "HistoryReplaced",
            "CompactionEnded",
        ]
        sent = w.requests[-1]
        assert origins(sent) == ["user", "summary", "user"]
        assert said(sent.transcript[0]) == "first: always use tabs"
        assert "- one and two" in said(sent.transcript[1])
        assert "first: always use tabs" in said(sent.transcript[1]), "it is a rule of the user as well"
        assert said(sent.transcript[-1]) == "third", "nobody has to say that the model is to go on"
        await w.goes_on()


async def test_t7_nothing_happens_while_there_is_room(autojump_clock: MockClock) -> None:
    async with world(*[saying(words(1_000))] * 9, DONE, info=INFO) as w:
        for _ in range(8):
            await w.play()
        played = await w.play()
        assert (played.all(CompactionStarted), played.all(HistoryReplaced)) == ([], [])
        assert len(w.requests) == 9


@pytest.mark.parametrize("off", ["the setting", "the keeper"])
async def test_t7_disabled_auto_compact_reports_overflow(autojump_clock: MockClock, off: str) -> None:
    settings = Settings(auto_compact=False) if off == "the setting" else None
    keeper = Keeper(auto=False) if off == "the keeper" else None
    async with world(*TALK, saying(LONG), TOO_LONG, info=INFO, settings=settings, keeper=keeper) as w:
        await filled(w)
        await w.play("third")
        played = await w.play("fourth")
        assert (played.stop_reason, played.result.detail) == ("prompt_too_long", "prompt is too long")
        assert (played.all(CompactionStarted), len(w.requests)) == ([], 4)


# -- what it takes -----------------------------------------------------------------------------------------------------


async def test_summary_usage_counts_for_turn_and_session(autojump_clock: MockClock) -> None:
    used, last = Usage(input=700, output=70), Usage(input=5, output=5)
    info = attrs.evolve(INFO, price_input=1_000.0)
    async with world(*TALK, saying(summary(), used), saying("Done.", last), info=info) as w:
        await filled(w)
        played = await w.play("third")
        assert played.result.usage == used + last
        assert w.session.state.usage == used + last
        assert played.result.cost == pytest.approx(0.705)
        assert w.session.state.cost == pytest.approx(0.705)
        assert played.one(CompactionEnded).usage == used
        assert played.one(CompactionEnded).cost == pytest.approx(0.7)


async def test_a_summary_may_use_up_the_turns_budget(autojump_clock: MockClock) -> None:
    async with world(*TALK, saying(summary(), Usage(input=700)), DONE, info=INFO) as w:
        await filled(w)
        played = await w.play("third", settings=Settings(limits=Limits(tokens=500)))
        assert (played.stop_reason, len(w.requests)) == ("token_budget", 3)
        await w.goes_on()


async def test_summary_is_retried_where_useful(autojump_clock: MockClock) -> None:
    busy: Answer = [Fail(Overloaded("busy", retryable=True))]
    async with world(*TALK, busy, saying(summary()), DONE, info=INFO) as w:
        await filled(w)
        played = await w.play("third")
        assert (played.stop_reason, played.one(RetryScheduled).message) == ("completed", "busy")
        assert played.one(CompactionEnded).outcome == "compacted"


async def test_a_wait_for_a_summary_may_be_skipped(autojump_clock: MockClock) -> None:
    busy: Answer = [Fail(Overloaded("busy", retryable=True, retry_after=50.0))]
    async with world(*TALK, busy, saying(summary()), DONE, info=INFO) as w:
        await filled(w)
        began = trio.current_time()
        async with w.session.prompt("third") as turn:
            async for event in turn:
                if isinstance(event, RetryScheduled):
                    assert w.session.state.status.__class__.__name__ == "Retry"
                    turn.skip_wait()
        assert turn.result.stop_reason == "completed"
        assert trio.current_time() - began < 1


async def test_t12_summariser_falls_back_to_the_turns_model(
    autojump_clock: MockClock,
) -> None:
    own = ScriptedProvider([saying(summary()), [Fail(AuthFailed("no key"))]], info=ModelInfo(name="own/small"))
    async with world(*TALK, DONE, saying(LONG), saying(summary()), DONE, info=INFO) as w:
        live_session(w.session).deps = attrs.evolve(
            live_session(w.session).deps, summariser=own
        )  # as the configuration has it
        await filled(w)
        played = await w.play("third")
        assert played.one(CompactionEnded).model == "own/small"
        assert [asked_for_a_summary(r) for r in own.requests] == [True]
        await w.play("fourth")
        w.will_say(saying(summary()), DONE)
        await w.session.context.compact()
        assert len(own.requests) == 2
        ended = [e for e in w.session.events() if isinstance(e, CompactionEnded)][-1]
        assert (ended.outcome, ended.model) == ("compacted", "scripted/model")


# -- bad summaries -----------------------------------------------------------------------------------------------------

BAD: dict[str, Answer] = {
    "empty": saying(""),
    "malformed": saying("It all went well."),
    "huge": saying(summary() + words(9_000)),
    "refusal": [*text("I can't."), *done("refusal")],
    "cut off": [*text(summary()), *done("length")],
    "a call": [*call("fetch", {"tokens": 5}, id="c"), *done("calls")],
}


@pytest.mark.parametrize("kind", BAD)
async def test_t12_invalid_summary_is_repaired_once(autojump_clock: MockClock, kind: str) -> None:
    async with world(*TALK, BAD[kind], saying(summary(done="- mended")), DONE, info=INFO, tools=[fetch]) as w:
        await filled(w)
        played = await w.play("third")
        assert played.stop_reason == "completed"
        assert "That can't be used" in said(w.requests[3].transcript[0])
        assert "- mended" in said(w.requests[-1].transcript[1])
        assert played.statuses == [], "no tool was run"
        assert played.one(CompactionEnded).detail == ""


@pytest.mark.parametrize("kind", BAD)
async def test_t12_substitute_follows_a_failed_repair(autojump_clock: MockClock, kind: str) -> None:
    async with world(*TALK, BAD[kind], BAD[kind], DONE, info=INFO, tools=[fetch]) as w:
        await filled(w)
        played = await w.play("third")
        assert (played.stop_reason, len(w.requests)) == ("completed", 5)
        ended = played.one(CompactionEnded)
        assert ended.outcome == "compacted"
        assert ended.detail.startswith("the model's summary was unusable (")
        assert "- first: always use tabs" in said(w.requests[-1].transcript[1])
        assert all(not r.tools for r in w.requests[2:4])


async def test_t8_failed_summary_leaves_the_history(
    autojump_clock: MockClock,
) -> None:
    broken: Answer = [Fail(AuthFailed("no key"))]
    async with world(*TALK, broken, DONE, info=INFO) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        played = await w.play("third")
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        assert played.one(CompactionEnded).outcome == "failed"
        notice = played.one(Notice)
        assert (notice.code, notice.level) == ("compaction_failed", "warning")
        assert "scripted/model: no key" in notice.text
        assert w.session.state.transcript[: len(before)] == before
        w.will_say(saying(summary()), DONE)
        assert (await w.play("and now?")).stop_reason == "completed"


async def test_t8_failed_summary_of_full_window_ends_turn(autojump_clock: MockClock) -> None:
    broken: Answer = [Fail(AuthFailed("no key"))]
    answers = (saying(f"One. {LONG}", Usage(input=10, output=9_000)), saying(LONG, Usage(input=9_020, output=12_000)))
    async with world(*answers, broken, DONE, info=INFO) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        played = await w.play("third")
        assert played.stop_reason == "blocking_limit"
        assert "can't fit into the model's window" in played.result.detail
        assert w.session.state.transcript[: len(before)] == before


async def test_t7_ineffective_summary_ends_the_turn(
    autojump_clock: MockClock,
) -> None:
    async with world(saying("ok"), DONE, info=INFO) as w:
        await w.play(words(8_400))
        played = await w.play(words(9_700))
        assert played.stop_reason == "compaction_ineffective"
        assert "the user's words 18," in played.result.detail
        assert len(w.requests) == 1, "nobody is asked for a summary that can't help"
        w.will_say(DONE)
        assert (await w.play("short", settings=Settings(auto_compact=False))).stop_reason == "completed"


async def test_t7_assumed_window_refuses_no_request(autojump_clock: MockClock) -> None:
    assumed = attrs.evolve(INFO, context=8_192, output=2_048, is_known=False)
    async with world(saying("ok"), saying("again"), info=assumed, settings=Settings(system=words(9_000))) as w:
        assert (await w.play("hello")).stop_reason == "completed"
        assert (await w.play(words(9_000))).stop_reason == "completed"
        assert len(w.requests) == 2, "and no summary is asked for"


async def test_t7_refusal_measures_an_assumed_window(autojump_clock: MockClock) -> None:
    assumed = attrs.evolve(INFO, context=8_192, output=2_048, is_known=False)
    async with world(*TALK, TOO_LONG, saying(summary()), DONE, info=assumed) as w:
        await filled(w)
        played = await w.play("third")
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")


async def test_t7_small_window_is_used_up(autojump_clock: MockClock) -> None:
    small = attrs.evolve(INFO, context=8_192, output=4_096)
    async with world(saying("ok"), info=small, settings=Settings(system=words(6_500))) as w:
        assert (await w.play("hello")).stop_reason == "completed"


async def test_t7_window_smaller_than_system_prompt(autojump_clock: MockClock) -> None:
    settings = Settings(system=words(19_000))
    async with world(saying("ok"), info=INFO, settings=settings) as w:
        played = await w.play("hello")
        assert played.stop_reason == "compaction_ineffective"
        assert "there is nothing to summarise. What fills the window: about 19," in played.result.detail
        assert "system 19,000" in played.result.detail


async def test_t8_long_history_is_summarised_in_pieces(autojump_clock: MockClock) -> None:
    small = attrs.evolve(INFO, context=8_000, output=1_000)
    big = attrs.evolve(INFO, context=200_000)
    model = ScriptedProvider([saying(words(1_400, f"topic{n}")) for n in range(16)], info=big)
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session(cwd="/opt")
        for n in range(16):
            await session.run(f"question {n}")
        model.info = small

        def summarise(request: ModelRequest) -> Answer:
            assert asked_for_a_summary(request)
            return saying(summary(done=f"- piece {len(model.requests) - 16}"))

        model.script = [*[saying("")] * 16, *[summarise] * 20]
        result = await session.context.compact()
        assert (result.stop_reason, result.detail) == ("completed", "")
        asked = model.requests[16:]
        assert len(asked) > 2
        assert "<record>" not in said(asked[0].transcript[0])
        assert all("- piece" in said(r.transcript[0]) for r in asked[1:]), "each has the summary of those before it"
        assert f"- piece {len(asked)}" in said(session.state.transcript[1])


async def test_t8_second_summary_builds_on_the_first(autojump_clock: MockClock) -> None:
    async with world(*TALK, saying(summary(facts="- the port is 8021")), saying(LONG), saying(LONG), info=INFO) as w:
        await filled(w)
        await w.play("third")
        w.will_say(saying(LONG))
        await w.play("fourth")
        w.will_say(saying(summary(facts="- the port is 8021")), DONE)
        played = await w.play("fifth")
        asked = said(w.requests[-2].transcript[0])
        assert asked.startswith("<record>\n## Objective")
        assert "the port is 8021" in asked
        assert played.stop_reason == "completed"
        assert origins(w.requests[-1]) == ["user", "summary", "user"], "one record, not two"


# -- going on ----------------------------------------------------------------------------------------------------------


async def test_t11_interrupted_model_is_asked_to_continue(autojump_clock: MockClock) -> None:
    script = (fetching(7_000, "a"), fetching(7_000, "b"), fetching(7_000, "c"), saying(summary()), DONE)
    async with world(*script, info=INFO, tools=[fetch]) as w:
        played = await w.play("fetch all")
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        assert played.reasons == ["next_step", "next_step", "next_step", "compacted"]
        sent = w.requests[-1].transcript
        assert check_transcript(sent) == []
        assert origins(w.requests[-1]) == ["user", "summary", "continue"]
        assert "the user has said nothing new" in said(sent[-1])
        assert said(sent[0]) == "fetch all"


async def test_t11_automatic_continuations_are_bounded(autojump_clock: MockClock) -> None:
    def answer(request: ModelRequest) -> Answer:
        if asked_for_a_summary(request):
            return saying(summary())
        return fetching(7_000, f"n{len(w.requests)}")

    async with world(answer, repeat=True, info=INFO, tools=[fetch]) as w:
        played = await w.play(settings=Settings(auto_continue=2))
        assert played.stop_reason == "blocking_limit"
        assert "may not go on by itself any more" in played.result.detail
        assert played.reasons.count("compacted") == 2
        assert len(played.all(CompactionEnded)) == 3, "the last one leaves room for the next prompt"
        await w.goes_on()


async def test_t11_new_user_message_replaces_the_continuation(autojump_clock: MockClock) -> None:
    def answer(request: ModelRequest) -> Answer:
        if asked_for_a_summary(request):
            return saying(summary())
        if any("mind the port" in said(message) for message in request.transcript):
            return DONE
        return fetching(7_000, f"n{len(w.requests)}")

    begun = 0

    async def speak(turn: Turn, event: Seen) -> None:
        nonlocal begun
        if isinstance(event, CompactionStarted):
            begun += 1
            if begun == 2:
                turn.steer("And mind the port.")

    async with world(answer, repeat=True, info=INFO, tools=[fetch]) as w:
        played = await w.play(settings=Settings(auto_continue=1), react=speak)
        assert (played.stop_reason, played.result.text, begun) == ("completed", "Done.", 2)
        assert origins(w.requests[-1])[-1] == "steer"
        assert w.session.state.inbox == ()


async def test_t11_hook_can_prevent_continuation(autojump_clock: MockClock) -> None:
    async def stays(compacting: Compacting) -> CompactionDecision:
        return CompactionDecision(continues=False)

    script = (fetching(7_000, "a"), fetching(7_000, "b"), fetching(7_000, "c"), saying(summary()), DONE)
    async with world(*script, info=INFO, tools=[fetch], hooks=Hooks(before_compaction=(stays,))) as w:
        played = await w.play("fetch all")
        assert (played.stop_reason, len(w.requests)) == ("hook_stopped", 4)
        assert [m.origin for m in w.session.state.transcript if isinstance(m, UserMessage)] == ["user", "summary"]
        await w.goes_on()


async def test_t11_overflowing_fresh_message_stays_last(autojump_clock: MockClock) -> None:
    large = attrs.evolve(INFO, context=100_000)
    async with world(*TALK, TOO_LONG, saying(summary()), DONE, info=large) as w:
        await filled(w)
        played = await w.play("the third word")
        assert (played.stop_reason, played.reasons) == ("completed", ["reactive_compact_retry"])
        assert played.one(CompactionStarted).trigger == "overflow"
        sent = [said(m) for m in w.requests[-1].transcript]
        assert sent[-1] == "the third word"
        assert sum("the third word" in one for one in sent) == 1


async def test_t11_overflow_clears_old_results_first(autojump_clock: MockClock) -> None:
    large = attrs.evolve(INFO, context=100_000)
    script = (fetching(9_000, "a"), fetching(9_000, "b"), fetching(9_000, "c"), TOO_LONG, DONE)
    async with world(*script, info=large, tools=[fetch]) as w:
        played = await w.play("fetch all")
        assert (played.stop_reason, played.reasons[-1]) == ("completed", "overflow_prune_retry")
        assert [e.kind for e in played.all(HistoryReplaced)] == ["collapse"]


async def test_t11_rejected_request_measures_the_window(
    autojump_clock: MockClock,
) -> None:
    most = 1_000_000

    def answer(request: ModelRequest) -> Answer:
        if asked_for_a_summary(request):
            return saying(summary())
        size = sum(len(said(message)) for message in request.transcript)
        return TOO_LONG if size > most else saying(words(1_900, f"topic{len(request.transcript)}"))

    async with world(answer, repeat=True, info=attrs.evolve(INFO, context=1_000_000)) as w:
        for _ in range(20):
            await w.play()
        most = 50_000
        played = await w.play()
        assert played.stop_reason == "completed"
        assert played.reasons == ["reactive_compact_retry"]
        assert played.one(CompactionEnded).outcome == "compacted"


@pytest.mark.parametrize("usage", [True, False], ids=["counted", "not counted"])
async def test_t11_measured_window_is_kept(
    autojump_clock: MockClock,
    usage: bool,
) -> None:
    refused = steps = 0

    def answer(request: ModelRequest) -> Answer:
        nonlocal refused, steps
        size = sum(len(said(message)) for message in request.transcript) // 4
        if size > 9_000:
            refused += 1
            return TOO_LONG
        if asked_for_a_summary(request):
            return saying(summary())
        steps += 1
        counted = Usage(input=size + 50, output=30) if usage else None
        return fetching(1_500, f"n{steps}", counted) if steps % 20 else saying("Done.", counted)

    info = attrs.evolve(INFO, context=200_000, output=1_000)
    async with world(answer, repeat=True, info=info, tools=[fetch]) as w:
        first = await w.play("fetch all", settings=Settings(auto_continue=20))
        assert (first.stop_reason, refused) == ("completed", 1)
        for _ in range(2):
            assert (await w.play("again", settings=Settings(auto_continue=20))).stop_reason == "completed"
        assert refused == 1, "each later overflow was foreseen"
        assert w.session.context.report().context < 10_000
        # What can't be made small enough for a window that is a guess is sent all the same.
        steps = 19
        other = await w.engine.create_session(cwd="/opt")
        last = await w.play(words(8_990), session=other)
        assert (last.stop_reason, refused) == ("completed", 1)
        assert last.one(CompactionEnded).outcome == "failed"


async def test_t11_an_overflow_twice_surfaces_once(autojump_clock: MockClock) -> None:
    large = attrs.evolve(INFO, context=100_000)
    async with world(*TALK, TOO_LONG, saying(summary()), TOO_LONG, DONE, info=large) as w:
        await filled(w)
        played = await w.play("third")
        assert (played.stop_reason, played.result.detail) == ("prompt_too_long", "prompt is too long")
        await w.goes_on()


async def test_t11_oversized_media_need_no_summary(
    autojump_clock: MockClock,
) -> None:
    plan = FilePart(media_type="application/pdf", data="A" * 1_000, name="plan.pdf")
    async with world([Fail(MediaTooLarge("document too large"))], DONE) as w:
        async with w.session.prompt("read it", attachments=[plan]) as turn:
            result = await turn.wait()
        assert (result.stop_reason, len(w.requests)) == ("completed", 2)
        (message,) = w.requests[-1].transcript
        assert isinstance(message, UserMessage)
        parts = [part.text for part in message.parts if isinstance(part, TextPart)]
        assert "a file 'plan.pdf' of type application/pdf" in parts[0]
        assert parts[1] == "read it"


# -- by hand, and back -------------------------------------------------------------------------------------------------


async def test_t11_manual_compaction_makes_no_further_request(autojump_clock: MockClock) -> None:
    async with world(saying("One."), saying("Two."), saying(summary(done="- both")), info=INFO) as w:
        await filled(w)
        result = await w.session.context.compact("keep the names")
        assert (result.stop_reason, result.text, len(w.requests)) == ("completed", "", 3)
        assert said(w.requests[2].transcript[0]).endswith("Heed this besides:\nkeep the names")
        assert w.session.state.status.__class__.__name__ == "Idle"
        assert [m.origin for m in w.session.state.transcript if isinstance(m, UserMessage)] == [
            "user",
            "summary",
            "user",
        ]
        await w.goes_on()


async def test_manual_compaction_explains_failure(autojump_clock: MockClock) -> None:
    async with world(saying("One."), [Fail(AuthFailed("no key"))], info=INFO) as w:
        empty = await w.session.context.compact()
        assert (empty.stop_reason, w.requests) == ("compaction_ineffective", [])
        await w.play("first")
        await w.play("second", settings=Settings())
        failed = await w.session.context.compact()
        assert (failed.stop_reason, failed.detail) == (
            "provider_error",
            "scripted/model: the script has 2 answers; this is request 3",
        )
        async with w.session.prompt("busy"):
            with pytest.raises(SessionBusy):
                await w.session.context.compact()
            with pytest.raises(SessionBusy):
                await w.session.context.undo_compaction()


async def test_manual_compaction_without_keeper(autojump_clock: MockClock) -> None:
    async with world(saying("One."), keeper=NoKeeper()) as w:
        await w.play("first")
        assert (await w.session.context.compact()).stop_reason == "hook_stopped"
        assert w.session.context.report().tokens > 0


async def test_t8_compaction_is_undone_with_later_turns(autojump_clock: MockClock) -> None:
    async with world(saying("One."), saying("Two."), saying(summary()), saying("Three."), info=INFO) as w:
        with pytest.raises(SessionError, match="there is no compaction"):
            await w.session.context.undo_compaction()
        await filled(w)
        before = w.session.state.transcript[:]
        await w.session.context.compact()
        await w.play("third")
        await w.session.context.undo_compaction()
        assert [said(m) for m in w.session.state.transcript] == [*(said(m) for m in before), "third", "Three."]
        with pytest.raises(SessionError, match="there is no compaction"):
            await w.session.context.undo_compaction()
        await w.check(w.session, [])
        await w.goes_on()


async def test_t8_compaction_undone_with_its_turn(
    autojump_clock: MockClock,
) -> None:
    async with world(*TALK, saying(summary()), DONE, info=INFO) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        await w.play("third")
        await w.session.files.undo(force=True)
        assert w.session.state.transcript[:] == before
        with pytest.raises(SessionError, match="there is no compaction"):
            await w.session.context.undo_compaction()
        await w.session.files.redo(force=True)
        await w.session.context.undo_compaction()
        assert [said(m) for m in w.session.state.transcript][-2:] == ["third", "Done."]
        assert w.session.state.transcript[: len(before)] == before


async def test_t8_compaction_of_undone_turn_hides_no_other(
    autojump_clock: MockClock,
) -> None:
    async with world(*TALK, saying(summary()), *[saying(LONG)] * 2, saying(summary()), DONE, info=INFO) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        assert (await w.session.context.compact()).stop_reason == "completed"
        await w.play("third")
        assert (await w.play("fourth")).all(CompactionEnded) == []
        assert len((await w.play("fifth")).all(CompactionEnded)) == 1
        await w.session.files.undo(force=True)
        w.will_say(DONE)
        await w.play("sixth", settings=Settings(auto_compact=False))
        await w.session.context.undo_compaction()
        assert w.session.state.transcript[: len(before)] == before
        assert [said(m) for m in w.session.state.transcript][-2:] == ["sixth", "Done."]


async def test_t8_compactions_are_undone_one_by_one(autojump_clock: MockClock) -> None:
    async with world(
        saying("One."), saying("Two."), saying(summary()), saying("Three."), saying(summary()), info=INFO
    ) as w:
        await filled(w)
        before = [said(m) for m in w.session.state.transcript]
        await w.session.context.compact()
        await w.play("third")
        await w.session.context.compact()
        await w.session.context.undo_compaction()
        assert [said(m) for m in w.session.state.transcript][-2:] == ["third", "Three."]
        await w.session.context.undo_compaction()
        assert [said(m) for m in w.session.state.transcript] == [*before, "third", "Three."]


# -- hooks and hosts ---------------------------------------------------------------------------------------------------


async def test_hooks_extend_replace_or_write_the_summary(autojump_clock: MockClock) -> None:
    decision = CompactionDecision(instructions="mind the ports")
    seen: list[Compacting] = []
    after: list[Compacted] = []

    async def before(compacting: Compacting) -> CompactionDecision:
        seen.append(compacting)
        return decision

    async def told(compacted: Compacted) -> None:
        after.append(compacted)

    hooks = Hooks(before_compaction=(before,), after_compaction=(told,))
    async with world(saying("One."), saying("Two."), saying(summary()), saying("a poem"), info=INFO, hooks=hooks) as w:
        await filled(w)
        await w.session.context.compact("and the names")
        assert said(w.requests[-1].transcript[0]).endswith("and the names\nmind the ports")
        assert [said(m) for m in seen[0].transcript] == ["first: always use tabs", "One.", "second", "Two."]
        assert (seen[0].trigger, seen[0].instructions, after[0].trigger) == ("manual", "and the names", "manual")
        await w.session.context.undo_compaction()
        decision = CompactionDecision(prompt="Make a poem of it.")
        await w.session.context.compact()
        assert said(w.requests[-1].transcript[0]).startswith("Make a poem of it.\n\n<conversation>\n[user]\nfirst")
        assert "a poem" in said(w.session.state.transcript[1])
        await w.session.context.undo_compaction()
        decision = CompactionDecision(summary="It was written by hand.")
        asked = len(w.requests)
        await w.session.context.compact()
        assert len(w.requests) == asked
        assert "It was written by hand." in said(w.session.state.transcript[1])


async def test_t12_a_host_may_write_summaries_itself(autojump_clock: MockClock) -> None:
    told: list[str] = []

    async def summarise(head: Sequence[Message], previous: str) -> str:
        await trio.lowlevel.checkpoint()
        told.append(previous)
        return f"{len(head)} messages"

    async with world(
        saying("One."), saying("Two."), saying("Three."), info=INFO, keeper=Keeper(summarise=summarise)
    ) as w:
        await filled(w)
        assert (await w.session.context.compact()).stop_reason == "completed"
        await w.play("third")
        assert (await w.session.context.compact()).stop_reason == "completed"
        assert told == ["", "3 messages"]
        assert len(w.requests) == 3


@pytest.mark.parametrize("returned", ["", None, 5, ValueError("broken")])
async def test_t12_failing_host_summariser_leaves_the_history(autojump_clock: MockClock, returned: object) -> None:
    async def summarise(head: Sequence[Message], previous: str) -> str:
        await trio.lowlevel.checkpoint()
        if isinstance(returned, Exception):
            raise returned
        return returned  # type: ignore[return-value]  # a host may be untyped

    async with world(saying("One."), saying("Two."), info=INFO, keeper=Keeper(summarise=summarise)) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        result = await w.session.context.compact()
        assert result.stop_reason == "provider_error"
        assert result.detail.startswith("the host's summariser")
        assert w.session.state.transcript[:] == before


async def test_cancelled_compaction_counts_its_usage(
    autojump_clock: MockClock,
) -> None:
    slow: Answer = [*saying("half", Usage(input=70)), Pause(60)]
    async with world(*TALK, slow, DONE, info=INFO) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        async with w.session.prompt("third") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", "waiting")
        assert w.session.state.transcript[: len(before)] == before
        ended = [e for e in w.session.events() if isinstance(e, CompactionEnded)]
        assert [(e.outcome, e.usage) for e in ended] == [("cancelled", Usage(input=70))]
        w.will_say(saying(summary()), DONE)
        assert (await w.play("and now?")).stop_reason == "completed"


# -- the report --------------------------------------------------------------------------------------------------------


async def test_context_report_shows_what_fills_the_window(autojump_clock: MockClock) -> None:
    settings = Settings(system=words(500))
    async with world(fetching(3_000, "a"), DONE, info=INFO, tools=[fetch], settings=settings) as w:
        await w.play("fetch")
        report = w.session.context.report()
        shares = {share.kind: share.tokens for share in report.shares}
        assert next(iter(shares)) == "results of fetch"
        assert set(shares) == {
            "results of fetch",
            "system",
            "tools",
            "calls of fetch",
            "the user's words",
            "the model's words",
        }
        assert shares["system"] == pytest.approx(500, rel=0.1)
        assert sum(shares.values()) == pytest.approx(report.tokens, abs=3)
        assert report.free == report.usable - report.tokens
        text_ = report.as_text()
        assert text_.startswith("scripted/model: about 3,")
        assert "results of fetch" in text_
        assert '"kind": "results of fetch"' in report.as_json()


def test_a_keeper_takes_whole_numbers() -> None:
    for value in (-1, 1.5, True, "x"):
        with pytest.raises(ConfigError):
            Keeper(reserve=value)  # type: ignore[arg-type]  # a host may be untyped


# -- the edges ---------------------------------------------------------------------------------------------------------


async def test_t8_too_large_first_result_is_cut(
    autojump_clock: MockClock,
) -> None:
    small = attrs.evolve(INFO, context=12_000)
    async with world(fetching(30_000, "a"), DONE, info=small, tools=[fetch]) as w:
        played = await w.play("fetch it")
        assert (played.stop_reason, len(w.requests)) == ("completed", 2)
        assert played.one(CompactionEnded).detail == "long texts of the newest messages were truncated"
        sent = w.requests[-1].transcript
        assert check_transcript(sent) == []
        assert "call fetch with the same arguments" in said(sent[2])
        assert origins(w.requests[-1]) == ["user", "continue"]


async def test_t8_smaller_summariser_window_gets_smaller_pieces(autojump_clock: MockClock) -> None:
    asked: list[int] = []

    def answer(request: ModelRequest) -> Answer:
        if not asked_for_a_summary(request):
            return saying(words(2_900, f"topic{len(w.requests)}"))
        asked.append(len(said(request.transcript[0])))
        return TOO_LONG if asked[-1] > 20_000 else saying(summary())

    async with world(answer, repeat=True, info=INFO) as w:
        for _ in range(5):
            await w.play()
        result = await w.session.context.compact()
        assert (result.stop_reason, result.detail) == ("completed", "")
        assert (asked[0] > 20_000, all(size <= 20_000 for size in asked[-2:])) == (True, True)


async def test_t8_fallback_summariser_gets_its_own_sizes(
    autojump_clock: MockClock,
) -> None:
    down: Answer = [Fail(AuthFailed("no key"))]
    own = ScriptedProvider([down], info=ModelInfo(name="own/large", context=1_000_000), repeat=True)
    asked: list[int] = []

    def answer(request: ModelRequest) -> Answer:
        if not asked_for_a_summary(request):
            return saying(words(2_900, f"topic{len(w.requests)}"))
        asked.append(len(said(request.transcript[0])))
        return TOO_LONG if asked[-1] > 50_000 else saying(summary())

    async with world(answer, repeat=True, info=attrs.evolve(INFO, context=200_000)) as w:
        for _ in range(25):
            await w.play()
        w.model.info = INFO
        live_session(w.session).deps = attrs.evolve(
            live_session(w.session).deps, summariser=own
        )  # as the configuration has it
        result = await w.session.context.compact()
        assert (result.stop_reason, result.detail) == ("completed", "")
        assert asked[0] > 50_000
        assert all(size <= 50_000 for size in asked[1:]), "no further try is wasted on the other's window"


async def test_t8_omitted_content_is_reported() -> None:
    rules = "\n".join(f"You must do {words(200, str(n))}." for n in range(30))
    talk = [answers(words(2_000), id=f"t{n}") for n in range(200)]
    written = [m for n in range(60) for m in exchange(n, "write", "ok", path=f"{n}/{'x' * 400}")]
    shown = view([says(rules), *talk, *written], info=ModelInfo(name="scripted/model", context=32_000, output=3_000))
    made = await Keeper().compact(shown, Written(summary()), CompactionRequest(trigger="manual"))
    assert isinstance(made, Compaction)
    assert [re.sub(r"[\d,]*\d", "N", told) for told in made.remark.split("; ")] == [
        "the history is too long for the number of requests: N of N parts, in its middle, were not summarised",
        "N old rules of the user are no longer preserved word for word",
        "N files that were touched long ago are no longer listed",
    ]


async def test_t8_dropped_rule_is_shown_to_the_summariser() -> None:
    asked: list[str] = []

    async def summarise(head: Sequence[Message], previous: str) -> str:
        await trio.lowlevel.checkpoint()
        asked.append(previous)
        return summary()

    info = ModelInfo(name="scripted/model", context=8_000, output=800)
    messages: list[Message] = [says("go", id="u0"), answers(words(3_000), id="a0")]
    carried: set[int] = set()
    for n in range(14):
        rule = f"You must keep function {n} as it is, {words(150, f'rule{n}')}"
        messages += [says(rule, id=f"u{n + 1}"), answers(words(5_000), id=f"a{n + 1}"), says("and", id=f"v{n}")]
        made = await Keeper(summarise=summarise).compact(
            view(messages, info=info), Written(""), CompactionRequest(trigger="full")
        )
        assert isinstance(made, Compaction)
        messages = list(made.messages)
        (record,) = [m for m in messages if isinstance(m, UserMessage) and m.origin == "summary"]
        carried = {one for one in range(14) if f"function {one} as" in record.text}
    shown = {one for one in range(14) if any(f"- You must keep function {one} as" in previous for previous in asked)}
    assert 1 < len(carried) < 14
    assert shown == set(range(14)) - carried


def test_t8_rules_carry_over_from_earlier_records() -> None:
    assert add_rules("", ["a"]) == ""
    assert add_rules("x", []) == "x"
    assert parse_sections(add_rules(summary(decisions="- b"), ["a"]))["decisions"] == "- a\n- b"
    assert add_rules("## Aim\n- x", ["a"]) == "## Aim\n- x\n\n## Decisions\n- a"


async def test_t12_content_filter_counts_as_refusal(autojump_clock: MockClock) -> None:
    filtered: Answer = [Fail(ContentFiltered("not with us"))]
    async with world(*TALK, filtered, filtered, DONE, info=INFO) as w:
        await filled(w)
        played = await w.play("third")
        assert played.stop_reason == "completed"
        assert played.one(CompactionEnded).detail.startswith("the model's summary was unusable (it is a refusal)")


async def test_t8_tiny_summariser_window_is_a_failure(autojump_clock: MockClock) -> None:
    async with world(*TALK, *[TOO_LONG] * 3, DONE, info=INFO) as w:
        await filled(w)
        result = await w.session.context.compact()
        assert result.stop_reason == "provider_error"
        assert "even a small part of the history is too large" in result.detail


async def test_t7_too_long_summary_changes_nothing(autojump_clock: MockClock) -> None:
    async def writes_much(compacting: Compacting) -> CompactionDecision:
        return CompactionDecision(summary=words(17_000))

    async with world(*TALK, DONE, info=INFO, hooks=Hooks(before_compaction=(writes_much,))) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        played = await w.play("third")
        assert played.stop_reason == "compaction_ineffective"
        assert played.result.detail.startswith("the summary leaves about 17,")
        assert w.session.state.transcript[: len(before)] == before


async def test_self_corrected_answer_is_read_as_corrected(autojump_clock: MockClock) -> None:
    corrected: Answer = [TextStarted("1"), TextChunk("1", "nonsense"), TextDone("1", summary(done="- right")), *done()]
    async with world(*TALK, [*reasoning("hm"), *corrected], info=INFO) as w:
        await filled(w)
        await w.session.context.compact()
        assert "- right" in said(w.session.state.transcript[1])


async def test_t12_host_summariser_is_cancelled_with_the_turn(autojump_clock: MockClock) -> None:
    async def summarise(head: Sequence[Message], previous: str) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)
        return "never"

    async with world(saying("One."), saying("Two."), info=INFO, keeper=Keeper(summarise=summarise)) as w:
        await filled(w)
        before = w.session.state.transcript[:]
        with trio.move_on_after(5) as scope:
            await w.session.context.compact()
        assert scope.cancelled_caught
        assert w.session.state.transcript[:] == before
        assert w.session.state.turn is None


async def test_manual_compaction_works_without_auto_compact(autojump_clock: MockClock) -> None:
    async with world(*TALK, saying(summary()), info=INFO, keeper=Keeper(auto=False)) as w:
        await filled(w)
        assert (await w.session.context.compact()).stop_reason == "completed"


async def test_compaction_cannot_be_undone_after_other_changes(autojump_clock: MockClock) -> None:
    async with world(saying("One."), saying("Two."), saying(summary()), info=INFO) as w:
        await filled(w)
        await w.session.context.compact()
        messages = w.session.state.transcript[1:]
        live_session(w.session).journal.append(HistoryReplaced(kind="prune", messages=messages))
        with pytest.raises(SessionError, match="changed in other ways"):
            await w.session.context.undo_compaction()
        live_session(w.session).journal.append(HistoryReplaced(kind="import", messages=messages))
        with pytest.raises(SessionError, match="there is no compaction"):
            await w.session.context.undo_compaction()


async def test_configuration_sets_summariser_and_auto_compact(
    autojump_clock: MockClock,
) -> None:
    config = read_config(
        b'[compaction]\nauto = false\nmodel = "ollama/small"\nreserve = 5000\ntail = 0\nclear = false', "c.toml"
    )
    assert config.compaction == CompactionConfig(auto=False, model="ollama/small", reserve=5_000, tail=0, clear=False)
    model = ScriptedProvider([saying(LONG), saying(LONG), saying(LONG), TOO_LONG], info=INFO)
    async with engine.open_engine(model=model, config=config) as eng:
        session = await eng.create_session(cwd="/opt")
        for _ in range(3):
            assert (await session.run("go")).stop_reason == "completed"
        assert (await session.run("go")).stop_reason == "prompt_too_long"
        summariser = live_session(session).deps.summariser  # as nothing else shows it
        assert summariser is not None
        assert summariser.info.name == "ollama/small"


@pytest.mark.parametrize(
    ("text_", "told"),
    [
        ("[compaction]\nreserve = -1", "reserve must be a whole number of tokens"),
        ('[compaction]\nauto = "yes"', "auto"),
        ('[compaction]\nmodel = "nothing"', "a model's name must have the form host/model"),
        ("[compaction]\nkeep = 5", "keep"),
        ("compaction = 5", "must be a table"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(text_: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_config(text_.encode(), "c.toml")

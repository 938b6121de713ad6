"""Hypothesis strategies for scripts, calls, settings, answers and cancels. Needs the extra `testing`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import get_args

import trio
from hypothesis import strategies as st

from engine.core.errors import ContextOverflow, Overloaded, ProviderError, RateLimited
from engine.core.hooks import Hooks, StopDecision, Stopping, Subject, ToolDecision, ToolUse
from engine.core.llm_types import StreamEvent
from engine.core.messages import FinishReason, Usage
from engine.core.settings import Limits, Settings
from engine.session.answer_types import Always, Answer, Once, Reject
from engine.testing.cancellation.injections import Injection
from engine.testing.fake_tools import BEHAVIOURS
from engine.testing.harness import Scenario
from engine.testing.script import Break, Fail, Pause, ScriptItem, call, done, reasoning, text
from engine.testing.turn_points import WAYS

_FINISHES: tuple[FinishReason, ...] = get_args(FinishReason)
_SECONDS = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.7])


@st.composite
def calls(draw: st.DrawFn, *, keys: itertools.count[int], depth: int = 1) -> tuple[StreamEvent, ...]:
    """One call of a fake tool; its key names a side effect that must not happen twice."""
    tools = ["look", "work", "sub"] if depth else ["look", "work"]
    # A counter, not a drawn number: shrinking must not make two keys equal.
    number = next(keys)
    arguments = {"key": f"key {number}", "seconds": draw(_SECONDS), "manner": draw(st.sampled_from(BEHAVIOURS))}
    pieces = draw(st.integers(1, 3))
    return call(draw(st.sampled_from(tools)), arguments, id=f"c{number}", pieces=pieces)


@st.composite
def answers(draw: st.DrawFn, *, keys: itertools.count[int]) -> Sequence[ScriptItem]:
    """One answer: blocks of text, reasoning and calls, sometimes interleaved, pauses, and a good or bad end."""
    blocks: list[Sequence[ScriptItem]] = []
    for number in range(draw(st.integers(0, 4))):
        # Calls twice: most of what can go wrong is about them.
        kind = draw(st.sampled_from(["text", "reasoning", "call", "call", "pause"]))
        pieces = draw(st.integers(1, 3))
        match kind:
            case "text":
                blocks.append(text(draw(st.text("abé\ud83d ", max_size=6)), id=f"t{number}", pieces=pieces))
            case "reasoning":
                blocks.append(reasoning("thinking", id=f"r{number}", pieces=pieces, signature="sig"))
            case "pause":
                blocks.append([Pause(draw(_SECONDS))])
            case _:
                blocks.append(draw(calls(keys=keys)))
    items = _interleaved(blocks) if draw(st.booleans()) else [item for block in blocks for item in block]
    return [*items, *draw(ends())]


def _interleaved(blocks: Sequence[Sequence[ScriptItem]]) -> list[ScriptItem]:
    # Takes one item of each block in turn, as hosts send parallel blocks.
    rounds = itertools.zip_longest(*blocks)
    return [item for items in rounds for item in items if item is not None]


@st.composite
def ends(draw: st.DrawFn) -> Sequence[ScriptItem]:
    """How an answer ends: any finish, none at all, a break, an error."""
    # Mostly a finish, or turns would rarely get past their first answer.
    kind = draw(st.sampled_from(["finish"] * 5 + ["nothing", "break", "fail"]))
    match kind:
        case "finish":
            usage = Usage(input=draw(st.integers(0, 500)), output=draw(st.integers(0, 500)))
            return done(draw(st.sampled_from(_FINISHES)), usage=usage)
        case "break":
            return [Break()]
        case "fail":
            return [Fail(draw(failures()))]
        case _:
            return []


def failures() -> st.SearchStrategy[ProviderError]:
    """Errors of a host, retryable and not."""
    return st.sampled_from(
        [
            Overloaded("busy", retryable=True),
            RateLimited("slow down", retry_after=0.5),
            RateLimited("come back tomorrow", retry_after=86_400, reset_at=1.0),
            ContextOverflow("too long"),
            ProviderError("no"),
        ]
    )


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    """Limits and switches of a turn."""
    limits = Limits(
        steps=draw(st.none() | st.integers(1, 4)),
        tokens=draw(st.none() | st.integers(1, 2_000)),
        seconds=draw(st.none() | st.sampled_from([0.0, 0.2, 1.0, 5.0])),
    )
    return Settings(
        limits=limits,
        wrap_up=draw(st.booleans()),
        parallel=draw(st.integers(1, 4)),
        chain=draw(st.booleans()),
        token_target=draw(st.none() | st.just(1_000)),
        question_timeout=draw(st.none() | st.just(1.5)),
    )


def replies() -> st.SearchStrategy[Answer | None]:
    """Answers to questions; None leaves a question open."""
    return st.sampled_from([Once(), Always(), Reject(), Reject("not so"), None])


async def _slow(use: ToolUse) -> ToolDecision | None:
    await trio.sleep(0.1)
    return None


async def _broken(use: ToolUse) -> ToolDecision | None:
    raise RuntimeError("the hook is broken")


async def _stops(use: ToolUse) -> ToolDecision | None:
    return ToolDecision(stop=True, reason="enough")


async def _slow_anywhere(subject: Subject) -> None:
    await trio.sleep(0.1)


async def _broken_anywhere(subject: Subject) -> None:
    raise RuntimeError("the hook is broken")


async def _blocks(stopping: Stopping) -> StopDecision | None:
    return StopDecision(verdict="block", reason="go on")


@st.composite
def hooks(draw: st.DrawFn) -> Hooks:
    """Hooks that are slow, fail, or stop the turn."""
    # Mostly none: a hook that fails or stops ends the turn early.
    tool_hooks = st.sampled_from([(), (), (), (_slow,), (_broken,), (_stops,)])
    anywhere = st.sampled_from([(), (), (), (), (_slow_anywhere,), (_broken_anywhere,)])
    return Hooks(
        user_prompt=draw(anywhere),
        request=draw(anywhere),
        before_tool=draw(tool_hooks),
        permission_request=draw(anywhere),
        after_tool=draw(tool_hooks),
        tool_failed=draw(tool_hooks),
        stop=draw(st.sampled_from([(), (), (_blocks,)])),
        sub_agent_stop=draw(st.sampled_from([(), (), (_blocks,)])),
        task_completed=draw(anywhere),
        before_compaction=draw(anywhere),
        after_compaction=draw(anywhere),
        notification=draw(anywhere),
        idle=draw(anywhere),
        session_end=draw(anywhere),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A whole scenario."""
    keys = itertools.count(1)
    turn_settings = draw(settings())
    asks = draw(st.booleans())
    # An unanswered question without a timeout would wait for ever.
    reply = draw(replies().filter(lambda answer: answer is not None or turn_settings.question_timeout is not None))
    return Scenario(
        script=draw(st.lists(answers(keys=keys), min_size=1, max_size=3)),
        settings=turn_settings,
        hooks=draw(hooks()),
        asks=asks,
        reply=lambda _: reply,
        steers=tuple((n, f"steer {n}") for n in range(1, draw(st.integers(0, 2)) + 1)),
        store_delay=draw(st.sampled_from([0.0, 0.0, 0.02])),
        batch=draw(st.sampled_from([1, 3, 100])),
        breaks_after=draw(st.none() | st.integers(1, 30)),
    )


@st.composite
def injections(draw: st.DrawFn, *, points: int) -> Injection:
    """A cancel in a run with this many *points*: how, where, and how much later its second part comes."""
    return Injection(
        way=draw(st.sampled_from(WAYS)), point=draw(st.integers(0, max(0, points - 1))), second=draw(st.integers(1, 20))
    )

"""Whatever is said and done: requests stay valid and inside the window, the newest words stay, and turns end."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import engine
from engine.compaction.compaction_policy import Keeper
from engine.compaction.token_estimate import message_tokens
from engine.config.host_values import WireName
from engine.core.compaction_types import Compaction, CompactionRequest, NotCompacted
from engine.core.errors import ContextOverflow
from engine.core.events import CompactionEnded, CompactionStarted
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import Message, Transcript, UserMessage
from engine.journal.fold import fold
from engine.permission.allow_all import AllowAll
from engine.providers.models.quirks_lookup import quirks_of
from engine.session.engine_options import PermissionOptions
from engine.session.session import live_session
from engine.testing.invariants import check_events, check_transcript
from engine.testing.script import Answer, Fail, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.testing.transcript_strategies import transcripts
from tests.properties.test_encodings import SPOKEN, check, encode, hosts_of, model_of
from tests.support.histories import Written, summary, view, words

SMALL = ModelInfo(name="scripted/model", context=4_000, output=400)


@attrs.frozen
class Size:
    """How much to say."""

    tokens: int = 10
    number: int = 0


@engine.tool(read_only=True)
async def fetch(args: Size, ctx: engine.ToolContext) -> str:
    """Say something long."""
    await trio.lowlevel.checkpoint()
    return words(args.tokens)


# Nobody is there to be asked about circles.
WORK = engine.Settings(limits=engine.Limits(steps=12), headless="deny")


@attrs.frozen
class Said:
    """What a model does when it is asked for a step: fetch so much, say so much, or fail."""

    kind: str
    tokens: int


STEPS = st.lists(
    st.builds(Said, st.sampled_from(["fetch", "fetch", "say", "overflow"]), st.integers(0, 3_000)),
    min_size=1,
    max_size=8,
)
SUMMARIES = st.sampled_from([summary(), "", "no form", words(4_000), summary(done=words(900))])


def answer(step: Said, number: int) -> Answer:
    match step.kind:
        case "fetch":
            return [*call("fetch", {"tokens": step.tokens, "number": number}, id=f"c{number}"), *done("calls")]
        case "overflow":
            return [Fail(ContextOverflow("prompt is too long"))]
        case _:
            return [*text(words(step.tokens, f"word{number}") or "ok"), *done()]


async def _play(prompts: Sequence[int], steps: Sequence[Said], written: Sequence[str]) -> None:
    asked = 0

    def reply(request: ModelRequest) -> Answer:
        nonlocal asked
        asked += 1
        if request.system.startswith("You keep the record"):
            assert request.tools == ()
            return [*text(written[asked % len(written)]), *done()]
        assert check_transcript(request.transcript) == []
        newest = [m.text for m in request.transcript if isinstance(m, UserMessage) and m.origin == "user"][-1]
        assert newest == told, "the user's newest words are there, byte for byte"
        return answer(steps[asked % len(steps)], asked)

    model = ScriptedProvider([reply], info=SMALL, repeat=True)
    async with engine.open_engine(
        model=model, tools=[fetch], permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session(cwd="/opt")
        for number, size in enumerate(prompts):
            told = words(size, f"prompt {number}") or "go"
            async with session.prompt(told, settings=WORK) as turn:
                seen = [event async for event in turn]
            assert check_events(seen) == []
            assert check_transcript(session.state.transcript) == []
            assert fold(session.events()) == live_session(session).journal.state
            started = sum(isinstance(event, CompactionStarted) for event in seen)
            assert started == sum(isinstance(event, CompactionEnded) for event in seen)
        assert session.context.report().tokens > 0


@settings(max_examples=40)
@given(
    prompts=st.lists(st.integers(0, 2_500), min_size=1, max_size=4),
    steps=STEPS,
    written=st.lists(SUMMARIES, min_size=1, max_size=3),
)
def test_requests_stay_valid_and_turns_end(prompts: list[int], steps: list[Said], written: list[str]) -> None:
    trio.run(_play, prompts, steps, written, clock=MockClock(autojump_threshold=0))


def compacted(messages: Sequence[Message], written: str, context: int) -> Compaction | NotCompacted | None:
    shown = view(messages, info=ModelInfo(name="scripted/model", context=context, output=context // 10))
    return trio.run(Keeper().compact, shown, Written(written), CompactionRequest(trigger="full"))


@given(
    messages=transcripts(models=["anthropic/claude-sonnet-4-5", "openai/gpt-5"]),
    written=st.sampled_from([summary(), ""]),
    context=st.sampled_from([200, 2_000, 200_000]),
    wire=st.sampled_from(SPOKEN),
)
def test_every_wire_format_accepts_a_compacted_history(
    messages: tuple[Message, ...], written: str, context: int, wire: WireName
) -> None:
    made = compacted(messages, written, context)
    if not isinstance(made, Compaction):
        return
    said = [m for m in messages if isinstance(m, UserMessage) and m.origin == "user"]
    assert (said[0] in made.messages, said[-1] in made.messages) == (True, True)
    host = hosts_of(wire)[0]
    quirks = quirks_of(host, host.example)
    request = ModelRequest(model=model_of(host), system="be brief", transcript=Transcript(made.messages))
    check(wire, encode(host, quirks, request), quirks, request)


@given(messages=transcripts(models=["m"]), context=st.sampled_from([200, 2_000, 200_000]))
def test_compaction_never_exceeds_its_limit(messages: tuple[Message, ...], context: int) -> None:
    made = compacted(messages, summary(), context)
    if isinstance(made, Compaction) and made.source:
        assert made.after <= 0.9 * max(context - context // 10, context // 2)
        assert sum(message_tokens(m, "scripted/model") for m in made.messages) <= made.after + 20

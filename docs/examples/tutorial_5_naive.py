"""Chapter 5: the loop that everybody writes first, cancelled at three instants; then the engine, at the same instants."""

import json
from collections.abc import Iterable
from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.errors import ProviderError
from engine.events import (
    AssistantMessage,
    CallId,
    CallPart,
    CallResult,
    Message,
    MessageId,
    PartId,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers import ModelRequest, TextChunk, ToolCallChunk
from engine.testing import Answer, Fail, Pause, ScriptedProvider, call, check_transcript, done, text

# -- the same world for both: a model's host, and the work of a tool -----------------------


def host(request: ModelRequest) -> Answer:
    """Answer as a real host does: reject a call that has no result after it."""
    if check_transcript(request.transcript):
        return [Fail(ProviderError("HTTP 400: a tool_use without its tool_result"))]
    if len(request.transcript) > 1:
        return [*text("Not yet."), *done()]
    return [
        *text("I will run ", id="1"),
        Pause(1),
        *text("the unit tests.", id="2"),
        *call("run_tests", {"suite": "unit"}, id="3"),
        *done("calls"),
    ]


async def run(suite: str) -> str:
    await trio.sleep(1)
    # The author does not want a half-written report.
    with trio.CancelScope(shield=True):
        await trio.sleep(3)
    return f"{suite}: 12 passed"


# -- the naive loop ------------------------------------------------------------------------


async def naive_turn(model: ScriptedProvider, messages: list[Message]) -> None:
    while True:
        answer, arguments = "", ""
        stream = await model.open(ModelRequest(model="any", system="", transcript=Transcript(messages)))
        while batch := await stream.receive():
            for event in batch:
                if isinstance(event, TextChunk):
                    answer += event.text
                    log("on the screen:", repr(event.text))
                elif isinstance(event, ToolCallChunk):
                    arguments += event.text
        await stream.aclose()
        messages.append(assistant(answer, arguments))
        if not arguments:
            return
        messages.append(results(await run(**json.loads(arguments))))


async def naive(cancel_at: float) -> None:
    messages: list[Message] = [user("Is it ready?")]
    with trio.move_on_after(cancel_at):
        await naive_turn(ScriptedProvider([host]), messages)
    log("the turn is over")
    messages.append(user("Well?"))
    try:
        await naive_turn(ScriptedProvider([host]), messages)
    except ProviderError as error:
        log("the next turn fails:", error)
    show(messages)


# -- the engine ----------------------------------------------------------------------------


@attrs.frozen
class RunTests:
    """Run one suite of the project's tests and return its summary."""

    suite: Annotated[str, engine.doc("unit or browser")]


@engine.tool(read_only=True)
async def run_tests(args: RunTests, ctx: engine.ToolContext) -> str:
    return await run(args.suite)


async def ours(cancel_at: float) -> None:
    async with engine.open_engine(model=ScriptedProvider([host] * 3), tools=[run_tests]) as eng:
        session = await eng.create_session()
        async with session.prompt("Is it ready?") as turn, trio.open_nursery() as nursery:
            nursery.start_soon(stop_button, turn, cancel_at)
            async for event in turn:
                if isinstance(event, engine.TextDelta):
                    log("on the screen:", repr(event.text))
            log("the turn is over:", turn.result.stop_reason)
            result = await session.run("Well?")
            log("on the screen:", repr(result.text))
        log("the block is left")
    show(session.state.transcript)


async def stop_button(turn: engine.Turn, seconds: float) -> None:
    await trio.sleep(seconds)
    turn.cancel()


# -- making messages, and printing them ----------------------------------------------------


def user(words: str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("1"), text=words),))


def assistant(answer: str, arguments: str) -> AssistantMessage:
    text_part = TextPart(id=PartId("1"), text=answer)
    if not arguments:
        return AssistantMessage(id=MessageId("a"), parts=(text_part,), model="any")
    call_part = CallPart(id=PartId("2"), call_id=CallId("c"), tool="run_tests", arguments=arguments)
    return AssistantMessage(id=MessageId("a"), parts=(text_part, call_part), model="any")


def results(result: str) -> ResultsMessage:
    settlement = Settlement(status="completed", text=result)
    return ResultsMessage(
        id=MessageId("r"), results=(CallResult(call_id=CallId("c"), tool="run_tests", settlement=settlement),)
    )


def log(*words: str | ProviderError) -> None:
    print(f"{trio.current_time():.2f}", *words)


def show(messages: Iterable[Message]) -> None:
    for message in messages:
        match message:
            case UserMessage():
                print("     user:     ", repr(message.text))
            case AssistantMessage():
                print("     assistant:", repr(message.text), *(f"[calls {part.tool}]" for part in message.calls))
            case ResultsMessage():
                print(
                    "     results:  ", *(f"[{result.settlement.status}]{unknown(result)}" for result in message.results)
                )


def unknown(result: CallResult) -> str:
    return " what it did is not known" if result.settlement.outcome_unknown else ""


def main() -> None:
    for name, play in (("naive", naive), ("engine", ours)):
        for cancel_at in (0.5, 1.5, 2.5):
            print(f"== {name}, cancelled at {cancel_at} s")
            trio.run(play, cancel_at, clock=trio.testing.MockClock(autojump_threshold=0))


if __name__ == "__main__":
    main()

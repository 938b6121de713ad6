"""Chapter 4: cancel a turn while its tool runs; then ask again."""

from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.events import Message, ResultsMessage
from engine.testing import Answer, Pause, ScriptedProvider, call, done, text


@attrs.frozen
class RunTests:
    """Run one suite of the project's tests and return its summary."""

    suite: Annotated[str, engine.doc("unit or browser")]


@engine.tool(read_only=True)
async def run_tests(args: RunTests, ctx: engine.ToolContext) -> str:
    for done_so_far in range(4):
        ctx.progress(output=f"test {done_so_far + 1} of 4 passed\n")
        await trio.sleep(1)
    return f"{args.suite}: 4 passed"


SCRIPT: list[Answer] = [
    [
        *text("I will run "),
        *text("the unit tests.", id="2"),
        *call("run_tests", {"suite": "unit"}, id="1"),
        *done("calls"),
    ],
    [*text("They were stopped after the second test."), *done()],
    [*text("It is"), Pause(10), *text(" hard to say.", id="2"), *done()],
]


async def stop_button(turn: engine.Turn, seconds: float) -> None:
    await trio.sleep(seconds)
    turn.cancel()


def show(message: Message) -> str:
    if isinstance(message, ResultsMessage):
        return " | ".join(
            f"{r.settlement.status}, {r.settlement.reason}: {r.settlement.text!r}" for r in message.results
        )
    return repr(message.text)


async def main() -> None:
    began = trio.current_time()
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=[run_tests]) as eng:
        session = await eng.create_session()

        # The user's way: it ends this turn, and nothing else.
        async with trio.open_nursery() as nursery, session.prompt("Is the release ready?") as turn:
            nursery.start_soon(stop_button, turn, 1.5)
            await turn.wait()
        print(f"{trio.current_time() - began:.2f}", turn.result.stop_reason, "during", turn.result.during)
        for message in session.state.transcript:
            print("    ", type(message).__name__, show(message))

        # The session continues; the model is told what happened.
        result = await session.run("What happened?")
        print(f"{trio.current_time() - began:.2f}", result.stop_reason, "-", result.text)

        # The host's way: any cancel scope of Trio.
        with trio.move_on_after(1):
            await session.run("And in general?")
            print("never printed")
        assert session.state.last_result is not None
        print(
            f"{trio.current_time() - began:.2f}",
            session.state.last_result.stop_reason,
            "-",
            session.state.last_result.text,
        )


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

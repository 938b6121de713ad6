"""Chapter 8: a tool that hands a task to another model, cancelled from above."""

from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.events import EventBase
from engine.testing import Answer, Pause, ScriptedProvider, call, done, text


@attrs.frozen
class Review:
    """Have a file reviewed by a colleague with fresh eyes."""

    path: Annotated[str, engine.doc("the file to review")]


@engine.tool(read_only=True)
async def review(args: Review, ctx: engine.ToolContext) -> str:
    result = await ctx.run_agent(f"Review {args.path}.", system="You review code.", steps=5)
    return result.text or f"The review came to no end: {result.stop_reason}."


SCRIPT: list[Answer] = [
    [*text("I will ask."), *call("review", {"path": "setup.py"}, id="1"), *done("calls")],
    # The second request is the colleague's.
    [*text("Line 3"), Pause(5), *text(" is wrong.", id="2"), *done()],
    [*text("The colleague had got to line 3."), *done()],
]


async def main() -> None:
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=[review]) as eng:
        session = await eng.create_session()
        async with trio.open_nursery() as nursery, session.prompt("Review the release.") as turn:
            nursery.start_soon(stop_button, turn, 1)
            async for event in turn:
                match event:
                    case engine.TextDelta():
                        print(who(event), event.text)
                    case engine.CallSettled():
                        print(who(event), event.settlement.status, "-", event.settlement.text)
                    case engine.TurnEnded():
                        print(who(event), event.result.stop_reason)
                    case _:
                        pass
        print("agent:", (await session.run("Well?")).text)


def who(event: EventBase) -> str:
    return "  colleague:" if len(event.path) == 2 else "agent:"


async def stop_button(turn: engine.Turn, seconds: float) -> None:
    await trio.sleep(seconds)
    turn.cancel()


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

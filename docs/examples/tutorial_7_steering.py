"""Chapter 7: say something to the model while it works, and something for afterwards."""

from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.events import InputAdmitted, InputPromoted, LoopContinued, StepStarted, TurnStarted
from engine.testing import Answer, ScriptedProvider, call, done, text


@attrs.frozen
class RunTests:
    """Run one suite of the project's tests and return its summary."""

    suite: Annotated[str, engine.doc("unit or browser")]


@engine.tool(read_only=True)
async def run_tests(args: RunTests, ctx: engine.ToolContext) -> str:
    await trio.sleep(2)
    return f"{args.suite}: 12 passed"


SCRIPT: list[Answer] = [
    [*call("run_tests", {"suite": "unit"}, id="1"), *done("calls")],
    [*text("The unit tests pass. I leave the browser out, as you say."), *done()],
    [*text("Release notes: nothing new."), *done()],
]


async def main() -> None:
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=[run_tests]) as eng:
        session = await eng.create_session()
        watcher = session.subscribe()
        async with session.prompt("Run all the tests.") as turn:
            await trio.sleep(1)
            turn.steer("Never mind the browser.")
            session.inputs.queue("Write the release notes.")
            await turn.wait()
        ended = 0
        while ended < 2:
            event = await anext(watcher)
            match event:
                case InputAdmitted():
                    print(f"admitted as {event.mode}: {event.message.text}")
                case InputPromoted():
                    print("promoted: the next request holds it")
                case LoopContinued():
                    print(f"the loop continues: {event.reason}")
                case TurnStarted() | StepStarted() | engine.CallStarted() | engine.CallSettled():
                    print(type(event).__name__)
                case engine.TurnEnded():
                    ended += 1
                    print(f"TurnEnded: {event.result.text}")
                case _:
                    pass


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

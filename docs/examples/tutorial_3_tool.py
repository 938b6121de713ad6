"""Chapter 3: a tool, and a model that calls it."""

from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.testing import Answer, ScriptedProvider, call, done, text


@attrs.frozen
class RunTests:
    """Run one suite of the project's tests and return its summary."""

    suite: Annotated[str, engine.doc("unit or browser")]


@engine.tool(read_only=True)
async def run_tests(args: RunTests, ctx: engine.ToolContext) -> str:
    ctx.progress(f"running the {args.suite} suite")
    await trio.sleep({"unit": 1, "browser": 2}[args.suite])
    return f"{args.suite}: 12 passed"


SCRIPT: list[Answer] = [
    [
        *text("I will run both suites."),
        *call("run_tests", {"suite": "unit"}, id="1"),
        *call("run_tests", {"suite": "browser"}, id="2"),
        *done("calls"),
    ],
    [*text("Both pass, so it is ready."), *done()],
]


async def main() -> None:
    began = trio.current_time()
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=[run_tests]) as eng:
        session = await eng.create_session()
        async with session.prompt("Is the release ready?") as turn:
            async for event in turn:
                now = f"{trio.current_time() - began:.2f}"
                if isinstance(event, engine.TextDelta):
                    print(now, event.text)
                elif isinstance(event, engine.CallStarted):
                    print(now, "a call started")
                elif isinstance(event, engine.CallSettled):
                    print(now, "a call settled:", event.settlement.status, "-", event.settlement.text)


if __name__ == "__main__":
    # The clock of Trio's test kit: it jumps ahead as soon as every task sleeps.
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

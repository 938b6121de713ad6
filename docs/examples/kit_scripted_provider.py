"""The test kit: a model that plays a script, in memory, on Trio's clock."""

import trio
import trio.testing

import engine
from engine.errors import Overloaded
from engine.events import Usage
from engine.providers import ModelRequest
from engine.testing import Answer, Break, Fail, Pause, ScriptedProvider, done, reasoning, spread, text


def last_answer(request: ModelRequest) -> Answer:
    """An answer may be a function of the request."""
    return [*text(f"There are {len(request.transcript)} messages."), *done(usage=Usage(input=12, output=5))]


async def main() -> None:
    model = ScriptedProvider(
        [
            [Fail(Overloaded("busy", retryable=True))],
            [*reasoning("Hm.", signature="s"), *text("Let me", pieces=2), Break()],
            [*spread(text("Well. ", pieces=3), 0.5), Pause(2), *done("pause")],
            last_answer,
        ],
        batch=2,
    )
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        result = await session.run("How many?")
    print(result.text, f"after {result.steps} steps and {len(model.requests)} requests,", result.usage.total, "tokens")
    print("open streams:", model.open_streams)


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

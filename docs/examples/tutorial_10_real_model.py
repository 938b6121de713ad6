"""Chapter 10: a real model, by its name; without a key, a host on the loopback that speaks the same wire format."""

import os

import trio

import engine
from engine.testing import Answer, ScriptedServer, done, text

SCRIPT: list[Answer] = [[*text("It is ready as soon as the tests pass."), *done()]]


async def ask(model: str) -> None:
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        result = await session.run("Is the release ready?")
    print(result.stop_reason, "-", result.text)


async def main() -> None:
    if "ANTHROPIC_API_KEY" in os.environ:
        await ask("anthropic/claude-haiku-4-5")
        return
    async with trio.open_nursery() as nursery:
        server = ScriptedServer(SCRIPT)
        os.environ["ANTHROPIC_BASE_URL"] = await nursery.start(server.serve)
        os.environ["ANTHROPIC_API_KEY"] = "any"
        await ask("anthropic/claude-haiku-4-5")
        nursery.cancel_scope.cancel(reason="the example is over")


if __name__ == "__main__":
    trio.run(main)

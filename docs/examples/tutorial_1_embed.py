"""Chapter 1: an engine in a Trio program, with a model that plays a script."""

import trio

import engine
from engine.testing import ScriptedProvider, done, text


async def main() -> None:
    model = ScriptedProvider([[*text("Not yet: nobody has run the tests."), *done()]])
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        result = await session.run("Is the release ready?")
    print(result.stop_reason)
    print(result.text)


if __name__ == "__main__":
    trio.run(main)

"""Settings: for all sessions, for one session, for one turn."""

import attrs
import trio

import engine
from engine.config import RetryPolicy
from engine.errors import ConfigError
from engine.testing import ScriptedProvider, done, text


async def main() -> None:
    careful = engine.Settings(
        limits=engine.Limits(steps=40, seconds=600),
        retry=RetryPolicy(attempts=2),
        system="You are careful.",
    )
    model = ScriptedProvider([[*text("Fine."), *done()]], repeat=True)
    async with engine.open_engine(model=model, settings=careful) as eng:
        session = await eng.create_session()
        await session.run("How is it?")
        # One turn in a hurry; all else stays.
        hurried = attrs.evolve(careful, limits=engine.Limits(seconds=5))
        result = await session.run("Quick, how is it?", settings=hurried)
        print(result.stop_reason, "-", model.requests[-1].system)
    try:
        engine.Settings(parallel=0)
    except ConfigError as error:
        print(error)


if __name__ == "__main__":
    trio.run(main)

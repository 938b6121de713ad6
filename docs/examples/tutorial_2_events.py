"""Chapter 2: the same turn, watched while it happens."""

import trio

import engine
from engine.testing import ScriptedProvider, done, text


async def main() -> None:
    answer = "Not yet: nobody has run the tests."
    model = ScriptedProvider([[*text(answer, pieces=3), *done()]])
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        async with session.prompt("Is the release ready?") as turn:
            async for event in turn:
                if isinstance(event, engine.TextDelta):
                    print("-", "TextDelta", repr(event.text))
                else:
                    print(event.seq or "-", type(event).__name__)
        print(turn.result.stop_reason)


if __name__ == "__main__":
    trio.run(main)

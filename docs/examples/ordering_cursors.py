"""A watcher that keeps up, one that comes late, and one that went away and comes back."""

import trio

import engine
from engine.events import Cursor, PartEnded
from engine.testing import ScriptedProvider, done, text

ANSWER = "It rained all day. " * 600


def drain(cursor: Cursor) -> list[str]:
    """Take the available events, and describe each briefly."""
    names: list[str] = []
    while (event := cursor.try_next()) is not None:
        match event:
            case engine.TextDelta():
                names.append(f"delta {event.offset}+{len(event.text)}")
            case PartEnded():
                names.append("PartEnded")
            case engine.TurnEnded():
                names.append("TurnEnded")
            case _:
                names.append(type(event).__name__)
    return names


async def main() -> None:
    model = ScriptedProvider([[*text(ANSWER, pieces=len(ANSWER)), *done()], [*text("Yes."), *done()]])
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        late = session.subscribe()
        async with session.prompt("How was the weather?") as turn:
            deltas = [event.text async for event in turn if isinstance(event, engine.TextDelta)]
        print("keeps up:", len(deltas), "deltas, which make the text:", "".join(deltas) == ANSWER)

        # This cursor read nothing in the meantime, and the deltas have left the window.
        print("is late:", drain(late))

        # A client that reconnects: the position says what it has seen.
        position = late.position
        await session.run("Really?")
        print("is back:", drain(session.subscribe(after=position)))

        # From the first event: everything that happened in this session.
        print("from the start:", len(drain(session.subscribe(after=0))), "events")

        # From a number that does not exist: the current state, then new events.
        print("from nowhere:", drain(session.subscribe(after=1_000)))


if __name__ == "__main__":
    trio.run(main)

"""Chapter 6: a tool that changes something asks first."""

from typing import Annotated

import attrs
import trio

import engine
from engine.testing import Answer, ScriptedProvider, call, done, text
from engine.tools import Need


@attrs.frozen
class Publish:
    """Publish a version of the package."""

    version: Annotated[str, engine.doc("as in 1.2.3")]


def right_to_publish(args: Publish) -> Need:
    return Need(permission="publish", patterns=(args.version,), detail=f"upload {args.version} to the index")


@engine.tool(need=right_to_publish)
async def publish(args: Publish, ctx: engine.ToolContext) -> str:
    await trio.sleep(0.1)
    return f"{args.version} is published"


SCRIPT: list[Answer] = [
    [*call("publish", {"version": "2.0.0"}, id="1"), *done("calls")],
    [*call("publish", {"version": "1.9.1"}, id="2"), *done("calls")],
    [*text("1.9.1 is out."), *done()],
]


async def main() -> None:
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=[publish]) as eng:
        session = await eng.create_session()
        async with session.prompt("Publish it.") as turn:
            async for event in turn:
                match event:
                    case engine.PermissionAsked():
                        print("may I", event.detail)
                        if event.patterns == ("2.0.0",):
                            await turn.reply(event.request_id, engine.Reject("nothing is broken: make it 1.9.1"))
                        else:
                            await turn.reply(event.request_id, engine.Once())
                    case engine.CallStarted():
                        print("started")
                    case engine.CallSettled():
                        print(f"{event.settlement.status}: {event.settlement.text}")
                    case _:
                        pass
        print(turn.result.text)


if __name__ == "__main__":
    trio.run(main)

"""How to drive sessions of a server: here the server is a part of the same program."""

import attrs
import trio

import engine
from engine.client import Offline, Online, SessionHead, connect
from engine.control import serve
from engine.events import Resync
from engine.testing import ScriptedProvider, call, done, text


@attrs.frozen
class DeleteOldFiles:
    folder: str = "."


async def delete_old_files(arguments: DeleteOldFiles, context: engine.ToolContext) -> str:
    """Delete them."""
    return f"deleted those in {arguments.folder}"


def show(item: object) -> None:
    match item:
        case SessionHead():
            print(f"event {item.seq} was the last one")
        case Resync():
            print(f"a snapshot, with {len(item.state.transcript)} messages")
        case Offline() | Online():
            print(type(item).__name__)
        case engine.PermissionAsked():
            print("a question for permission")
        case engine.TextDelta():
            print(item.text)
        case _:
            pass


async def first(url: str, token: str) -> tuple[str, str | None]:
    async with connect(url, token, name="ci") as client:
        session = await client.create_session(cwd=".")
        async with session.watch() as stream:
            turn = await session.prompt("Delete the old files.")  # returns once it is admitted
            async for item in stream:
                show(item)
                if isinstance(item, engine.PermissionAsked):
                    await session.reply(item.request_id, engine.Once())
                if isinstance(item, engine.TurnEnded):
                    break
            saved = stream.position
        print((await turn.wait()).stop_reason)
        return session.id, saved


async def second(url: str, token: str, session_id: str, saved: str | None) -> None:
    async with connect(url, token) as client:
        async with client.session(session_id).watch(after=saved) as stream:
            turn = await client.session(session_id).prompt("Are you sure?", key="sure-1")
            result = await turn.wait()  # across lost connections and restarts
            async for item in stream:
                show(item)
                if isinstance(item, engine.TurnEnded):
                    break
        print(result.stop_reason)


async def main() -> None:
    script = [
        [*call("delete_old_files", id="1"), *done("calls")],
        [*text("They are deleted."), *done()],
        [*text("I am."), *done()],
    ]
    async with (
        engine.open_engine(model=ScriptedProvider(script), tools=[engine.tool(delete_old_files)]) as eng,
        trio.open_nursery() as nursery,
    ):
        served = await nursery.start(serve, eng)
        session_id, saved = await first(served.url, served.token)
        await second(served.url, served.token, session_id, saved)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)

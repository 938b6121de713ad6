"""A session in a process of its own, which does what it reads from its standard input, and may be killed at any time.

Each line is a request in JSON, each answer a line. `cancel` and the end of the input may come in the middle of a request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

import engine
from engine.core.errors import EngineError
from engine.core.llm_types import ModelRequest
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session
from engine.session.turn import Turn
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.call_values import ToolOutput
from engine.tools.tool_context import ToolContext


@attrs.frozen
class Put:
    """Write a file."""

    name: str
    content: str


@engine.tool
async def put(args: Put, ctx: ToolContext) -> ToolOutput:
    await ctx.about_to_change(args.name)
    await ctx.to_thread(Path(ctx.cwd, args.name).write_text, args.content)
    return ToolOutput(text="done", changed=(args.name,))


def bash(command: str) -> Answer:
    return [*call("bash", {"command": command}, id="1"), *done("calls")]


@attrs.define
class Host:
    """The session, and its turn that runs."""

    session: Session
    model: ScriptedProvider
    root: Path
    turn: Turn | None = None

    async def answer(self, request: list[str]) -> object:
        """Do what is asked for; return what came of it."""
        match request:
            case ["bash", command]:
                return await self._run(bash(command))
            case ["put", name, content]:
                return await self._run([*call("put", {"name": name, "content": content}, id="1"), *done("calls")])
            case ["steps", first, name, content, second]:

                def between(request: ModelRequest) -> Answer:
                    # The user writes while the model thinks.
                    (self.root / name).write_text(content)
                    return bash(second)

                return await self._run(bash(first), between)
            case [("undo" | "redo") as way, force]:
                method = self.session.files.undo if way == "undo" else self.session.files.redo
                return list((await method(force=force == "force")).files)
            case ["restore", name]:
                return list(await self.session.files.restore([name], force=True))
            case ["versions", name]:
                return await self._versions(name)
            case _:
                raise AssertionError(request)

    async def _run(self, *answers: Answer | Callable[[ModelRequest], Answer]) -> str:
        self.model.script = [*answers, [*text("Done."), *done()]]
        self.model.requests.clear()
        async with self.session.prompt("go") as turn:
            self.turn = turn
            result = await turn.wait()
        self.turn = None
        return result.stop_reason

    async def _versions(self, name: str) -> list[str]:
        """Put each version of a file back; return what it then has."""
        contents: list[str] = []
        for version in await self.session.files.versions(name):
            await self.session.files.restore([name], version=version.id)
            contents.append(await trio.Path(self.root, name).read_text())
        return contents


async def main(root: Path, place: Path, kept: Path) -> None:
    model = ScriptedProvider([])
    async with engine.open_engine(
        model=model,
        tools=(BASH, put),
        permissions=PermissionOptions(approver=AllowAll()),
        store=place.with_suffix(".db"),
        files=FileOptions(snapshots=ProjectSnapshots(folder=kept)),
    ) as eng:
        # Which session it was, if an earlier process was killed.
        session_id = place.read_text() if place.exists() else ""  # noqa: ASYNC240 - nothing else runs yet
        session = await eng.open_session(session_id) if session_id else await eng.create_session(cwd=root)
        place.write_text(session.id)  # noqa: ASYNC240
        host = Host(session, model, root)
        print(json.dumps("ready"), flush=True)
        async with trio.open_nursery() as nursery:
            sending, receiving = trio.open_memory_channel[list[str]](9)
            nursery.start_soon(_read, host, sending)
            async for request in receiving:
                try:
                    reply = await host.answer(request)
                except EngineError as error:
                    reply = type(error).__name__
                print(json.dumps(reply), flush=True)


async def _read(host: Host, sending: trio.MemorySendChannel[list[str]]) -> None:
    with sending:
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            if json.loads(line) != ["cancel"]:
                await sending.send(json.loads(line))
            elif host.turn is not None:
                host.turn.cancel()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))

"""How to write a tool."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import attrs
import trio

import engine
from engine.errors import ToolError
from engine.events import CallProgress, SharedContext
from engine.testing import Answer, ScriptedProvider, call, done, text
from engine.tools import Need

# -- arguments: a class, whose docstring the model reads --------------------------------------


@attrs.frozen
class Search:
    """Search the issue tracker for words, and return the matching titles."""

    query: Annotated[str, engine.doc("words to look for")] = attrs.field(validator=attrs.validators.min_len(1))
    state: Annotated[Literal["open", "closed"], engine.doc("which issues")] = "open"
    limit: Annotated[int, engine.doc("at most this many")] = attrs.field(default=10, validator=attrs.validators.le(100))


ISSUES = {"Crash on start": "open", "Crash at the end": "closed", "Slow start": "open"}


@engine.tool(read_only=True)
async def search(args: Search, ctx: engine.ToolContext) -> str:
    titles = [title for title, state in ISSUES.items() if args.query in title and state == args.state]
    if not titles:
        # The model can correct this error.
        raise ToolError(f"No {args.state} issue contains {args.query!r}. Try fewer words, or state='closed'.")
    return "\n".join(titles[: args.limit])


# -- blocking work, progress, a timeout -------------------------------------------------------


@attrs.frozen
class Checksum:
    """Compute the SHA-256 of files."""

    paths: Annotated[list[str], engine.doc("relative to the working directory")]


@engine.tool(read_only=True, timeout=60)
async def checksum(args: Checksum, ctx: engine.ToolContext) -> engine.ToolOutput:
    lines: list[str] = []
    for count, path in enumerate(args.paths, 1):
        ctx.progress(f"{count} of {len(args.paths)}")
        digest = await ctx.to_thread(sha256_of, Path(ctx.cwd) / path)
        lines.append(f"{digest[:8]} {path}")
        ctx.progress(output=lines[-1] + "\n")
    return engine.ToolOutput(text="\n".join(lines), metadata=f'{{"files": {len(lines)}}}')


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- a right to ask for, and a change of what tools share -------------------------------------


@attrs.frozen
class ChangeFolder:
    """Change the working directory of all later calls."""

    path: Annotated[str, engine.doc("absolute, or relative to the present one")]


def right_to_change(args: ChangeFolder) -> Need:
    return Need(permission="folder", patterns=(args.path,), offers=(args.path,), detail=f"cd {args.path}")


@engine.tool(need=right_to_change)
async def change_folder(args: ChangeFolder, ctx: engine.ToolContext) -> engine.ToolOutput:
    folder = str(trio.Path(ctx.cwd) / args.path)
    if not await trio.Path(folder).is_dir():
        raise ToolError(f"{args.path!r} is not a folder.")

    def modify(shared: SharedContext) -> SharedContext:
        return attrs.evolve(shared, cwd=folder)

    return engine.ToolOutput(text=f"The working directory is now {args.path}.", modify=modify)


# -- clean-up that has to wait ----------------------------------------------------------------


@attrs.frozen
class Lease:
    """Hold the build machine for a while."""


RELEASED: list[str] = []


@engine.tool(grace=1.0)
async def lease(args: Lease, ctx: engine.ToolContext) -> str:
    ctx.progress("the machine is ours")
    try:
        await trio.sleep(5)
    finally:
        # Shorter than the declared grace period: at its end the call is settled without us.
        with trio.move_on_after(0.9, shield=True):
            await trio.sleep(0.01)
            RELEASED.append(ctx.call_id)
    return "held it for five seconds"


# -- the program --------------------------------------------------------------------------------

SCRIPT: list[Answer] = [
    [
        *call("search", {"query": "Crash"}, id="1"),
        *call("search", {"query": "crash", "limit": 1000}, id="2"),
        *call("search", {"query": "crash"}, id="3"),
        *call("checksum", {"paths": ["setup.py", "a.py"]}, id="4"),
        *done("calls"),
    ],
    [*call("change_folder", {"path": "src"}, id="5"), *done("calls")],
    [*text("Done."), *done()],
    [*call("lease", {}, id="6"), *done("calls")],
]


async def main() -> None:
    await trio.Path("project/src").mkdir(parents=True)
    for name in ("setup.py", "a.py"):
        await trio.Path("project", name).write_text(f"# {name}\n")
    tools = [search, checksum, change_folder, lease]
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), tools=tools) as eng:
        session = await eng.create_session(cwd="project")
        async with session.prompt("Look around.") as turn:
            async for event in turn:
                match event:
                    case CallProgress() if event.message:
                        print("progress:", event.message)
                    case engine.PermissionAsked():
                        print("asked:", event.permission, event.patterns)
                        await turn.reply(event.request_id, engine.Always())
                    case engine.CallSettled():
                        print(f"{event.settlement.status}: {event.settlement.text}")
                    case _:
                        pass
        print(Path(session.state.context.cwd).name)

        async with session.prompt("Hold the machine.") as turn:
            async for event in turn:
                if isinstance(event, engine.PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
                elif isinstance(event, CallProgress):
                    break
        print("released:", len(RELEASED))


if __name__ == "__main__":
    trio.run(main)

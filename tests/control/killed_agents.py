"""A program to be killed while a sub-agent writes and another one asks: `python -m tests.control.killed_agents CWD STORE`."""

import sys

import trio

import engine
from engine.events import PermissionAsked
from tests.control.test_several_clients import asking_below


async def main(cwd: str, store: str) -> None:
    async with engine.open_engine(**asking_below(has_writer=True), store=store) as eng:
        session = await eng.create_session(cwd=cwd)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    print(session.id, flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])

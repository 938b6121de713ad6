"""A program to be killed while a sub-agent of a sub-agent runs a command: `python -m tests.os.crashed_agents CWD STORE`."""

import sys

import trio

import engine
from engine.core.events import CallProgress
from engine.core.settings import Settings
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.scripted_provider import ScriptedProvider
from tests.os.test_sub_agents import TOOLS, busy, script
from tests.session.test_sub_agents import by_prompt


async def main(cwd: str, store: str) -> None:
    model = ScriptedProvider([by_prompt(script(2, f"echo ready; {busy()}"))], repeat=True)
    settings = Settings(agent_depth=2)
    async with engine.open_engine(
        model=model, tools=TOOLS, permissions=PermissionOptions(approver=AllowAll()), settings=settings, store=store
    ) as eng:
        session = await eng.create_session(cwd=cwd)
        async with session.prompt("level 0") as turn:
            async for event in turn:
                if isinstance(event, CallProgress) and "ready" in event.output:
                    print(*event.path, event.call_id, flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])

"""A program to be killed while a session has a job and a command: `python -m tests.os.crashed_session CWD JOB COMMAND [STORE]`."""

import sys

import trio

import engine
from engine.core.events import CallProgress
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools


async def main(cwd: str, job: str, command: str, store: str) -> None:
    answers = [
        [*call("bash", {"command": job, "background": True}, id="c1"), *done("calls")],
        [*call("bash", {"command": command}, id="c2"), *done("calls")],
    ]
    async with engine.open_engine(
        model=ScriptedProvider(answers),
        tools=builtin_tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
    ) as eng:
        session = await eng.create_session(cwd=cwd)
        print(session.id, flush=True)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, engine.CallSettled):
                    print("job", flush=True)
                if isinstance(event, CallProgress) and "ready" in event.output:
                    print("command", flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], (*sys.argv[4:], ":memory:")[0])

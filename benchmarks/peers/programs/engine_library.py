import sys

import trio

import engine
from engine.events import TextDelta
from engine.options import PermissionOptions
from engine.permission.allow_all import AllowAll
from engine.tools import builtin_tools


async def main() -> None:
    permissions = PermissionOptions(approver=AllowAll())
    async with engine.open_engine(
        model="anthropic/claude-sonnet-5-5", tools=builtin_tools(), permissions=permissions
    ) as eng:
        session = await eng.create_session()
        async with session.prompt(sys.argv[1]) as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    sys.stdout.write(event.text)


trio.run(main)

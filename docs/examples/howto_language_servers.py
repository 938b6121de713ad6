"""How to have each edit checked by a language server."""

import tempfile
from pathlib import Path

import trio

import engine
from engine.language_servers import LanguageServer, LanguageServers
from engine.options import FileOptions, PermissionOptions
from engine.permission import AllowAll
from engine.testing import ScriptedProvider, call, done, text
from engine.tools import builtin_tools

SERVERS = {"pyright": LanguageServer(command=("pyright-langserver", "--stdio"), patterns=("*.py",))}


async def main() -> None:
    script = ScriptedProvider(
        [
            [*call("write", {"path": "notes.txt", "content": "No server is for it.\n"}, id="call_1"), *done("calls")],
            [*text("Done."), *done()],
        ]
    )
    async with engine.open_engine(
        model=script,
        tools=builtin_tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(diagnostics=LanguageServers(SERVERS)),
    ) as eng:
        with tempfile.TemporaryDirectory() as folder:
            session = await eng.create_session(cwd=Path(folder))
            print((await session.run("Write the notes.")).text)


if __name__ == "__main__":
    trio.run(main)

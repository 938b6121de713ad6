"""How to format and check what a tool has changed."""

import ast
import tempfile
from pathlib import Path

import trio

import engine
from engine.config import Config, FileProgram
from engine.options import FileOptions, PermissionOptions
from engine.permission import AllowAll
from engine.testing import ScriptedProvider, call, done, text
from engine.tools import builtin_tools

CONFIG = Config(
    formatters={"spaces": FileProgram(("sh", "-c", "sed 's/ *$//' $0 >$0.new && mv $0.new $0"), ("*.py",))},
    checkers={"words": FileProgram(("sh", "-c", "grep -n NOCOMMIT $0 && exit 1"), ("*.py",), timeout=5)},
)


async def syntax(path: str) -> str:
    """Return what is wrong in a file."""
    try:
        ast.parse(await trio.Path(path).read_text())
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    return ""


async def main() -> None:
    script = ScriptedProvider(
        [
            [
                *call("write", {"path": "a.py", "content": "x = (  \n# NOCOMMIT: close it\n"}, id="call_1"),
                *done("calls"),
            ],
            [*text("I'll mend that."), *done()],
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        async with engine.open_engine(
            model=script,
            config=CONFIG,
            tools=builtin_tools(),
            permissions=PermissionOptions(approver=AllowAll()),
            files=FileOptions(diagnostics=syntax),
        ) as eng:
            session = await eng.create_session(cwd=Path(folder))
            async with session.prompt("Begin a.py.") as turn:
                async for event in turn:
                    if isinstance(event, engine.CallSettled):
                        print(event.settlement.text)


if __name__ == "__main__":
    trio.run(main)

"""The code in README.md, as a program: `test_readme.py` runs it with a model that is a script."""

import trio

import engine
from engine.tools import builtin_tools


async def main(model: str = "anthropic/claude-sonnet-4-5") -> None:
    async with engine.open_engine(model=model, tools=builtin_tools()) as eng:
        session = await eng.create_session(cwd=".")
        async with session.prompt("Make the tests pass.") as turn:
            async for event in turn:
                if isinstance(event, engine.TextDelta):
                    print(event.text, end="", flush=True)
                elif isinstance(event, engine.PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
        print(turn.result.stop_reason, turn.result.usage)


if __name__ == "__main__":
    trio.run(main)

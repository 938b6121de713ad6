"""How to write a hook."""

import attrs
import trio

import engine
from engine.hooks import PromptDecision, Prompted, StopDecision, Stopping, ToolDecision, ToolUse
from engine.options import PermissionOptions
from engine.permission import AllowAll
from engine.testing import Answer, ScriptedProvider, call, done, text


@attrs.frozen
class Shell:
    """Run a command."""

    command: str


@engine.tool
async def shell(args: Shell, ctx: engine.ToolContext) -> str:
    await trio.sleep(0.01)
    return f"$ {args.command}\ntoken=hunter2\nok"


# -- before a tool: forbid, ask, or change --------------------------------------------------------


async def guard(use: ToolUse) -> ToolDecision | None:
    if "rm -rf" in use.arguments:
        return ToolDecision(verdict="deny", reason="nothing is deleted here")
    if "push" in use.arguments:
        return ToolDecision(verdict="ask")
    if "pytest" in use.arguments:
        return ToolDecision(arguments=use.arguments.replace("pytest", "pytest -q"))
    return None


# -- after a tool: change what the model reads ------------------------------------------------------


async def redact(use: ToolUse) -> ToolDecision | None:
    assert use.settlement is not None
    return ToolDecision(text=use.settlement.text.replace("hunter2", "***"))


# -- the user's words: block, or add to them ---------------------------------------------------------


async def no_keys(prompted: Prompted) -> PromptDecision | None:
    if "sk-" in prompted.text:
        return PromptDecision(verdict="block", reason="that looks like a key")
    return PromptDecision(context="Today is Friday.")


# -- when the model comes to its end: send it back, once -------------------------------------------


async def wants_tests(stopping: Stopping) -> StopDecision | None:
    if "tests pass" in stopping.text or stopping.already_blocked:
        return None
    return StopDecision(verdict="block", reason="Before you end: do the tests pass? Run them.")


HOOKS = engine.Hooks(user_prompt=(no_keys,), before_tool=(guard,), after_tool=(redact,), stop=(wants_tests,))

SCRIPT: list[Answer] = [
    [
        *call("shell", {"command": "rm -rf build"}, id="1"),
        *call("shell", {"command": "git push"}, id="2"),
        *done("calls"),
    ],
    [*text("Ready."), *done()],
    [*call("shell", {"command": "pytest"}, id="3"), *done("calls")],
    [*text("Ready, and the tests pass."), *done()],
]


async def main() -> None:
    async with engine.open_engine(
        model=ScriptedProvider(SCRIPT), tools=[shell], hooks=HOOKS, permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("Make it ready.") as turn:
            async for event in turn:
                match event:
                    case engine.PermissionAsked():
                        print("asked, although everything is allowed")
                        await turn.reply(event.request_id, engine.Once())
                    case engine.CallSettled():
                        print(f"{event.settlement.status}: {' | '.join(event.settlement.text.splitlines())}")
                    case _:
                        pass
        print(turn.result.text)
        result = await session.run("My key is sk-hunter2.")
        print(f"{result.stop_reason}: {result.detail}; {len(session.state.transcript)} messages")


if __name__ == "__main__":
    trio.run(main)

"""How to let commands be hooks."""

import attrs
import trio

import engine
from engine.events import UserMessage
from engine.hooks import load_hooks
from engine.options import PermissionOptions
from engine.permission import AllowAll
from engine.testing import Answer, ScriptedProvider, call, done, text

# As in the settings of Claude Code; `load_hooks(Path.home() / ".claude/settings.json")` reads them from there.
SETTINGS = {
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "deploy|Bash",
                "hooks": [
                    {
                        "type": "command",
                        "command": """grep -q '"production"' || exit 0; echo "not on a Friday" >&2; exit 2""",
                        "timeout": 5,
                    }
                ],
            }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo The branch is main."}]}],
    }
}


@attrs.frozen
class Deploy:
    """Deploy."""

    to: str


@engine.tool
async def deploy(args: Deploy, ctx: engine.ToolContext) -> str:
    return f"deployed to {args.to}"


SCRIPT: list[Answer] = [
    [*call("deploy", {"to": "production"}, id="1"), *call("deploy", {"to": "staging"}, id="2"), *done("calls")],
    [*text("Only staging."), *done()],
]


async def main() -> None:
    model = ScriptedProvider(SCRIPT)
    async with engine.open_engine(
        model=model, tools=[deploy], hooks=load_hooks(SETTINGS), permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("Deploy.") as turn:
            async for event in turn:
                if isinstance(event, engine.CallSettled):
                    print(f"{event.settlement.status}: {event.settlement.text}")
        for message in model.requests[0].transcript:
            if isinstance(message, UserMessage):
                print(message.text)


if __name__ == "__main__":
    trio.run(main)

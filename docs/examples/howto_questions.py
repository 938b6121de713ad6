"""How to answer questions: with a user, without one, and by rules."""

from fnmatch import fnmatch

import attrs
import trio
import trio.testing

import engine
from engine.events import PermissionAnswered
from engine.options import PermissionOptions
from engine.permission import Judgement, PermissionQuery, Policy
from engine.testing import Answer, ScriptedProvider, call, done, text
from engine.tools import Need


@attrs.frozen
class Write:
    """Write a file."""

    path: str


def right_to_write(args: Write) -> Need:
    # What "always" would allow: this file, or its folder.
    offers = (args.path, args.path.rpartition("/")[0] + "/*")
    return Need(permission="write", patterns=(args.path,), offers=offers, detail=f"write {args.path}")


@engine.tool(need=right_to_write)
async def write(args: Write, ctx: engine.ToolContext) -> str:
    await trio.sleep(0.01)
    return f"wrote {args.path}"


# -- rules of your own ------------------------------------------------------------------------------


@attrs.define(eq=False)
class House(Policy):
    """Secrets are forbidden, drafts are allowed, and the default decides about everything else."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Judge a call. Denials come first, so that no other rule can override them."""
        if any(fnmatch(path, "*/secrets/*") for path in query.patterns):
            return Judgement(verdict="deny", source="a rule of this house")
        if query.patterns and all(fnmatch(path, "drafts/*") for path in query.patterns):
            return Judgement(verdict="allow", source="a rule of this house")
        return super().judge(query)


# -- a user at a screen -----------------------------------------------------------------------------


async def watch(turn: engine.Turn, answers: dict[str, engine.Once | engine.Always | engine.Reject]) -> None:
    async for event in turn:
        match event:
            case engine.PermissionAsked():
                print("may I", event.detail, "- always would allow", event.offers[0].text)
                answer = answers.get(event.patterns[0])
                if answer is not None:
                    await turn.reply(event.request_id, answer)
            case PermissionAnswered():
                print("  answered:", event.answer)
            case engine.CallSettled():
                print(" ", event.settlement.status, "-", event.settlement.text)
            case _:
                pass


def writes(*paths: str) -> Answer:
    return [*(item for path in paths for item in call("write", {"path": path}, id=path)), *done("calls")]


SCRIPT: list[Answer] = [
    writes("drafts/a", "src/secrets/key"),
    writes("src/a", "src/a", "doc/index.md", "tests/everything.py"),
    [*text("Done."), *done()],
    writes("src/d"),
    [*text("Then not."), *done()],
]


async def main() -> None:
    model = ScriptedProvider(SCRIPT)
    settings = engine.Settings(question_timeout=300)
    async with engine.open_engine(
        model=model, tools=[write], permissions=PermissionOptions(approver=House()), settings=settings
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("Write.") as turn:
            # Nobody answers for the last one: after five minutes the question expires.
            await watch(turn, {"src/a": engine.Always(), "doc/index.md": engine.Reject("not that one")})

        # Without a user no question is asked, and the model is told so.
        result = await session.run("Write more.")
        print(result.stop_reason, "-", result.text)


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

"""How to keep a long conversation inside the window."""

import attrs
import trio

import engine
from engine.compaction import SECTIONS, Keeper
from engine.events import CompactionEnded, CompactionStarted, UserMessage
from engine.options import ContextOptions
from engine.providers import ModelInfo, ModelRequest
from engine.testing import Answer, ScriptedProvider, done, text


def answer(request: ModelRequest) -> Answer:
    """Talk much, and sum up when asked to: a stand-in for a model."""
    if request.system.startswith("You keep the record"):
        bodies = dict.fromkeys(SECTIONS, "- none") | {"Objective": "- a parser", "Facts": "- the port is 8021"}
        return [*text("\n".join(f"## {name}\n{body}" for name, body in bodies.items())), *done()]
    return [*text("Let me think about that. " * 1_500), *done()]


# -- it is done by itself -------------------------------------------------------------------------


async def by_itself(model: ScriptedProvider) -> None:
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        for prompt in ("Write a parser. Never use regular expressions.", "And now?", "And then?"):
            async with session.prompt(prompt) as turn:
                async for event in turn:
                    if isinstance(event, CompactionStarted):
                        print(f"the window is {event.trigger}: {event.messages} messages")
                    elif isinstance(event, CompactionEnded):
                        print(f"{event.outcome}, now {event.messages} messages")
        for message in session.state.transcript:
            if isinstance(message, UserMessage):
                print(f"{message.origin}: {message.text.splitlines()[-1]}")


# -- what fills the window; by hand; and back -------------------------------------------------------


async def by_hand(model: ScriptedProvider) -> None:
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        await session.run("Write a parser.")
        await session.run("And now?")
        for share in session.context.report().shares:
            print(f"{share.kind}: {share.tokens:,}")
        result = await session.context.compact("mind the port")
        print(f"{result.stop_reason}: about {session.context.report().tokens:,} tokens now")
        await session.context.undo_compaction()
        print(f"undone: {session.context.report().tokens:,}")


# -- in another way -----------------------------------------------------------------------------------

keeper = Keeper(reserve=30_000, tail=4_000)


# -- a tool whose results can't be had again ----------------------------------------------------------


@attrs.frozen
class Ask:
    """Ask the oracle; it answers each question once."""

    question: str


@engine.tool(protected=True)
async def oracle(args: Ask, ctx: engine.ToolContext) -> str:
    await trio.lowlevel.checkpoint()
    return f"{args.question} 42."


async def main() -> None:
    info = ModelInfo(name="scripted/small", context=20_000, output=2_000)
    await by_itself(ScriptedProvider([answer], info=info, repeat=True))
    await by_hand(ScriptedProvider([answer], info=info, repeat=True))
    async with engine.open_engine(
        model=ScriptedProvider([answer], repeat=True), context=ContextOptions(keeper=keeper), tools=[oracle]
    ) as eng:
        print((await (await eng.create_session()).run("Hello")).stop_reason)


trio.run(main)

"""How to park a turn: it waits for an answer, its engine ends, and another engine goes on with it."""

from typing import Annotated

import attrs
import trio

import engine
from engine.errors import TurnParked
from engine.events import StepReceived
from engine.testing import Answer, ScriptedProvider, call, done, text
from engine.tools import external_tool

STORE = "sessions.db"


# -- tools ------------------------------------------------------------------------------------------


@attrs.frozen
class Deploy:
    """Deploy a version."""

    version: str


@engine.tool
async def deploy(args: Deploy, ctx: engine.ToolContext) -> str:
    print("  deploying", args.version)
    return f"{args.version} is out"


@attrs.frozen
class Review:
    """Have a colleague review a version. It may take a day."""

    version: Annotated[str, engine.doc("which one")]


# There is nothing to run here: the result comes, for example, from a web page that a colleague opens.
review = external_tool("review", Review, read_only=True)


def host(*script: Answer) -> engine.Engine:
    return engine.open_engine(model=ScriptedProvider(script), tools=[deploy, review], store=STORE)


# -- the first engine, and the next -------------------------------------------------------------------


async def ask(eng: engine.Engine) -> str:
    session = await eng.create_session()
    turn = eng.start_turn(session, "Deploy 1.2, once it is reviewed.")
    async for event in turn:
        if isinstance(event, StepReceived):
            # The answer is complete: from here on the turn only waits.
            print("the model has asked for a review")
            break
    return session.id


async def go_on(eng: engine.Engine, session_id: str) -> None:
    session = await eng.open_session(session_id)
    turn = eng.resume_turn(session)
    async for event in turn:
        match event:
            case engine.CallStarted() if event.call_id in waiting(session):
                await session.settle(event.call_id, "Looks good to me.")
            case engine.PermissionAsked():
                print("may I", event.tool)
            case StepReceived():
                # Nobody is at the screen to answer: this engine closes, too.
                return
            case _:
                pass


async def finish(eng: engine.Engine, session_id: str) -> None:
    session = await eng.open_session(session_id)
    print("it waits:", type(session.state.status).__name__)
    async with session.resume() as turn:
        async for event in turn:
            if isinstance(event, engine.PermissionAsked):
                await turn.reply(event.request_id, engine.Once())
    print(turn.result.stop_reason, "-", turn.result.text, f"({turn.result.steps} steps)")


def waiting(session: engine.Session) -> set[str]:
    turn = session.state.turn
    calls = () if turn is None or turn.step is None else turn.step.calls
    return {call.call_id for call in calls if call.tool == "review" and call.settlement is None}


# -- the script of this example -----------------------------------------------------------------------

REVIEW: Answer = [*text("A review first."), *call("review", {"version": "1.2"}, id="c1"), *done("calls")]
DEPLOY: Answer = [*text("Now I deploy."), *call("deploy", {"version": "1.2"}, id="c2"), *done("calls")]
FINE: Answer = [*text("1.2 is out."), *done()]


async def main() -> None:
    async with host(REVIEW) as eng:
        session_id = await ask(eng)
    async with host(DEPLOY) as eng:
        await go_on(eng, session_id)
    async with host(FINE) as eng:
        await finish(eng, session_id)

    async with host(REVIEW) as eng:
        session = await eng.create_session()
        turn = eng.start_turn(session, "Once more.")
        async for event in turn:
            if isinstance(event, StepReceived):
                break
    try:
        await turn.wait()
    except TurnParked as error:
        print("TurnParked:", str(error).partition(", and ")[2].partition(":")[0])


trio.run(main)

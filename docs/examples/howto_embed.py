"""How to embed the engine in a larger Trio program."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.providers import ModelRequest
from engine.testing import Answer, Pause, ScriptedProvider, done, text

# -- several sessions in your own nursery ---------------------------------------------------


async def review(eng: engine.Engine, path: str, verdicts: dict[str, str]) -> None:
    session = await eng.create_session()
    result = await session.run(f"Review {path}.")
    verdicts[path] = result.text


async def review_all(eng: engine.Engine, paths: list[str]) -> dict[str, str]:
    verdicts: dict[str, str] = {}
    async with trio.open_nursery() as nursery:
        for path in paths:
            nursery.start_soon(review, eng, path, verdicts)
    return verdicts


# -- limits: of the turn, and of the host ---------------------------------------------------


async def briefly(session: engine.Session) -> str:
    limits = engine.Limits(steps=20, cost=0.50, seconds=60)
    result = await session.run("Is it ready?", settings=engine.Settings(limits=limits))
    if result.stop_reason == "completed":
        return result.text
    return f"no answer: {result.stop_reason}, {result.detail}"


async def at_most_a_moment(session: engine.Session) -> engine.TurnResult | None:
    with trio.move_on_after(0.05):
        return await session.run("Take your time.")
    # We cancelled it: the turn has been settled and saved all the same.
    return session.state.last_result


# -- an answer that fits a class --------------------------------------------------------------


@attrs.frozen
class Verdict:
    """What you think of the release."""

    ready: Annotated[bool, engine.doc("whether it may be published")]
    why: Annotated[str, engine.doc("in one sentence")]


async def structured(session: engine.Session) -> Verdict | None:
    result = await session.run("Is it ready?", output=Verdict)
    return result.value


# -- a turn that goes on when its client is gone --------------------------------------------


async def client(session: engine.Session, turn: engine.Turn) -> None:
    async for event in turn:
        if isinstance(event, engine.TextDelta):
            print("client:", event.text)
            return  # it disconnects; the turn continues


async def disconnect(eng: engine.Engine) -> None:
    session = await eng.create_session()
    turn = eng.start_turn(session, "Take your time.")
    await client(session, turn)
    result = await turn.wait()
    print("later:", result.stop_reason, "-", result.text)


# -- an async generator --------------------------------------------------------------------------


async def deltas(session: engine.Session, prompt: str) -> AsyncGenerator[str]:
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, engine.TextDelta):
                yield event.text


async def first_words(session: engine.Session) -> str:
    async with contextlib.aclosing(deltas(session, "Take your time.")) as texts:
        async for words in texts:
            return words  # the generator is closed here, by this task
    return ""


# -- other threads -----------------------------------------------------------------------------


def stop_button(turn: engine.Turn) -> None:
    turn.cancel_from_thread()


def say_from_thread(turn: engine.Turn, token: trio.lowlevel.TrioToken) -> None:
    trio.from_thread.run_sync(turn.steer, "Be brief.", trio_token=token)


async def threads(eng: engine.Engine) -> None:
    session = await eng.create_session()
    token = trio.lowlevel.current_trio_token()
    async with session.prompt("Wait for me.") as turn:
        await trio.to_thread.run_sync(say_from_thread, turn, token)
        await trio.to_thread.run_sync(stop_button, turn)
        result = await turn.wait()
    print("from a thread:", result.stop_reason)


# -- the model, and the program ---------------------------------------------------------------


def answer(request: ModelRequest) -> Answer:
    prompt = request.transcript[-1]
    match getattr(prompt, "text", ""):
        case "Take your time.":
            return [*text("Well,"), Pause(0.1), *text(" yes.", id="2"), *done()]
        # The second one is there already if the thread was quicker than the first request.
        case "Wait for me." | "Be brief.":
            return [Pause(3_600), *done()]
        case "Is it ready?" if request.output_schema is not None:
            return [*text('{"ready": false, "why": "Nobody has run the tests."}'), *done()]
        case question:
            return [*text(f"{question} Fine."), *done()]


async def main() -> None:
    model = ScriptedProvider([answer], repeat=True)
    async with engine.open_engine(model=model) as eng:
        verdicts = await review_all(eng, ["a.py", "b.py", "c.py"])
        print(sorted(verdicts.values()))
        session = await eng.create_session()
        print(await briefly(session))
        stopped = await at_most_a_moment(session)
        assert stopped is not None
        print(stopped.stop_reason, "-", stopped.text)
        print(await structured(session))
        await disconnect(eng)
        print("first:", await first_words(session))


async def in_real_time() -> None:
    async with engine.open_engine(model=ScriptedProvider([answer], repeat=True)) as eng:
        await threads(eng)


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    trio.run(in_real_time)

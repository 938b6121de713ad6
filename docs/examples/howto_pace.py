"""Many sessions at one host: a pace for their requests, and one limit of money for all of them."""

import os

import trio

import engine
from engine.events import Notice, Usage
from engine.options import Ports, SpendingLimit
from engine.pace import LocalPace, Pace, postgres_pace
from engine.providers import ModelInfo
from engine.testing import Pause, ScriptedProvider, done, text

# A dollar for each thousand tokens of an answer.
INFO = ModelInfo(name="example/model", host="example", price_output=1_000.0)
MODEL = ScriptedProvider([[Pause(0.2), *text("Hello."), *done(usage=Usage(output=1_000))]], info=INFO, repeat=True)


async def say_hello(eng: engine.Engine, codes: list[str]) -> None:
    session = await eng.create_session(cwd="/")
    async with session.prompt("Say hello") as turn:
        codes += [event.code async for event in turn if isinstance(event, Notice)]
    codes.append(turn.result.stop_reason)


async def send_many(pace: Pace) -> None:
    codes: list[str] = []
    async with engine.open_engine(model=MODEL, ports=Ports(pace=pace)) as eng, trio.open_nursery() as nursery:
        for _ in range(25):
            nursery.start_soon(say_hello, eng, codes)
    print(codes.count("waiting_for_pace"), "of", codes.count("completed"), "had to wait")


async def one_process() -> None:
    pace = LocalPace()
    await send_many(pace)
    for lane in pace.status():
        print(f"{lane.key.host}: {lane.in_flight} of {lane.limit:g} are under way")


async def many_machines(url: str) -> None:
    pace = postgres_pace(url, reserve=0.2)
    await send_many(pace)


async def spend() -> None:
    spending = SpendingLimit(cost=2.5)
    codes: list[str] = []
    async with engine.open_engine(model=MODEL, ports=Ports(spending=spending)) as eng:
        while not spending.reached:
            await say_hello(eng, codes)
    print(codes.count("completed"), "turns for", spending.total_cost, "dollars:", spending.reached)


async def main() -> None:
    await one_process()
    if "AGENTS_DATABASE" in os.environ:
        await many_machines(os.environ["AGENTS_DATABASE"])
    await spend()


trio.run(main)

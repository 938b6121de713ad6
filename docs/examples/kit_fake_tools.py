"""The test kit: tools that behave as their arguments say, and leave a trail of what really happened."""

import trio
import trio.testing

import engine
from engine.events import ResultsMessage
from engine.options import PermissionOptions
from engine.permission import AllowAll
from engine.testing import FakeTools, ScriptedProvider, call, done

FIRST = [
    *call("look", {"key": "quick", "seconds": 0.1}, id="1"),
    *call("look", {"key": "rude", "manner": "stubborn"}, id="2"),
    *call("work", {"key": "alone", "seconds": 0.1}, id="3"),
    *done("calls"),
]


async def main() -> None:
    tools = FakeTools()
    async with engine.open_engine(
        model=ScriptedProvider([FIRST]), tools=tools.tools(), permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session()
        with trio.move_on_after(0.5):
            await session.run("go")
    for trail in tools.trails:
        print(f"{trail.key}: returned {trail.returned}, at {trail.ended_at:.2f}, cancelled {trail.cancelled}")
    results = session.state.transcript[-1]
    assert isinstance(results, ResultsMessage)
    for result in results.results:
        settlement = result.settlement
        unknown = ", outcome unknown" if settlement.outcome_unknown else ""
        print(f"{result.tool}: {settlement.status}, {settlement.reason}{unknown}")


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

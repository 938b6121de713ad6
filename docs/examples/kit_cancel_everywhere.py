"""The test kit: a host's own combination of hooks, settings and answers, cancelled at each of its points."""

import trio

import engine
from engine.hooks import ToolDecision, ToolUse
from engine.testing import Scenario, call, cancel_everywhere, done


async def slow_guard(use: ToolUse) -> ToolDecision | None:
    await trio.sleep(0.1)
    return ToolDecision(verdict="deny", reason="not today") if "secret" in use.arguments else None


SCENARIO = Scenario(
    script=[
        [
            *call("look", {"key": "a", "seconds": 0.1}, id="1"),
            *call("work", {"key": "secret"}, id="2"),
            *done("calls"),
        ]
    ],
    hooks=engine.Hooks(before_tool=(slow_guard,)),
    settings=engine.Settings(limits=engine.Limits(seconds=60)),
    store_delay=0.01,
)


def test_guard_cancelled_at_any_instant() -> None:
    report = cancel_everywhere(SCENARIO, every=9, seed=3)
    assert report.runs >= report.points


if __name__ == "__main__":
    test_guard_cancelled_at_any_instant()

"""The test kit: what the engine is tested with, for whoever embeds it.

    from engine.testing import cancel_everywhere, tool_scenario

    def test_my_tool_may_be_cancelled_at_any_instant() -> None:
        cancel_everywhere(tool_scenario(my_tool, {"path": "a.txt"}))

Hypothesis strategies are in `engine.testing.strategies` (the extra `testing`), a
loopback host that speaks a real wire format in `engine.testing.http_server`.
"""

from engine.testing.cancel import PromiseBroken as PromiseBroken
from engine.testing.cancel import Report as Report
from engine.testing.cancel import cancel_everywhere as cancel_everywhere
from engine.testing.cancel import tool_scenario as tool_scenario
from engine.testing.invariants import Evidence as Evidence
from engine.testing.invariants import check as check
from engine.testing.points import WAYS as WAYS
from engine.testing.points import Injection as Injection
from engine.testing.ports import CountingIds as CountingIds
from engine.testing.ports import ScriptedKeeper as ScriptedKeeper
from engine.testing.ports import ScriptedSnapshots as ScriptedSnapshots
from engine.testing.ports import SlowStore as SlowStore
from engine.testing.ports import TrioClock as TrioClock
from engine.testing.script import Answer as Answer
from engine.testing.script import Break as Break
from engine.testing.script import Fail as Fail
from engine.testing.script import HttpFailure as HttpFailure
from engine.testing.script import Pause as Pause
from engine.testing.script import call as call
from engine.testing.script import done as done
from engine.testing.script import reasoning as reasoning
from engine.testing.script import spread as spread
from engine.testing.script import text as text
from engine.testing.scripted import ScriptedProvider as ScriptedProvider
from engine.testing.tools import FakeTools as FakeTools
from engine.testing.world import Run as Run
from engine.testing.world import Scenario as Scenario
from engine.testing.world import play as play

__all__ = [
    "WAYS",
    "Answer",
    "Break",
    "CountingIds",
    "Evidence",
    "Fail",
    "FakeTools",
    "HttpFailure",
    "Injection",
    "Pause",
    "PromiseBroken",
    "Report",
    "Run",
    "Scenario",
    "ScriptedKeeper",
    "ScriptedProvider",
    "ScriptedSnapshots",
    "SlowStore",
    "TrioClock",
    "call",
    "cancel_everywhere",
    "check",
    "done",
    "play",
    "reasoning",
    "spread",
    "text",
    "tool_scenario",
]

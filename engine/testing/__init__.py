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
from engine.testing.cancel_points import WAYS as WAYS
from engine.testing.cancel_points import Injection as Injection
from engine.testing.fake_tools import FakeTools as FakeTools
from engine.testing.fakes import CountingIds as CountingIds
from engine.testing.fakes import ScriptedKeeper as ScriptedKeeper
from engine.testing.fakes import ScriptedSnapshots as ScriptedSnapshots
from engine.testing.fakes import SlowStore as SlowStore
from engine.testing.fakes import TrioClock as TrioClock
from engine.testing.harness import Run as Run
from engine.testing.harness import Scenario as Scenario
from engine.testing.harness import play as play
from engine.testing.invariants import Evidence as Evidence
from engine.testing.invariants import check as check
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
from engine.testing.scripted_provider import ScriptedProvider as ScriptedProvider

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

"""The test kit: the tools that test the engine, also for programs that embed it, or that only use Trio.

    from engine.testing import cancel_everywhere, tool_scenario

    def test_my_function_can_be_cancelled() -> None:
        cancel_everywhere(my_function)

    def test_my_tool_can_be_cancelled() -> None:
        cancel_everywhere(tool_scenario(my_tool, {"path": "a.txt"}))

Hypothesis strategies and machines, and the pytest plugin, need the extra `testing`; a
loopback host that speaks a real wire format in `engine.testing.http_server`.
"""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.testing.cancel import tool_scenario as tool_scenario
    from engine.testing.cancellation.enumeration import NotRepeatable as NotRepeatable
    from engine.testing.cancellation.enumeration import PromiseBroken as PromiseBroken
    from engine.testing.cancellation.enumeration import Report as Report
    from engine.testing.cancellation.everywhere import cancel_everywhere as cancel_everywhere
    from engine.testing.cancellation.failure_report import CancelFailure as CancelFailure
    from engine.testing.cancellation.injections import Injection as Injection
    from engine.testing.cancellation.points import mark_point as mark_point
    from engine.testing.cancellation.stateful import RunningTask as RunningTask
    from engine.testing.cancellation.stateful import TrioMachine as TrioMachine
    from engine.testing.cancellation.stateful import cancel_points as cancel_points
    from engine.testing.fake_tools import FakeTools as FakeTools
    from engine.testing.fakes import CountingIds as CountingIds
    from engine.testing.fakes import ScriptedKeeper as ScriptedKeeper
    from engine.testing.fakes import ScriptedSnapshots as ScriptedSnapshots
    from engine.testing.fakes import SlowStore as SlowStore
    from engine.testing.fakes import TrioClock as TrioClock
    from engine.testing.fault_proxy import FaultProxy as FaultProxy
    from engine.testing.harness import Run as Run
    from engine.testing.harness import Scenario as Scenario
    from engine.testing.harness import play as play
    from engine.testing.http_server import ScriptedServer as ScriptedServer
    from engine.testing.invariants import Evidence as Evidence
    from engine.testing.invariants import check as check
    from engine.testing.invariants import check_transcript as check_transcript
    from engine.testing.record import Recorder as Recorder
    from engine.testing.replay import ReplayServer as ReplayServer
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
    from engine.testing.strategies import injections as injections
    from engine.testing.strategies import scenarios as scenarios
    from engine.testing.turn_points import WAYS as WAYS
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.testing.cancel": "tool_scenario",
            "engine.testing.turn_points": "WAYS",
            "engine.testing.cancellation.enumeration": "NotRepeatable PromiseBroken Report",
            "engine.testing.cancellation.everywhere": "cancel_everywhere",
            "engine.testing.cancellation.failure_report": "CancelFailure",
            "engine.testing.cancellation.injections": "Injection",
            "engine.testing.cancellation.points": "mark_point",
            "engine.testing.cancellation.stateful": "RunningTask TrioMachine cancel_points",
            "engine.testing.fake_tools": "FakeTools",
            "engine.testing.fakes": "CountingIds ScriptedKeeper ScriptedSnapshots SlowStore TrioClock",
            "engine.testing.fault_proxy": "FaultProxy",
            "engine.testing.harness": "Run Scenario play",
            "engine.testing.http_server": "ScriptedServer",
            "engine.testing.invariants": "Evidence check check_transcript",
            "engine.testing.record": "Recorder",
            "engine.testing.replay": "ReplayServer",
            "engine.testing.script": "Answer Break Fail HttpFailure Pause call done reasoning spread text",
            "engine.testing.scripted_provider": "ScriptedProvider",
            "engine.testing.strategies": "injections scenarios",
        },
    )

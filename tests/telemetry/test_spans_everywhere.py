"""A turn cancelled at each step of the scheduler still ends every span, below one root."""

from __future__ import annotations

import attrs
import pytest

import engine
from engine.agents import AgentConfig
from engine.core.llm_types import ModelRequest
from engine.core.messages import Message, UserMessage
from engine.core.protocols import ContextView
from engine.core.settings import RetryPolicy, Settings
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.fakes import ScriptedKeeper
from engine.testing.harness import Scenario
from engine.testing.script import Answer, HttpFailure, call, done, text
from tests.conftest import CountRuns
from tests.support.recorded_spans import RecordedSpans


@attrs.frozen
class Errand:
    """Delegate."""

    text: str


@engine.tool(read_only=True)
async def delegate(args: Errand, ctx: engine.ToolContext) -> str:
    return (await ctx.run_agent(args.text, agent=AgentConfig(), name="helper")).text


_TWO_STEPS = 4
WORK: Answer = [*call("work", {"key": "1", "seconds": 0.2}, id="3"), *done("calls")]


def _after_failure(request: ModelRequest) -> Answer:
    """Answer a sub-agent; let the session's model delegate to two at once."""
    first = request.transcript[0]
    assert isinstance(first, UserMessage)
    if first.text.startswith("Look"):
        return [*text("Found."), *done()]
    if len(request.transcript) > _TWO_STEPS:
        return [*text("Done."), *done()]
    if len(request.transcript) > 1:
        return WORK
    return [
        *call("delegate", {"text": "Look for a."}, id="1"),
        *call("delegate", {"text": "Look for b."}, id="2"),
        *done("calls"),
    ]


def _keep_all(view: ContextView) -> list[Message]:
    return list(view.transcript)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["user", "host"])
def test_every_span_ends(way: str, is_full: bool, count_runs: CountRuns) -> None:
    made: list[RecordedSpans] = []

    def telemetry() -> object:
        made.append(RecordedSpans())
        return made[-1].telemetry(content=True)

    scenario = Scenario(
        script=[[HttpFailure(529)], *([_after_failure] * 5)],
        tools=(delegate,),
        asks=True,
        settings=Settings(retry=RetryPolicy(base=0.1)),
        keeper=lambda: ScriptedKeeper(seconds=0.2, compacts=[_keep_all]),
        store_delay=0.05,
        telemetry=telemetry,  # type: ignore[arg-type]
    )
    report = cancel_everywhere(scenario, ways=(way,), every=1 if is_full else 23)
    count_runs(report.runs)
    names = {span.name for span in made[0].ended}
    assert names >= {
        "invoke_agent helper",
        "engine.permission_wait",
        "engine.compaction",
        "execute_tool delegate",
        "chat model",
        "engine.store.flush",
    }
    for spans in made:
        begun = [span.name for span in spans.begun]
        assert sorted(begun) == sorted(span.name for span in spans.ended)
        # The second root is the turn after it.
        assert ({root.name for root in spans.roots}, spans.orphans) == ({"invoke_agent"}, [])
        assert not [span for span in spans.ended if (span.attributes or {}).get("error.type") == "left_open"]

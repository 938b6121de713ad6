"""Reading the prompt, cancelled at every step: nothing is half told, and the next prompt works."""

# pyright: reportPrivateUsage=false
# What is read in threads is read here between two checkpoints: a thread comes back when it likes, and a run must repeat.

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

import engine
from engine.core.events import Durable, NudgeAdded, PromptSet, PromptUpdated
from engine.core.hooks import Hooks, Prompted
from engine.prompt.layers import PromptInputs, PromptLayers, Reading
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.fakes import ScriptedKeeper
from engine.testing.harness import NEXT_PROMPT, Scenario, play
from engine.testing.script import Answer, call, done, text
from engine.testing.turn_points import Way
from engine.tools.call_values import Need
from engine.tools.tool import Tool

pytestmark = pytest.mark.slow

WAYS: tuple[Way, ...] = ("user", "host", "leave")


@attrs.define(eq=False, kw_only=True)
class Inline(PromptLayers):
    """Layers of one folder, whatever a session works in, read without threads."""

    folder: str

    async def read(self, inputs: PromptInputs) -> Reading:
        """Read between two checkpoints."""
        await trio.lowlevel.checkpoint()
        reading = self._read(attrs.evolve(inputs, cwd=self.folder), {})
        await trio.lowlevel.checkpoint()
        return reading

    async def remember(self, project: str) -> str:
        """Forget it. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return "the disk is full"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "home/project"
    (project / ".git").mkdir(parents=True)
    (project / "pkg").mkdir()
    (project / "AGENTS.md").write_text("Use tabs.")
    (project / "pkg/AGENTS.md").write_text("Use spaces.")
    (project / "CLAUDE.md").write_bytes(b"\xff")
    return project


def layers(folder: Path, *, trusted: bool = True) -> Callable[[], PromptLayers]:
    """Make layers of which something is different at each look."""

    def make() -> PromptLayers:
        numbers: Iterator[int] = count()
        return Inline(
            folder=str(folder),
            home=str(folder.parent),
            is_trusted=lambda _: trusted,
            trust=lambda _: None,
            sources={"count": lambda _: f"look {next(numbers)}"},
        )

    return make


@attrs.frozen
class Nothing:
    """Touch a file."""


def toucher(folder: Path) -> Tool:
    @engine.tool(read_only=True, need=lambda _: Need(permission="read", paths=(str(folder / "pkg/a"),)))
    async def touch(args: Nothing, ctx: engine.ToolContext) -> str:
        """Touch a file."""
        await trio.sleep(0.1)
        return "ok"

    return touch


ASKING: Answer = [*text("Let me see."), *call("touch", {}, id="1"), *call("touch", {}, id="2"), *done("calls")]
DONE: Answer = [*text("Done."), *done()]


def test_cancel_while_reading_the_prompt(folder: Path) -> None:
    scenario = Scenario(script=[ASKING, DONE], tools=(toucher(folder),), prompt=layers(folder))
    events = cast("list[Durable]", play(scenario).seen)
    assert len([e for e in events if isinstance(e, PromptSet)]) == 1
    assert len([e for e in events if isinstance(e, PromptUpdated)]) == 2  # in the turn, and in the next one
    report = cancel_everywhere(scenario, ways=WAYS)
    assert report.runs > 300


def test_cancel_while_asking_about_trust(folder: Path) -> None:
    made: list[PromptLayers] = []

    def make() -> PromptLayers:
        made.append(layers(folder, trusted=False)())
        return made[-1]

    async def nobody_answers_any_more(subject: Prompted) -> None:
        await trio.lowlevel.checkpoint()
        if subject.text == NEXT_PROMPT:
            made[-1].mark_answered(str(folder))

    scenario = Scenario(script=[DONE], prompt=make, hooks=Hooks(user_prompt=(nobody_answers_any_more,)))
    report = cancel_everywhere(scenario, ways=WAYS)
    assert report.runs > 200


def test_cancel_around_a_new_baseline(folder: Path) -> None:
    def keeper() -> ScriptedKeeper:
        # The user's own words stay, as the first message of all.
        return ScriptedKeeper(compacts=[lambda view: view.transcript[:1]])

    scenario = Scenario(script=[ASKING, DONE], tools=(toucher(folder),), prompt=layers(folder), keeper=keeper)
    events = cast("list[Durable]", play(scenario).seen)
    assert [e.reason for e in events if isinstance(e, PromptSet)] == ["start", "compacted"]
    assert not [e for e in events if isinstance(e, NudgeAdded)]
    cancel_everywhere(scenario, ways=WAYS, every=2)

"""T10 over every wire format: whatever tools, files, dates and branches do in a turn, each request begins with all of the one before."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies as st

import engine
from engine.core.events import PromptSet, PromptUpdated
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.prompt.layers import PromptLayers
from engine.providers.models.quirks_lookup import quirks_of
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.skill import skill_tool
from engine.tools.call_values import Need
from engine.tools.tool import Tool
from tests.properties.bodies import messages_of
from tests.properties.test_encodings import SPOKEN, encoder_of, hosts_of, model_of
from tests.support.world import world

pytestmark = pytest.mark.slow

DAY = 86_400.0
SKILL = "---\nname: {name}\ndescription: How to {name}.\n---\nDo."


@attrs.frozen
class Disturb:
    """Do something to the world."""

    what: Annotated[str, engine.doc("what")]
    path: Annotated[str, engine.doc("where")] = ""


@attrs.define(eq=False)
class Around:
    """A project, a clock and a server of the host's: all that a prompt is made of."""

    home: Path
    time: float = 1_795_003_200.0
    server: str | None = "one"
    count: int = 0
    disturbances: Mapping[str, Callable[[Path], object]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.disturbances = {
            "edit": lambda path: path.write_text(f"version {self.count}"),
            "break": lambda path: path.write_bytes(b"\xff\x00"),
            "remove": lambda path: path.unlink(missing_ok=True),
            "large": lambda path: path.write_text("long\n" * 20_000),
            "touch": lambda path: None,
            "branch": lambda path: (self.project / ".git/HEAD").write_text(f"ref: refs/heads/b{self.count}\n"),
            "no repository": lambda path: shutil.rmtree(self.project / ".git", ignore_errors=True),
            "skill": lambda path: self.write(
                f".claude/skills/s{self.count}/SKILL.md", SKILL.format(name=f"s{self.count}")
            ),
            "date": lambda path: self.tick(),
            "server": lambda path: setattr(self, "server", f"says {self.count}"),
            "server down": lambda path: setattr(self, "server", None),
        }
        for name in PLACES:
            self.write(name, f"rules of {name}")
        self.write(".git/HEAD", "ref: refs/heads/main\n")

    @property
    def project(self) -> Path:
        return self.home / "project"

    def write(self, name: str, said: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)

    def tick(self) -> None:
        self.time += DAY

    def now(self) -> float:
        return self.time

    def layers(self) -> PromptLayers:
        return PromptLayers(home=str(self.home), is_trusted=lambda _: True, sources={"server": lambda _: self.server})

    def tool(self) -> Tool:
        def need(args: Disturb) -> Need:
            return Need(permission="read", paths=(str(self.project / args.path),))

        @engine.tool(name="disturb", read_only=True, need=need)
        async def disturb(args: Disturb, ctx: engine.ToolContext) -> str:
            self.count += 1
            self.disturbances[args.what](self.project / args.path)
            await trio.lowlevel.checkpoint()
            return "done"

        return disturb


PLACES = ("AGENTS.md", "CLAUDE.md", "pkg/AGENTS.md", "pkg/x/CLAUDE.md", "other/AGENTS.md")
KINDS = (
    "edit",
    "break",
    "remove",
    "large",
    "touch",
    "branch",
    "no repository",
    "skill",
    "date",
    "server",
    "server down",
)
STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(PLACES)), min_size=1, max_size=3), max_size=8
)


def script_of(steps: list[list[tuple[str, str]]]) -> list[Answer]:
    answers: list[Answer] = []
    for step in steps:
        asked: Answer = []
        for number, (what, path) in enumerate(step):
            asked = [*asked, *call("disturb", {"what": what, "path": path}, id=f"{number}")]
        answers.append([*asked, *done("calls")])
    return [*answers, [*text("Done."), *done()]]


def played(steps: list[list[tuple[str, str]]]) -> tuple[list[ModelRequest], int, int]:
    """Return the requests of a turn with these disturbances, how often the prompt was set, and what was told."""

    async def play(around: Around) -> tuple[list[ModelRequest], int, int]:
        layers = around.layers()
        tools = (around.tool(), skill_tool(layers.skills_at))
        info = ModelInfo(name="scripted/model", family="gemini")
        async with world(
            *script_of(steps), tools=tools, prompt=layers, cwd=str(around.project), clock=around, info=info
        ) as w:
            turn = await w.play()
            assert turn.stop_reason in {"completed", "doom_loop"}
            return w.requests, len(turn.all(PromptSet)), len(turn.all(PromptUpdated))

    with tempfile.TemporaryDirectory() as folder:
        return trio.run(play, Around(Path(folder).resolve()))


@hypothesis.settings(max_examples=25)
@hypothesis.given(steps=STEPS)
def test_t10_requests_extend_the_one_before(steps: list[list[tuple[str, str]]]) -> None:
    requests, baselines, _ = played(steps)
    assert baselines == 1
    for wire in SPOKEN:
        check_wire(wire, requests)


def test_t10_twenty_changing_steps_keep_the_prefix() -> None:
    requests, baselines, updates = played([[(KINDS[n % len(KINDS)], PLACES[n % len(PLACES)])] for n in range(20)])
    assert (len(requests), baselines) == (21, 1)
    assert updates > 10
    for wire in SPOKEN:
        check_wire(wire, requests)


def check_wire(wire: str, requests: list[ModelRequest]) -> None:
    host = hosts_of(wire)[0]
    encoder = encoder_of(host, quirks_of(host, host.example))
    before = b""
    for request in requests:
        sent = attrs.evolve(
            request, model=model_of(host), session_id="s1", options=attrs.evolve(request.options, cache="off")
        )
        body = encoder.encode(sent)
        assert body.broken_at == ""
        start = messages_of(wire, bytes(body))
        assert start.startswith(before)
        before = start
    assert {(request.system, request.tools) for request in requests} == {(requests[0].system, requests[0].tools)}


@pytest.mark.parametrize("what", KINDS)
def test_t10_each_change_is_reported(what: str) -> None:
    _, _, updates = played([[(what, "AGENTS.md")]])
    # What can't be read keeps its old value; what is only touched is known.
    assert updates == (0 if what in {"break", "touch"} else 1)

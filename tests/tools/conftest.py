"""A tool's context with a host that only listens."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from engine.agents.agent_result import AgentResult
from engine.agents.background import AgentJob, AgentJobs
from engine.core.context_report import ContextReport
from engine.core.events import AnswerKind, Choice, SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.named_locks import Locks
from engine.tools.background_jobs import Jobs, TaskFunction
from engine.tools.call_values import Need, ToolOutput
from engine.tools.editor_files import EditorFiles
from engine.tools.output.spill import Spills, SpillStore
from engine.tools.tool_context import AgentRequest, EditReviewer, ToolContext, UserAnswers


async def _no_nursery(task: TaskFunction, *, name: str) -> None:
    raise AssertionError("a background job needs the fixture `background`")


@attrs.define
class Listener:
    shown: list[str] = attrs.field(factory=list)
    locks: Locks = attrs.field(factory=Locks)
    spills: Spills | None = None
    edit_reviewer: EditReviewer | None = None
    editor: EditorFiles | None = None
    notices: list[str] = attrs.field(factory=list)
    jobs: Jobs = attrs.field(init=False)
    agents: AgentJobs = attrs.field(factory=AgentJobs)

    def __attrs_post_init__(self) -> None:
        self.jobs = Jobs(_no_nursery, self.notices.append)

    def progress(self, message: str, output: str) -> None:
        self.shown.append(output)

    async def about_to_change(self, paths: Sequence[str]) -> None:
        self.shown += [] if paths else ["nothing is about to change"]

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        raise AssertionError("no built-in asks in the middle of its work")

    def permits(self, need: Need, answered: str) -> bool:
        return True

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        raise AssertionError("no built-in asks in words unless it is its work")

    def context_report(self) -> ContextReport:
        raise AssertionError("no built-in looks at the window unless it is its work")

    async def run_agent(self, request: AgentRequest) -> AgentResult:
        raise AssertionError("no built-in runs an agent")

    async def start_agent(self, request: AgentRequest) -> AgentJob:
        raise AssertionError("no built-in starts an agent")

    async def result_from_outside(self) -> ToolOutput:
        raise AssertionError("no built-in waits for a result from outside")


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    return Listener(spills=SpillStore(tmp_path.with_name(f"{tmp_path.name}-spill")).of("ses_1"))


@pytest.fixture
def ctx(tmp_path: Path, listener: Listener, request: pytest.FixtureRequest) -> ToolContext:
    """A running call in `tmp_path`."""
    return ToolContext(
        session_id=SessionId("ses_1"),
        turn_id=TurnId("turn_1"),
        call_id=CallId(f"call_{tmp_path.name}"),
        shared=SharedContext(cwd=str(tmp_path)),
        host=listener,
    )


@pytest.fixture
def background(listener: Listener, nursery: trio.Nursery) -> Jobs:
    """Let background jobs run in a nursery which the test cancels at its end."""

    async def start_task(task: TaskFunction, *, name: str) -> None:
        await nursery.start(task, name=name)

    listener.jobs = Jobs(start_task, listener.notices.append)
    return listener.jobs

"""Figure `shell`: what a call of bash costs, versus a bare `trio.run_process` of the same command."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks.report import Figure, Row, median, seconds
from engine.agents.agent_result import AgentResult
from engine.agents.background import AgentJob, AgentJobs
from engine.core.context_report import ContextReport
from engine.core.events import AnswerKind, Choice, SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.named_locks import Locks
from engine.tools.background_jobs import Jobs, TaskFunction
from engine.tools.builtin.bash import Bash, bash
from engine.tools.builtin.bash_permissions import only_reads
from engine.tools.call_values import Need, ToolOutput
from engine.tools.editor_files import EditorFiles
from engine.tools.output.spill import Spills, SpillStore
from engine.tools.shell_environment import argv
from engine.tools.tool_context import AgentRequest, EditReviewer, ToolContext, UserAnswers

COMMAND: Final = "echo hi"
ROUNDS: Final = 201
LIMIT: Final = 0.002
PIPELINE: Final = "cat a.log | grep -n 'x$' | sort | uniq -c | sort -rn | head -20"


@attrs.define(eq=False)
class Host:
    """What a call of bash sees of its turn: one that only listens."""

    spills: Spills | None
    edit_reviewer: EditReviewer | None = None
    editor: EditorFiles | None = None
    shown: int = 0
    locks: Locks = attrs.field(factory=Locks)
    agents: AgentJobs = attrs.field(factory=AgentJobs)

    @property
    def jobs(self) -> Jobs:
        async def refuse(task: TaskFunction, *, name: str) -> None:
            raise NotImplementedError

        return Jobs(refuse, lambda _: None)

    def progress(self, message: str, output: str) -> None:
        self.shown += len(output)

    async def about_to_change(self, paths: Sequence[str]) -> None:
        raise NotImplementedError

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        raise NotImplementedError

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        raise NotImplementedError

    async def result_from_outside(self) -> ToolOutput:
        raise NotImplementedError

    def context_report(self) -> ContextReport:
        raise NotImplementedError

    async def run_agent(self, request: AgentRequest) -> AgentResult:
        raise NotImplementedError

    async def start_agent(self, request: AgentRequest) -> AgentJob:
        raise NotImplementedError

    def permits(self, need: Need, answered: str) -> bool:
        return True


async def call(folder: str) -> None:
    """Call the tool. Always a checkpoint."""
    host = Host(SpillStore(Path(folder)).of("benchmark"))
    ctx = ToolContext(
        session_id=SessionId("ses_1"),
        turn_id=TurnId("turn_1"),
        call_id=CallId("call_1"),
        shared=SharedContext(cwd=folder),
        host=host,
    )
    output = await bash(Bash(COMMAND), ctx)
    assert output.text.startswith("hi\n[exit code 0")
    assert host.shown == 3


async def bare(folder: str) -> None:
    """Run the same command with trio alone. Always a checkpoint."""
    ran = await trio.run_process(argv(COMMAND), cwd=folder, capture_stdout=True, stderr=subprocess.STDOUT)
    assert ran.stdout == b"hi\n"


async def _taken(program: Callable[[str], Awaitable[None]], folder: str) -> float:
    began = time.perf_counter()
    await program(folder)
    return time.perf_counter() - began


def measure() -> list[Row]:
    called: list[float] = []
    alone: list[float] = []

    async def main(folder: str) -> None:
        for program in (call, bare):
            await program(folder)
        # By turns, so that a busy moment hits both.
        for _ in range(ROUNDS):
            alone.append(await _taken(bare, folder))
            called.append(await _taken(call, folder))

    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, folder)
    over = median(one - other for one, other in zip(called, alone, strict=True))
    return [
        Row(
            name="shell: a call of bash over trio.run_process",
            measured=seconds(over),
            baseline=seconds(median(alone)),
            ratio=median(called) / median(alone),
            target="≤ 2 ms over it",
            ok=over <= LIMIT,
        ),
        Row(name="shell: to tell that a pipeline of six only reads", measured=seconds(_telling())),
    ]


def _telling() -> float:
    only_reads(PIPELINE)
    began = time.perf_counter()
    for _ in range(200):
        only_reads(PIPELINE)
    return (time.perf_counter() - began) / 200


def _workload() -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(200):
                await call(folder)

    trio.run(main)


FIGURE = Figure(
    name="shell",
    about="a call of bash versus a bare trio.run_process of the same command",
    measure=measure,
    workload=_workload,
)

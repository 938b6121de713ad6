"""Background jobs: commands with a name that go on when the call, and the turn, that started them are over.

A job belongs to a session. It is a task in the engine's nursery with a cancel scope of
its own, and ends with its whole tree of processes: when its command ends, when it is
stopped, with its session, or with the engine. Nothing outlives that.

While a job starts, it belongs to the call that starts it (`trio.Nursery.start`): so a
call that is cancelled before it could tell of the job leaves none. From then on a cancel
of a turn does nothing to it.

Of a job's output the newest part is at hand (`Recent`). The whole is kept in the spill,
and can be read once the job has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ToolError
from engine.core.exception_groups import describe, public
from engine.process.process import FinishedProcess, run_tree
from engine.process.redact import Mask, secrets_in
from engine.tools.call_values import GRACE, MAX_JOBS, RECENT_BYTES
from engine.tools.output.spill import Spills
from engine.tools.output.spill_writer import CapturedOutput, SpillWriter
from engine.tools.shell_environment import argv, ending_of, environment

# Of those that have ended, so many can still be asked for.
MAX_ENDED: Final = 16

# A job that fails at once is reported as failed by the call that started it.
_STARTING: Final = 0.3
# What is written within such a time belongs together.
_QUIET: Final = 0.1
_SAVING: Final = 5.0
_PROCESS_GRACE: Final = 0.8 * GRACE


class TaskFunction(Protocol):
    """A task that says when it has started."""

    async def __call__(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run it."""
        ...


class StartTask(Protocol):
    """Starts a task in the engine's nursery."""

    async def __call__(self, task: TaskFunction, *, name: str) -> None:
        """Start it, and return when it says that it has started. A checkpoint.

        If cancelled, the task is cancelled and waited for. Raises `EngineClosed`, and what the task raised until then.
        """
        ...


@attrs.define(eq=False)
class Recent:
    """The newest bytes of an output of any length. Each has a number, counted from the first of all.

    Attributes:
        total: how many have come.
    """

    _size: int
    total: int = attrs.field(default=0, init=False)
    _kept: bytearray = attrs.field(factory=bytearray, init=False)

    @property
    def first(self) -> int:
        """The number of the oldest byte that is kept."""
        return self.total - len(self._kept)

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        self._kept += chunk
        self.total += len(chunk)
        if len(self._kept) > 2 * self._size:  # not at each chunk: what is left must be moved
            del self._kept[: -self._size]

    def since(self, number: int) -> bytes:
        """Return what is kept from that byte on."""
        return bytes(self._kept[max(0, number - self.first) :])


@attrs.define(eq=False, kw_only=True)
class Job:
    """A command that runs in the background.

    Attributes:
        name: what the model calls it.
        command: the command line.
        argv: what runs it; None: bash, as it is.
        cwd: where it runs.
        marker: names its processes, and it among all jobs there ever were.
        output: the newest of what it wrote.
        finished: how its processes ended.
        captured: its whole output, once it has ended.
        trouble: what the engine itself could not do.
        over: set once it has ended.
    """

    name: str
    command: str
    cwd: str
    marker: str
    _writer: SpillWriter = attrs.field(alias="writer")
    _tell: Callable[[str], None] = attrs.field(alias="tell")
    argv: Sequence[str] | None = None
    output: Recent = attrs.field(factory=lambda: Recent(RECENT_BYTES), init=False)
    finished: FinishedProcess | None = attrs.field(default=None, init=False)
    captured: CapturedOutput | None = attrs.field(default=None, init=False)
    trouble: str = attrs.field(default="", init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _began_at: float = attrs.field(factory=trio.current_time, init=False)
    _is_started: bool = attrs.field(default=False, init=False)
    _on_over: Callable[[], None] | None = attrs.field(default=None, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _news: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self.over.is_set()

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        if self.is_running:
            return f"running for {trio.current_time() - self._began_at:.1f} s"
        if self.finished is None:
            return "ended by the engine"
        return f"{ending_of(self.finished)}, {self.finished.duration:.1f} s"

    def when_over(self, do: Callable[[], None]) -> None:
        """Call *do* once it has ended, unless it ends with the engine. Not a checkpoint."""
        self._on_over = do

    def stop(self) -> None:
        """End it, with its tree. Not a checkpoint; `over` tells when that is done."""
        self._scope.cancel(reason="the background job is stopped")

    async def wait_for_output(self, after: int, seconds: float) -> None:
        """Wait for output after byte *after* and a pause, for the end, or for so long. Always a checkpoint."""
        with trio.move_on_after(seconds):
            await self._has_paused(after)
        await trio.lowlevel.checkpoint()

    async def _has_paused(self, after: int) -> None:
        while self.is_running and self.output.total <= after:
            await self._news.park()
        pausing = False
        while self.is_running and not pausing:
            with trio.move_on_after(_QUIET) as pause:
                await self._news.park()
            pausing = pause.cancelled_caught
        await trio.lowlevel.checkpoint()

    async def wait_for_end(self, seconds: float) -> None:
        """Wait until it has ended, or for so long. Always a checkpoint."""
        with trio.move_on_after(seconds):
            await self.over.wait()
        await trio.lowlevel.checkpoint()

    @enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run it to its end. A checkpoint; if cancelled, its tree is ended first.

        Raises `OSError` or `ValueError` if the command can't be started.
        """
        try:
            with self._writer:
                with self._scope:
                    await self._run_command(task_status)
                with trio.move_on_after(_SAVING):  # a disk that hangs must not keep the engine from closing
                    self.captured = await self._writer.finish()
            self.over.set()
            self._say_started(task_status)
            self._tell(f"the background job {self.name} has ended: {self.state}")
            self._note_over()
        except Exception as error:
            if not self._is_started:
                raise  # in the call, whose task this still is
            # Raised here, it would end all turns of the engine.
            self.trouble = describe(error)
            self._note_over()
        finally:
            self.over.set()
            self._news.unpark_all()

    async def _run_command(self, task_status: trio.TaskStatus[None]) -> None:
        failure: BaseException | None = None
        env = environment()
        mask = Mask(self._take, secrets_in(env))

        def finish(finished: FinishedProcess) -> None:
            mask.finish()
            self.finished = finished

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start, task_status)
                await run_tree(
                    self.argv or argv(self.command),
                    cwd=self.cwd,
                    marker=self.marker,
                    env=env,
                    grace=_PROCESS_GRACE,
                    on_output=mask.feed,
                    room=self._writer.room,
                    on_finish=finish,
                )
                nursery.cancel_scope.cancel(reason="the command has ended")
        except BaseExceptionGroup as group:
            failure = public(group)
        if failure is not None:
            raise failure

    async def _start(self, task_status: trio.TaskStatus[None]) -> None:
        await trio.sleep(_STARTING)
        self._say_started(task_status)

    def _say_started(self, task_status: trio.TaskStatus[None]) -> None:
        if not self._is_started:
            self._is_started = True
            task_status.started()

    def _note_over(self) -> None:
        on_over, self._on_over = self._on_over, None
        if on_over is not None:
            on_over()

    def _take(self, chunk: bytes) -> None:
        self.output.feed(chunk)
        self._writer.feed(chunk)
        if self._news:
            self._news.unpark_all()


@attrs.define(eq=False)
class Jobs:
    """The background jobs of one session.

    No end is recorded for jobs that run when they are closed: opening the session again records it.
    """

    _start_task: StartTask
    _tell: Callable[[str], None]
    _note_started: Callable[[Job], None] = attrs.field(default=lambda _: None)
    _note_over: Callable[[str], None] = attrs.field(default=lambda _: None)
    _jobs: dict[str, Job] = attrs.field(factory=dict[str, Job], init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def all(self) -> tuple[Job, ...]:
        """Return them, the oldest first; of those that have ended only the last few."""
        return tuple(self._jobs.values())

    def get(self, name: str) -> Job:
        """Return the job of that name. Raises `ToolError`, which names the others."""
        if name not in self._jobs:
            names = ", ".join(f"{job.name} ({job.state})" for job in self._jobs.values()) or "none"
            raise ToolError(f"There is no background job {name!r}. Jobs of this session: {names}.")
        return self._jobs[name]

    async def start(
        self,
        name: str | None,
        command: str,
        *,
        cwd: str,
        marker: str,
        spills: Spills | None,
        argv: Sequence[str] | None = None,
    ) -> Job:
        """Start a job and return it, some tenths of a second later. Always a checkpoint; if cancelled, there is no job.

        Raises `ToolError` if there can't be one, `OSError` or `ValueError` if the command can't be started.
        """
        job_name = name or self._free_name()
        self._check_room(job_name)
        job = Job(
            name=job_name,
            command=command,
            argv=argv,
            cwd=cwd,
            marker=marker,
            writer=SpillWriter(spills),
            tell=self._tell,
        )
        former = self._jobs.pop(job_name, None)
        self._jobs[job_name] = job
        is_started = False
        try:
            await self._start_task(job.run, name=f"background job {job_name}")
            is_started = True
        finally:
            # Cancelled, or refused; another job may have taken the name since it ended.
            if not is_started and self._jobs.get(job_name) is job:
                del self._jobs[job_name]
                if former is not None:
                    self._jobs[job_name] = former
        self._note(job)
        self._forget_the_oldest()
        return job

    @enable_ki_protection
    def _note(self, job: Job) -> None:
        if job.is_running:
            self._note_started(job)
            job.when_over(partial(self._over, job))

    def _over(self, job: Job) -> None:
        if not self._is_closed:
            self._note_over(job.marker)

    def close(self) -> None:
        """End them all, for good. Not a checkpoint; their tasks are over a moment later."""
        self._is_closed = True
        for job in self._jobs.values():
            job.stop()

    async def aclose(self) -> None:
        """End them all, for good, and wait until they have ended. Always a checkpoint; if cancelled, they end all the same."""
        self.close()
        for job in self.all():
            await job.over.wait()
        await trio.lowlevel.checkpoint()

    def _check_room(self, name: str) -> None:
        if self._is_closed:
            raise ToolError("The session is being closed: it takes no background job any more.")
        running = [job.name for job in self._jobs.values() if job.is_running]
        if name in running:
            raise ToolError(
                f"A background job {name!r} is running. Stop it with bash_stop first, or take another name."
            )
        if len(running) >= MAX_JOBS:
            raise ToolError(
                f"{MAX_JOBS} background jobs are running, which is the limit: {', '.join(running)}. "
                "Stop one with bash_stop first."
            )

    def _free_name(self) -> str:
        numbers = iter(range(1, len(self._jobs) + 2))
        return next(name for number in numbers if (name := f"job{number}") not in self._jobs)

    def _forget_the_oldest(self) -> None:
        ended = [job.name for job in self._jobs.values() if not job.is_running]
        for name in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[name]

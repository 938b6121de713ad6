"""Background jobs: named commands that continue when the call and the turn that started them are over.

A job belongs to a session. It is a task in the engine's nursery with its own cancel scope. It ends, with its whole
process tree, when its command ends, when it is stopped, with its session, or with the engine. Nothing outlives the
engine.

While a job starts, it belongs to the call that starts it (`trio.Nursery.start`): a call that is cancelled before it
could report the job leaves none. After that, cancelling a turn does not affect it.

The newest part of a job's output is in memory (`Recent`). All of it is in the spill, readable once the job has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ToolError
from engine.core.exception_groups import describe, public
from engine.core.threads import check_run, current_token
from engine.process.procfs import ProcessId
from engine.process.redact import Mask, secrets_in
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.secret_names import SecretVariables
from engine.process.start import Launch
from engine.tools.call_values import GRACE, MAX_JOBS, RECENT_BYTES
from engine.tools.output.spill import Spills
from engine.tools.output.spill_writer import CapturedOutput, SpillWriter
from engine.tools.shell_environment import argv, ending_of, environment

# Ended jobs that can still be asked for their output.
MAX_ENDED: Final = 16

# A command that fails within this time is reported as failed by the call that started it.
_STARTING: Final = 0.3
# A pause this long ends a burst of output: a model that waits for output gets whole messages.
_QUIET: Final = 0.1
# For writing the rest of the output when a job ends.
_SAVING: Final = 5.0
_BY_NAME: Final = SecretVariables()
# The rest of a call's grace is for reading what the processes wrote at their end.
_PROCESS_GRACE: Final = 0.8 * GRACE


class TaskFunction(Protocol):
    """A task that reports when it has started."""

    async def __call__(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run it."""
        ...


class StartTask(Protocol):
    """Starts a task in the engine's nursery."""

    async def __call__(self, task: TaskFunction, *, name: str) -> None:
        """Start it, and return when it reports that it has started. A checkpoint.

        If cancelled, the task is cancelled and waited for. Raises `EngineClosed`, and what the task raised while
        starting.
        """
        ...


@attrs.define(eq=False)
class Recent:
    """The newest bytes of an output of any length. Bytes are numbered from the beginning of the output.

    Attributes:
        total: how many bytes there were.
    """

    _size: int
    total: int = attrs.field(default=0, init=False)
    _kept: bytearray = attrs.field(factory=bytearray, init=False)

    @property
    def first(self) -> int:
        """The number of the oldest byte kept."""
        return self.total - len(self._kept)

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        self._kept += chunk
        self.total += len(chunk)
        if len(self._kept) > 2 * self._size:  # not at each chunk, since deleting moves the rest
            del self._kept[: -self._size]

    def since(self, number: int) -> bytes:
        """Return the bytes from *number* on, as far as they are kept."""
        return bytes(self._kept[max(0, number - self.first) :])


@attrs.define(eq=False, kw_only=True)
class Job:
    """A command that runs in the background.

    Attributes:
        name: its name for the model.
        command: the command line.
        launch: how to start it; None: with bash.
        cwd: its working directory.
        marker: marks its processes; unique among all jobs ever.
        pid: the process that its command began in; None: it has not begun.
        output: its newest output.
        finished: how its processes ended.
        captured: its whole output, once it has ended.
        trouble: why the engine itself failed with it.
        over: set once it has ended.
    """

    name: str
    command: str
    cwd: str
    marker: str
    _writer: SpillWriter = attrs.field(alias="writer")
    _tell: Callable[[str], None] = attrs.field(alias="tell")
    _secrets: SecretVariables = attrs.field(default=_BY_NAME, alias="secrets")
    launch: Launch | None = None
    pid: int | None = attrs.field(default=None, init=False)
    output: Recent = attrs.field(factory=lambda: Recent(RECENT_BYTES), init=False)
    finished: FinishedProcess | None = attrs.field(default=None, init=False)
    captured: CapturedOutput | None = attrs.field(default=None, init=False)
    trouble: str = attrs.field(default="", init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _began_at: float = attrs.field(factory=trio.current_time, init=False)
    _is_started: bool = attrs.field(default=False, init=False)
    _on_over: Callable[[], None] | None = attrs.field(default=None, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(factory=current_token, init=False)
    _news: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self.over.is_set()

    @property
    def state(self) -> str:
        """Its state, in a few words."""
        if self.is_running:
            return f"running for {trio.current_time() - self._began_at:.1f} s"
        if self.finished is None:
            return "ended by the engine"
        return f"{ending_of(self.finished)}, {self.finished.duration:.1f} s"

    def when_over(self, do: Callable[[], None]) -> None:
        """Call *do* when it ends, unless the engine ends it. Not a checkpoint."""
        check_run(self._token)
        self._on_over = do

    def stop(self) -> None:
        """End it with its process tree. Not a checkpoint; `over` is set when that is done."""
        check_run(self._token)
        self._scope.cancel(reason="the background job is stopped")

    async def wait_for_output(self, after: int, seconds: float) -> None:
        """Wait up to *seconds* for output after byte *after* and a pause, or for the end. Always a checkpoint."""
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
        """Wait up to *seconds* for its end. Always a checkpoint."""
        with trio.move_on_after(seconds):
            await self.over.wait()
        await trio.lowlevel.checkpoint()

    @enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the command to its end. A checkpoint; if cancelled, its process tree is ended first.

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
            # Raised in the engine's nursery, it would end all turns.
            self.trouble = describe(error)
            self._note_over()
        finally:
            self.over.set()
            self._news.unpark_all()

    async def _run_command(self, task_status: trio.TaskStatus[None]) -> None:
        failure: BaseException | None = None
        launch = self.launch or Launch(argv=argv(self.command))
        env = environment(self._secrets)
        # Output is masked before anything sees it: the model, the host, the file.
        mask = Mask(self._take, secrets_in(os.environ, self._secrets))

        def start(process: ProcessId) -> None:
            self.pid = process.pid

        def finish(finished: FinishedProcess) -> None:
            mask.finish()
            self.finished = finished

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start, task_status)
                await run_tree(
                    launch.argv,
                    cwd=self.cwd,
                    marker=self.marker,
                    env={**env, **launch.environment},
                    confine=launch.confine,
                    limits=launch.limits,
                    grace=_PROCESS_GRACE,
                    on_output=mask.feed,
                    room=self._writer.room,
                    on_start=start,
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

    The end of jobs that run when this is closed is not recorded here: reopening the session records it.
    """

    _start_task: StartTask
    _tell: Callable[[str], None]
    _note_started: Callable[[Job], None] = attrs.field(default=lambda _: None)
    _note_over: Callable[[str], None] = attrs.field(default=lambda _: None)
    _jobs: dict[str, Job] = attrs.field(factory=dict[str, Job], init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(factory=current_token, init=False)

    def all(self) -> tuple[Job, ...]:
        """Return the jobs, oldest first; of the ended ones only the latest."""
        return tuple(self._jobs.values())

    def get(self, name: str) -> Job:
        """Return the job of that name. Raises `ToolError`, which lists the others."""
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
        secrets: SecretVariables = _BY_NAME,
        launch: Launch | None = None,
    ) -> Job:
        """Start a job and return it after some tenths of a second. Always a checkpoint; if cancelled, there is no job.

        Raises `ToolError` if there can be no further job, `OSError` or `ValueError` if the command can't be started.
        """
        job_name = name or self._free_name()
        self._check_room(job_name)
        job = Job(
            name=job_name,
            command=command,
            launch=launch,
            cwd=cwd,
            marker=marker,
            writer=SpillWriter(spills),
            tell=self._tell,
            secrets=secrets,
        )
        # Entered before the first await, so that two calls at the same time can't take one name.
        former = self._jobs.pop(job_name, None)
        self._jobs[job_name] = job
        is_started = False
        try:
            await self._start_task(job.run, name=f"background job {job_name}")
            is_started = True
        finally:
            # Cancelled or refused. The name may have been taken again by now, if the job has ended.
            if not is_started and self._jobs.get(job_name) is job:
                del self._jobs[job_name]
                if former is not None:
                    self._jobs[job_name] = former
        self._note(job)
        self._forget_the_oldest()
        return job

    @enable_ki_protection
    def _note(self, job: Job) -> None:
        # A job that has ended by now was reported by its own call; it needs no record.
        if job.is_running:
            self._note_started(job)
            job.when_over(partial(self._over, job))

    def _over(self, job: Job) -> None:
        if not self._is_closed:
            self._note_over(job.marker)

    def close(self) -> None:
        """Stop all jobs, and accept no more. Not a checkpoint; their tasks end a moment later."""
        check_run(self._token)
        self._is_closed = True
        for job in self._jobs.values():
            job.stop()

    async def aclose(self) -> None:
        """Stop all jobs, and wait until they have ended. Always a checkpoint; if cancelled, they still end."""
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

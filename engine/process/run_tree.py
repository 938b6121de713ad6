"""Processes: `run_tree` runs a command and owns every process that descends from it.

The command is the *leader* of a session and a process group of its own. When it
has exited, was cancelled, or ran out of time, nothing that it started is left:

1. SIGTERM goes to the group at once, then to processes that left the group. (A program that is told by the end of its
   input, see *talk*, may exit by itself first.)
2. They have half of the grace to exit.
3. SIGKILL goes to all of them, again and again until two scans in a row find none.
4. Only then is the leader reaped. A zombie keeps its pid, so until then the
   kernel can't give the number of the group to other processes.

Processes that left the group are found by `engine.process.kill_tree`; its docstring names the one
hole: a descendant that left the session, whose parents are gone, and which wiped
its environment, escapes.

Rejected: `trio.run_process`, which signals one process only, waits 5 s before
it kills, and waits for the end of a pipe that a grandchild may hold for ever;
PR_SET_PDEATHSIG, because trio spawns from a worker thread, and the child died
with that thread; a subreaper, because the process is our host's.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Literal

import attrs
import trio

from engine.core.exception_groups import public
from engine.core.value_base import Value
from engine.process.kill_tree import TreeKiller, kill_deadline, marked, open_pidfd
from engine.process.output_pipe import OutputPipe
from engine.process.process_tree import Descendants
from engine.process.procfs import ProcessId, identify
from engine.process.resource_limits import ResourceLimits, wait_exceeded
from engine.process.start import StartedProcess, start_process

_log = logging.getLogger(__name__)

Cause = Literal["exit", "timeout", "cancel", "limit"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FinishedProcess(Value):
    """How a tree of processes ended.

    Attributes:
        cause: what ended it: the leader's own exit, the timeout, or a cancel (any exception counts as one).
        exit_code: the leader's, if it exited by itself or handled a signal.
        signal: the signal that ended the leader, if one did.
        duration: seconds from the start to the last of the clean-up.
        left_behind: descendants that outlived a leader which exited by itself, and were ended.
        ended: whether nothing is left, as far as can be seen.
        survivors: processes that did not end within the grace; may be empty although `ended` is False.
        output_complete: whether the output was read to its end; if not, a process still held the pipe.
        exceeded: the limit that the processes exceeded, if that ended them.
    """

    cause: Cause
    exit_code: int | None
    signal: int | None
    duration: float
    left_behind: int
    ended: bool
    survivors: tuple[ProcessId, ...]
    output_complete: bool
    exceeded: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether the timeout ended it; never true of a leader that exited in time."""
        return self.cause == "timeout"


@trio.lowlevel.enable_ki_protection
async def run_tree(
    argv: Sequence[str],
    *,
    cwd: str,
    marker: str,
    on_output: Callable[[bytes], None],
    on_errors: Callable[[bytes], None] | None = None,
    input: bytes | None = None,  # noqa: A002  # as the standard library calls it
    talk: Callable[[trio.lowlevel.FdStream], Awaitable[None]] | None = None,
    exit_grace: float = 0.0,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    grace: float = 0.25,
    drain: float = 0.2,
    room: Callable[[], Awaitable[None]] | None = None,
    on_start: Callable[[ProcessId], None] | None = None,
    on_finish: Callable[[FinishedProcess], None] | None = None,
    confine: Callable[[], None] | None = None,
    limits: ResourceLimits | None = None,
) -> FinishedProcess:
    """Run *argv* to its end, and end every process that it leaves behind.

    Standard output and error arrive merged, as they come, unless *on_errors* is
    given. Always a checkpoint. If cancelled (or interrupted, or if a callback
    raises) the whole tree is ended within *grace*, then the cancellation goes
    on; a spawn that has begun is waited for first. KeyboardInterrupt is held
    back in the meantime. No task, process or file is left behind, except processes
    which even SIGKILL did not end in time: see `FinishedProcess.ended`, and the log.

    Args:
        argv: the program and its arguments.
        cwd: the directory to run in.
        marker: names this call, and no other; `find_marked` finds it again. No colon in it.
        on_output: takes each chunk (64 KiB at most). It decides how much to keep,
            must not block, and is not called again once it has raised.
        on_errors: takes standard error instead, likewise.
        input: what standard input holds, then its end; None: nothing. A program need not read it.
        talk: writes to standard input instead, as long as it likes; it ends when that returns. For programs that converse.
        exit_grace: seconds that the leader may take to exit by itself after a cancel, once standard input was closed.
        env: the environment; ours by default. The marker is added to it.
        timeout: seconds that the leader may take.
        grace: seconds from a cancel until this function gives up ending the tree.
        drain: seconds that descendants, and so their output, may outlive the leader.
        room: awaited after each chunk. A command that writes faster is stopped by a full pipe.
        on_start: called with the leader, so that the host can save it for `reap` after a crash.
        on_finish: called with the result of every run that began, a cancelled one included.
        confine: confines the command: called in a thread that starts it and does nothing else. See `engine.sandbox`.
        limits: what the processes may use together. If they use more, they are killed at once.

    Raises:
        OSError: the program could not be started.
        ValueError: a marker or a time that can't work.
    """
    if min(grace, drain, exit_grace, timeout or 0.0) < 0:
        raise ValueError("timeout, grace, exit_grace and drain can't be negative")
    tree = _Tree(
        argv=list(argv),
        cwd=cwd,
        env=marked(os.environ if env is None else env, marker),
        marker=marker,
        timeout=float("inf") if timeout is None else timeout,
        grace=grace,
        drain=drain,
        room=room,
        on_output=on_output,
        on_errors=on_errors,
        talk=talk or (None if input is None else partial(_feed, data=input)),
        exit_grace=exit_grace,
        on_start=on_start,
        on_finish=on_finish,
        confine=confine,
        limits=limits,
    )
    await trio.lowlevel.checkpoint()
    failure: BaseException | None = None
    try:
        # The owner is a task of its own: trio delivers a KeyboardInterrupt to
        # the main task, through all shields, and that may be this one. So it
        # waits here for the clean-up, which it can't cut short.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.own, nursery)
    except BaseExceptionGroup as group:
        failure = public(group)
    finally:
        tree.close()
    if failure is not None:
        raise failure  # out here, so that its own cause and context stay as they were
    return tree.result


@attrs.define(kw_only=True, eq=False, repr=False)
class _Tree:
    """A command being run: one task owns its processes, another passes its output on."""

    argv: list[str]
    cwd: str
    env: Mapping[str, str]
    marker: str
    timeout: float
    grace: float
    drain: float
    on_output: Callable[[bytes], None]
    on_errors: Callable[[bytes], None] | None
    talk: Callable[[trio.lowlevel.FdStream], Awaitable[None]] | None
    exit_grace: float
    room: Callable[[], Awaitable[None]] | None
    on_start: Callable[[ProcessId], None] | None
    on_finish: Callable[[FinishedProcess], None] | None
    confine: Callable[[], None] | None
    limits: ResourceLimits | None

    _cause: Cause = attrs.field(default="cancel", init=False)
    _exceeded: str = attrs.field(default="", init=False)
    _left_behind: set[ProcessId] = attrs.field(factory=set[ProcessId], init=False)
    _pipes: list[OutputPipe] = attrs.field(factory=list[OutputPipe], init=False)
    _finished: FinishedProcess | None = attrs.field(default=None, init=False)

    @property
    def result(self) -> FinishedProcess:
        """How it went; only once `own` has returned."""
        if self._finished is None:
            raise RuntimeError("the processes are still running")
        return self._finished

    def close(self) -> None:
        """Close the pipes. A process that still writes to one gets SIGPIPE."""
        for pipe in self._pipes:
            pipe.stream.close()

    @trio.lowlevel.enable_ki_protection
    async def own(self, nursery: trio.Nursery) -> None:
        """Start the leader, see it through, end the tree.

        Always a checkpoint. If cancelled, the tree is ended within the grace.
        """
        with nullcontext() if self.limits is None else self.limits.own_folder():
            await self._own(nursery)
        nursery.cancel_scope.cancel(reason="the processes have ended")

    @trio.lowlevel.enable_ki_protection
    async def _own(self, nursery: trio.Nursery) -> None:
        start = trio.current_time()
        leader = await _Leader.start(
            self.argv,
            cwd=self.cwd,
            env=self.env,
            marker=self.marker,
            has_input=self.talk is not None,
            has_errors=self.on_errors is not None,
            confine=self.confine,
        )
        try:  # on the very next line: a cancel can't keep a process from starting (test_rule_11_cancelled_while_spawning)
            await self._see_through(leader, nursery)
        finally:
            leader.descendants.remember()
            if self.exit_grace and not leader.has_exited and self.talk is not None:
                leader.close_input()
                with trio.move_on_after(self.exit_grace, shield=True):
                    await leader.exited()
                leader.descendants.remember()
            now = trio.current_time()
            with trio.move_on_at(now + (0 if self._exceeded else self.grace / 2), shield=True):
                # A process that sees the end of its input first takes it for an ordinary one.
                await leader.killer.terminate(on_signal=leader.close_input)
                await leader.exited()  # where none can be found, wait for the leader at least
            with trio.move_on_at(kill_deadline(now, self.grace), shield=True):
                await leader.killer.kill_until_gone(until=leader.is_reaped)
            leader.close()
            self._finish(leader, trio.current_time() - start)

    async def _watch(self, leader: _Leader, limits: ResourceLimits) -> None:
        """Kill the processes as soon as they use more than they may. A checkpoint; it ends only if cancelled."""
        while True:
            self._exceeded = await wait_exceeded(limits, leader.descendants)
            # A scan takes long if there are thousands, and meanwhile they fork. What left the group ends with the rest.
            leader.killer.signal_group(signal.SIGKILL)

    async def _see_through(self, leader: _Leader, nursery: trio.Nursery) -> None:
        """Wait for the leader, then a little for what outlives it, and note the cause of the end. Always a checkpoint."""
        process = leader.process
        if process.stdin is not None and self.talk is not None:
            nursery.start_soon(_converse, self.talk, process.stdin)
        self._pipes.append(OutputPipe(process.stdout, self.on_output, self.room))
        if self.on_errors is not None and process.stderr is not None:
            self._pipes.append(OutputPipe(process.stderr, self.on_errors, self.room))
        for pipe in self._pipes:
            nursery.start_soon(pipe.pass_all_on)
        if self.limits is not None:
            nursery.start_soon(self._watch, leader, self.limits)
        if self.on_start is not None:
            self.on_start(identify(leader.process.pid))
        with trio.move_on_after(self.timeout):
            await leader.exited()
        if not leader.has_exited:
            self._cause = "timeout"
            return
        until = trio.current_time() + self.drain
        # A descendant in the background may hold the pipe for ever: wait for the end of the output, but not for long.
        with trio.move_on_at(until):
            await self._output_ended()
        leader.killer.scan()
        with trio.move_on_at(until):
            await leader.killer.wait_gone()
        self._left_behind.update(leader.killer.survivors())
        self._cause = "limit" if self._exceeded else "exit"

    async def _output_ended(self) -> None:
        for pipe in self._pipes:
            await pipe.ended.wait()

    def _finish(self, leader: _Leader, duration: float) -> None:
        """Read what the pipes still hold, and report how it went. Not a checkpoint."""
        code = leader.process.poll()
        # The reading tasks are cancelled by now, perhaps before they saw the last output: the pipe still holds it.
        for pipe in self._pipes:
            pipe.pass_rest_on()
        self._finished = self._result(code, leader.killer, duration)
        if code is None:
            # It may still exit, and must not stay a zombie. A system task reaps it: the caller must not wait for that.
            trio.lowlevel.spawn_system_task(_reap, leader.process)
        if not self._finished.ended:
            pids = [process.pid for process in self._finished.survivors]
            _log.warning("call %s: not all of its processes could be ended; left: %s", self.marker, pids)
        if self.on_finish is not None:
            self.on_finish(self._finished)

    def _result(self, code: int | None, killer: TreeKiller, duration: float) -> FinishedProcess:
        return FinishedProcess(
            cause=self._cause,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            duration=duration,
            left_behind=len(self._left_behind | killer.signalled) if self._cause == "exit" else 0,
            ended=killer.is_empty and code is not None,
            survivors=killer.survivors(),
            output_complete=all(pipe.ended.is_set() for pipe in self._pipes),
            exceeded=self._exceeded,
        )


async def _reap(process: StartedProcess) -> None:
    """Reap a process when it exits. A checkpoint; raises nothing ordinary, which would end the host's Trio run."""
    with suppress(Exception):
        await process.wait()


async def _converse(talk: Callable[[trio.lowlevel.FdStream], Awaitable[None]], stdin: trio.lowlevel.FdStream) -> None:
    """Write what *talk* does and then its end. A checkpoint if that is one; if cancelled, the rest is dropped.

    Then the end is left to `_own`, which knows whether it comes before the signal.
    """
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await talk(stdin)
    stdin.close()


async def _feed(stdin: trio.lowlevel.FdStream, data: bytes) -> None:
    await stdin.send_all(data)


@attrs.define(eq=False, repr=False)
class _Leader:
    """The process at the head of a tree. It is not reaped before its group was signalled."""

    process: StartedProcess
    descendants: Descendants
    killer: TreeKiller
    has_exited: bool = attrs.field(default=False, init=False)
    _pidfd: int | None = attrs.field(default=None, init=False)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        marker: str,
        has_input: bool,
        has_errors: bool,
        confine: Callable[[], None] | None,
    ) -> _Leader:
        """Start it. Always a checkpoint; raises `trio.Cancelled` only while there is no process yet."""
        # As the leader of a session and of a group: one signal reaches all that stay in it.
        process = await start_process(
            argv, cwd=cwd, env=env, has_input=has_input, has_errors=has_errors, confine=confine
        )
        descendants = Descendants(process.pid, marker)
        return cls(process, descendants, TreeKiller(find=descendants, group=process.pid))

    async def exited(self) -> None:
        """Wait until it has exited, which leaves it a zombie. Always a checkpoint; may be called again."""
        if self._pidfd is None:
            self._pidfd = open_pidfd(self.process.pid)
        # Not `Process.wait`: it reaps the leader, and its pid, which is the group's number, could be reused.
        if self._pidfd is not None:
            await trio.lowlevel.wait_readable(self._pidfd)
        elif hasattr(os, "waitid"):
            while not _is_zombie(self.process.pid):  # noqa: ASYNC110 - without a pidfd nothing wakes us
                await trio.sleep(0.01)
            await trio.lowlevel.checkpoint()
        else:
            # macOS before Python 3.13 can't wait without reaping. It gives out
            # pids in turn, so the number of the group is not used again in the
            # few microseconds until the group is signalled.
            await self.process.wait()
        self.has_exited = True

    def is_reaped(self) -> bool:
        """Reap it if it is a zombie; tell whether it is gone. Only after its group was signalled."""
        return self.process.poll() is not None

    def close_input(self) -> None:
        """Close standard input, if there is one. May be called again."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def close(self) -> None:
        """Close standard input and the pidfd."""
        self.close_input()
        if self._pidfd is not None:
            trio.lowlevel.notify_closing(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _is_zombie(child: int) -> bool:
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # our host ignores SIGCHLD, or has reaped it
        return True

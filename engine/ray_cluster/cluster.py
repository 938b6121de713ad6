"""A connection to a Ray cluster, through the Ray client process."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, final
from uuid import uuid4

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.core.value_base import Value
from engine.core.version import __version__
from engine.process.crash_cleanup import owned
from engine.process.run_tree import run_tree
from engine.ray_cluster.client_lines import (
    CancelOrder,
    ClientOrder,
    ClusterCapacity,
    ClusterConnected,
    ClusterRefused,
    ConnectOrder,
    LossKind,
    MachineOrder,
    RefusalKind,
    SubmitOrder,
    WorkEnded,
    WorkMissing,
    decode_line,
    encode_line,
)

# Seconds that an attempt has to end after a cancel, beyond its own grace.
STOP_SECONDS: Final = 10.0
# Seconds that the client may take to leave the cluster, beyond that.
_LEAVE_SECONDS: Final = 10.0
# Of a cluster that does not answer. One on a busy machine takes a while to start.
_CONNECT_SECONDS: Final = 300.0
# For each slot one more waits, so that none is ever empty; the others stay in the queue of the batch.
_PER_SLOT: Final = 2
_NEXT: Final[Mapping[RefusalKind, str]] = {
    "missing": "pip install 'nursery-engine[ray]'",
    "unreachable": "check the address, and that the cluster runs: ray status",
    "token": "put the cluster's token into ~/.ray/auth_token, for you alone: ray get-auth-token",
    "version": "install the same versions on all machines of the cluster",
    "empty": "add a machine, or lower --cpus and --memory",
    "failed": "ray status",
}


class WorkLost(Exception):
    """A piece of work has no result."""

    def __init__(self, kind: LossKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClusterOptions(Value):
    """Which cluster, and what each piece of work takes.

    Attributes:
        address: empty: that of the environment or of this machine, or else a new one.
        function: what runs in workers, as `module:function`: it takes a text and returns one.
        cpus: as Ray counts them.
        memory: bytes; 0: Ray does not count them.
        version: of the engine, which all machines must have.
    """

    address: str
    function: str
    cpus: float = 1.0
    memory: int = 0
    version: str = __version__


@attrs.define(eq=False)
class _Work:
    """A piece of work under way."""

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    outcome: WorkEnded | WorkMissing | None = attrs.field(default=None, init=False)

    def end(self, outcome: WorkEnded | WorkMissing) -> None:
        """Set how it ended. Not a checkpoint."""
        self.outcome = outcome
        self.over.set()


@final
class RayCluster:
    """A cluster that is connected. Made by `open_cluster`.

    Attributes:
        slots: how many pieces of work it can run at once.
        is_gone: it can't be reached any more.
    """

    def __init__(self, options: ClusterOptions) -> None:
        """Make one that is not connected."""
        self.slots: int = 0
        self.is_gone: bool = False
        self._options = options
        self._places = trio.CapacityLimiter(1)
        self._work: dict[str, _Work] = {}
        self._keys = count(1)
        self._outbox, self._orders = trio.open_memory_channel[ClientOrder](math.inf)
        self._rest = b""
        self._answered = trio.Event()
        self._refused: ClusterRefused | None = None

    async def run(self, work: str, *, stop: trio.Event) -> str | None:
        """Run a piece of work in a worker, and return its result; None: it was stopped before it began.

        Always a checkpoint. Once *stop* is set, it is cancelled, and after `STOP_SECONDS` its worker is killed. If this is
        cancelled, so is the work, and closing the cluster waits for its end. Raises `WorkLost`.
        """
        place = object()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_on, stop, nursery.cancel_scope)
                await self._places.acquire_on_behalf_of(place)
                nursery.cancel_scope.cancel(reason="there is a place")
            return None if stop.is_set() else await self._run(work, stop)
        finally:
            # A cancel may have come before or after there was a place.
            with suppress(RuntimeError):
                self._places.release_on_behalf_of(place)

    def run_on_machine(self, function: str, work: str, *, machine: str = "") -> None:
        """Run *function* on a machine, or on all, without waiting for it. Not a checkpoint."""
        self._send(MachineOrder(machine=machine, function=function, work=work))

    async def connect(self) -> None:
        """Wait until it is connected. A checkpoint. Raises `ConfigError` if it can't be used."""
        with trio.move_on_after(_CONNECT_SECONDS):
            await self._answered.wait()
        refused = self._refused
        if self.is_gone or not self._answered.is_set():
            refused = ClusterRefused(kind="unreachable", message="the cluster can't be reached")
        if refused is not None:
            raise ConfigError(f"{refused.message}\nNext: {_NEXT[refused.kind]}")

    async def serve(self) -> None:
        """Run the client process to its end. Always a checkpoint; if cancelled, the client cancels what runs first."""
        try:
            await run_tree(
                # -P: nothing of the working directory is taken for a library.
                [sys.executable, "-P", "-m", "engine.ray_cluster.client_process"],
                cwd=str(Path.cwd()),
                marker=owned(f"ray-{uuid4().hex}"),
                on_output=self._feed,
                talk=self._talk,
                exit_grace=STOP_SECONDS + _LEAVE_SECONDS,
                # Ray would report to its makers what is run here.
                env={"RAY_USAGE_STATS_ENABLED": "0", **os.environ},
            )
        finally:
            self.is_gone = True
            self._answered.set()
            for work in self._work.values():
                work.end(WorkMissing(key="", kind="worker", message="the cluster can't be reached any more"))

    def close(self) -> None:
        """Let the client end. Not a checkpoint."""
        self._outbox.close()

    async def _run(self, work: str, stop: trio.Event) -> str:
        if self.is_gone:
            raise WorkLost("worker", "the cluster can't be reached any more")
        key, state = str(next(self._keys)), _Work()
        self._work[key] = state
        self._send(SubmitOrder(key=key, work=work))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, stop, key, state)
                await state.over.wait()
                nursery.cancel_scope.cancel(reason="the work is over")
        finally:
            del self._work[key]
            if state.outcome is None:
                self._send(CancelOrder(key=key, is_forced=False))
        if isinstance(state.outcome, WorkEnded):
            return state.outcome.result
        assert state.outcome is not None
        raise WorkLost(state.outcome.kind, state.outcome.message)

    async def _stop_on(self, stop: trio.Event, key: str, state: _Work) -> None:
        """Cancel a piece of work once *stop* is set; kill its worker if that does not help. Always a checkpoint."""
        await stop.wait()
        self._send(CancelOrder(key=key, is_forced=False))
        with trio.move_on_after(STOP_SECONDS):
            await state.over.wait()
        self._send(CancelOrder(key=key, is_forced=True))

    async def _talk(self, stream: trio.lowlevel.FdStream) -> None:
        options = self._options
        connect = ConnectOrder(
            address=options.address,
            function=options.function,
            version=options.version,
            cpus=options.cpus,
            memory=options.memory,
            stop_seconds=STOP_SECONDS,
        )
        with suppress(trio.BrokenResourceError):  # the client has ended: `serve` says so
            await stream.send_all(encode_line(connect))
            async for order in self._orders:
                await stream.send_all(encode_line(order))

    def _send(self, order: ClientOrder) -> None:
        # What comes after the end is dropped.
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            self._outbox.send_nowait(order)

    def _feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        match decode_line(line):
            case ClusterConnected(slots=slots):
                self._use_slots(slots)
                self._answered.set()
            case ClusterRefused() as refused:
                self._refused = refused
                self._answered.set()
            case ClusterCapacity(slots=slots):
                self._use_slots(slots)
            case (WorkEnded() | WorkMissing()) as outcome if outcome.key in self._work:
                self._work[outcome.key].end(outcome)
            case _:
                pass

    def _use_slots(self, slots: int) -> None:
        self.slots = slots
        self._places.total_tokens = max(1, _PER_SLOT * slots)


@asynccontextmanager
async def open_cluster(options: ClusterOptions) -> AsyncGenerator[RayCluster]:
    """Yield a cluster that is connected. Always a checkpoint.

    At the end of the block, whatever ends it, work that still runs is cancelled, and the connection is closed within
    `STOP_SECONDS` and as many again. Raises `ConfigError` if the cluster can't be used.
    """
    cluster = RayCluster(options)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.serve)  # noqa: ASYNC113  # `connect` waits for it
            await cluster.connect()
            yield cluster
            cluster.close()
            nursery.cancel_scope.deadline = trio.current_time() + STOP_SECONDS + _LEAVE_SECONDS
    except BaseExceptionGroup as group:
        failure = public(group)
    if failure is not None:
        raise failure


async def _cancel_on(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel(reason="the batch was stopped")

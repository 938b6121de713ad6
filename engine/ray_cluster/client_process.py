"""The Ray client: a process of its own, between a command and a cluster.

Ray ends the process that has connected to a cluster when the cluster's head can't be reached any more; it prints addresses,
installs signal handlers and runs threads. So the command talks to this process through its standard input and output, and
survives it. When its input ends, it cancels what runs and goes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from math import floor
from queue import Empty, SimpleQueue
from typing import BinaryIO, Final, cast, final

import attrs

from engine.ray_cluster.client_lines import (
    CancelOrder,
    ClientOrder,
    ClientReply,
    ClusterCapacity,
    ClusterConnected,
    ClusterRefused,
    ConnectOrder,
    MachineOrder,
    SubmitOrder,
    WorkEnded,
    decode_line,
    encode_line,
)
from engine.ray_cluster.node_functions import version_probe
from engine.ray_cluster.ray_api import (
    Ray,
    RayActor,
    RayFunction,
    RayTask,
    WorkerFunction,
    import_ray,
    pin_to_machine,
    start_actor,
)
from engine.ray_cluster.ray_errors import loss_of, refusal_of
from engine.ray_cluster.shared_pace import PACE_NAME, PaceActor

# Seconds. A machine that has joined the cluster is used after this time at the latest.
LOOK_SECONDS: Final = 2.0
# A worker starts in some seconds, and on a busy machine in some more.
_PROBE_SECONDS: Final = 120.0
_GONE: Final = 3


@attrs.frozen(eq=False)
class _Finished:
    """A task is over."""

    key: str
    future: Future[object]


@attrs.frozen(eq=False)
class _Machine:
    """A machine that can run attempts."""

    id: str
    slots: int


class _InputEnded:
    """The command has gone, or wants no more."""


class _ClusterGone:
    """The cluster can't be reached any more."""


_News = ClientOrder | _Finished | _InputEnded | _ClusterGone


@final
@attrs.define(eq=False, repr=False)
class _Client:
    """The connection to a cluster."""

    _ray: Ray
    _order: ConnectOrder
    _send: Callable[[ClientReply], None]
    _news: SimpleQueue[_News]
    _function: RayFunction = attrs.field(init=False)
    _pace: RayActor = attrs.field(init=False)
    _running: dict[str, RayTask] = attrs.field(factory=dict[str, RayTask], init=False)
    _slots: int = attrs.field(default=0, init=False)

    def connect(self) -> ClientReply:
        """Connect, and compare versions. It blocks."""
        options = {"address": self._order.address} if self._order.address else {}
        try:
            self._ray.init(**options, log_to_driver=False, include_dashboard=False, logging_level="CRITICAL")
        except BaseException as error:  # noqa: BLE001  # Ray exits as well, and all of it is an answer
            return refusal_of(error, self._ray.exceptions)
        machines = self._machines()
        if not machines:
            return ClusterRefused(
                kind="empty", message="no machine of the cluster has room for an attempt: see --cpus and --memory"
            )
        refused = self._compare_versions(machines)
        if refused is not None:
            return refused
        memory = {"memory": self._order.memory} if self._order.memory else {}
        self._function = self._remote(_load(self._order.function), num_cpus=self._order.cpus, **memory)
        # Kept: an actor to which nothing refers is ended.
        self._pace = start_actor(self._ray, PaceActor, PACE_NAME)
        self._slots = sum(machine.slots for machine in machines)
        return ClusterConnected(slots=self._slots, machines=len(machines))

    def serve(self) -> int:
        """Do what the command orders, until its input ends. It blocks. Returns the exit code."""
        threading.Thread(target=self._watch, daemon=True).start()
        while True:
            match self._news.get():
                case SubmitOrder(key=key, work=work):
                    self._submit(key, work)
                case CancelOrder(key=key, is_forced=is_forced):
                    self._cancel(key, is_forced=is_forced)
                case MachineOrder() as order:
                    self._run_on_machine(order)
                case _Finished() as finished:
                    self._finish(finished)
                case _InputEnded():
                    self._end()
                    return 0
                case _ClusterGone():
                    return _GONE
                case _:
                    pass

    def _remote(self, function: WorkerFunction, **options: object) -> RayFunction:
        # No retries of Ray's own: they would start over, and the ledger would not know of them.
        return self._ray.remote(max_retries=0, **options)(function)

    def _submit(self, key: str, work: str) -> None:
        task = self._running[key] = self._function.remote(work)
        task.future().add_done_callback(lambda future: self._news.put(_Finished(key, future)))

    def _cancel(self, key: str, *, is_forced: bool) -> None:
        task = self._running.get(key)
        if task is not None:
            self._ray.cancel(task, force=is_forced)

    def _finish(self, finished: _Finished) -> None:
        self._running.pop(finished.key, None)
        error = finished.future.exception()
        if error is None:
            self._send(WorkEnded(key=finished.key, result=str(finished.future.result())))
            return
        self._send(loss_of(finished.key, error, self._ray.exceptions))

    def _run_on_machine(self, order: MachineOrder) -> None:
        with suppress(Exception):  # a machine may be gone, and its result is not awaited
            names = [order.machine] if order.machine else [machine.id for machine in self._machines()]
            for name in names:
                self._on(name, _load(order.function)).remote(order.work)

    def _on(self, machine: str, function: WorkerFunction) -> RayFunction:
        return self._remote(function, num_cpus=0, scheduling_strategy=pin_to_machine(machine))

    def _compare_versions(self, machines: list[_Machine]) -> ClusterRefused | None:
        tasks = [self._on(machine.id, version_probe()).remote() for machine in machines]
        done, missing = self._ray.wait(tasks, num_returns=len(tasks), timeout=_PROBE_SECONDS)
        if missing:
            return ClusterRefused(
                kind="unreachable", message=f"{len(missing)} of {len(tasks)} machines of the cluster do not answer"
            )
        try:
            found = cast("list[dict[str, str]]", self._ray.get(done))
        except self._ray.exceptions.RayError as error:
            return refusal_of(error, self._ray.exceptions)
        for each in found:
            if each["engine"] != self._order.version:
                has = f"engine {each['engine']}" if each["engine"] else "no engine (pip install 'nursery-engine[ray]')"
                return ClusterRefused(
                    kind="version", message=f"{each['host']} has {has}, this machine has {self._order.version}"
                )
        return None

    def _machines(self) -> list[_Machine]:
        """Return the machines that can run attempts. It blocks."""
        cpus, memory = self._order.cpus, self._order.memory
        machines: list[_Machine] = []
        for node in self._ray.nodes():
            has = cast("dict[str, float]", node["Resources"] if node["Alive"] else {})
            by_cpu = floor(has.get("CPU", 0.0) / cpus + 1e-9) if cpus else floor(has.get("CPU", 0.0))
            slots = min(by_cpu, floor(has.get("memory", 0.0) / memory)) if memory else by_cpu
            if slots:
                machines.append(_Machine(str(node["NodeID"]), slots))
        return machines

    def _watch(self) -> None:
        """Tell of machines that come and go, until the cluster is gone. In a thread of its own."""
        own = self._ray.get_runtime_context().get_node_id()
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                slots = sum(machine.slots for machine in self._machines())
                is_alive = any(node["NodeID"] == own and node["Alive"] for node in self._ray.nodes())
            except Exception:  # noqa: BLE001  # after any error: nothing is known of the cluster any more
                is_alive, slots = False, 0
            if not is_alive:
                self._news.put(_ClusterGone())
                return
            if slots != self._slots:
                self._slots = slots
                self._send(ClusterCapacity(slots=slots))

    def _end(self) -> None:
        """Cancel what runs, and wait for it. It blocks, for the time that attempts may take to end."""
        until = time.monotonic() + self._order.stop_seconds
        for key in tuple(self._running):
            self._cancel(key, is_forced=False)
        while self._running and (left := until - time.monotonic()) > 0:
            with suppress(Empty):
                news = self._news.get(timeout=left)
                if isinstance(news, _Finished):
                    self._running.pop(news.key, None)
                elif isinstance(news, _ClusterGone):
                    return
        self._ray.shutdown()


def _load(name: str) -> WorkerFunction:
    module, _, function = name.partition(":")
    return cast("WorkerFunction", getattr(import_module(module), function))


def _read(stream: BinaryIO, news: SimpleQueue[_News]) -> None:
    """Pass on what the command orders, until its output ends. In a thread of its own."""
    for line in stream:
        message = decode_line(line)
        if isinstance(message, ConnectOrder | SubmitOrder | CancelOrder | MachineOrder):
            news.put(message)
    news.put(_InputEnded())


def main() -> int:
    """Run the client; return the exit code."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What libraries print would get among the lines, and names addresses.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    lock = threading.Lock()

    def send(message: ClientReply) -> None:
        with lock, suppress(OSError):
            answers.write(encode_line(message))
            answers.flush()

    news: SimpleQueue[_News] = SimpleQueue()
    threading.Thread(target=_read, args=(orders, news), daemon=True).start()
    first = news.get()
    if not isinstance(first, ConnectOrder):
        return 0
    try:
        ray = import_ray()
    except ImportError:
        send(ClusterRefused(kind="missing", message="Ray is not installed"))
        return 0
    client = _Client(ray, first, send, news)
    answer = client.connect()
    send(answer)
    return client.serve() if isinstance(answer, ClusterConnected) else 0


if __name__ == "__main__":
    # Not the interpreter's own end, which would wait for Ray's threads.
    exit_code: int = main()
    sys.stdout.flush()
    os._exit(exit_code)

"""What is used of Ray: the types of its functions, which it does not declare. It is imported here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Protocol, cast

WorkerFunction = Callable[[str], object] | Callable[[], object]


class RayTask(Protocol):
    """A task that was submitted (`ray.ObjectRef`)."""

    def future(self) -> Future[object]:
        """Return its result, or what it has raised."""
        ...


class RayFunction(Protocol):
    """A function that runs in workers."""

    def remote(self, *args: object) -> RayTask:
        """Submit a task."""
        ...


class RayActor(Protocol):
    """A `PaceActor` in the cluster."""

    exchange: RayFunction


class RayActorClass(Protocol):
    """A class whose instances run in the cluster."""

    def options(self, *, name: str) -> RayActorClass:
        """Return it with a name for its instance."""
        ...

    def remote(self) -> RayActor:
        """Make an instance."""
        ...


class RayContext(Protocol):
    """Where this process runs."""

    def get_node_id(self) -> str:
        """Return the id of its machine."""
        ...


class RayErrors(Protocol):
    """Ray's exceptions."""

    RayError: type[Exception]
    RayTaskError: type[Exception]
    TaskCancelledError: type[Exception]
    OutOfMemoryError: type[Exception]
    AuthenticationError: type[Exception]


class Ray(Protocol):
    """The module."""

    exceptions: RayErrors

    def init(self, **options: object) -> object:
        """Connect to a cluster, or start one. It blocks."""
        ...

    def shutdown(self) -> None:
        """Leave the cluster; end it if it was started here. It blocks."""
        ...

    def nodes(self) -> Sequence[Mapping[str, object]]:
        """Return the machines, those that have gone included. It blocks."""
        ...

    def remote(self, **options: object) -> Callable[[WorkerFunction], RayFunction]:
        """Return a decorator for functions that run in workers."""
        ...

    def cancel(self, task: RayTask, *, force: bool) -> None:
        """Interrupt a task, or kill its worker."""
        ...

    def wait(
        self, tasks: Sequence[RayTask], *, num_returns: int, timeout: float
    ) -> tuple[Sequence[RayTask], Sequence[RayTask]]:
        """Wait for tasks; return those that are over, and the others. It blocks."""
        ...

    def get(self, tasks: Sequence[RayTask]) -> Sequence[object]:
        """Return the results of tasks. It blocks. Raises what they have raised."""
        ...

    def get_actor(self, name: str) -> RayActor:
        """Return the actor of that name, of the same job. It blocks. Raises `ValueError` if there is none."""
        ...

    def get_runtime_context(self) -> RayContext:
        """Return where this process runs."""
        ...


def import_ray() -> Ray:
    """Return Ray. Raises `ImportError` if it is not installed."""
    return cast("Ray", import_module("ray"))


def pin_to_machine(machine: str) -> object:
    """Return the option of a task that runs on that machine or nowhere."""
    strategies = import_module("ray.util.scheduling_strategies")
    strategy: object = strategies.NodeAffinitySchedulingStrategy(machine, soft=False)
    return strategy


def start_actor(ray: Ray, kind: type, name: str) -> RayActor:
    """Start the only instance of a class, which takes no CPU, and is restarted if its machine is lost."""
    make = cast("Callable[[type], RayActorClass]", ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0))
    return make(kind).options(name=name).remote()

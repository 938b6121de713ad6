"""Run hooks: with a deadline, and with errors contained and reported."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Literal, Protocol, TypeVar, cast

import attrs
import trio

from engine.core.exception_groups import ErrorBoundary, describe, public
from engine.core.foreign_calls import ForeignCall, Reporter
from engine.core.hooks import Remark
from engine.core.value_base import Value

S_contra = TypeVar("S_contra", contravariant=True)
D_co = TypeVar("D_co", covariant=True)
D = TypeVar("D", bound=Remark)
S = TypeVar("S")

Hook = Callable[[S], Awaitable[D | None]]


class _Command(Protocol[S_contra, D_co]):
    """A shell command as a hook."""

    async def __call__(self, subject: S_contra, /, *, transcript: Callable[[], Awaitable[str]]) -> D_co | None: ...


@attrs.frozen(eq=False, repr=False)
class HookRunner(Value):
    """Runs hooks.

    Attributes:
        timeout: seconds per hook, unless the hook has a `timeout` of its own.
        notice: reports failures, and the hooks' messages to the user.
        until: the end of all hooks, on Trio's clock.
        transcript: brings the session's file for command hooks up to date, and returns its path.
    """

    timeout: float
    notice: Reporter
    until: float = float("inf")
    transcript: Callable[[], Awaitable[str]] | None = None

    async def run(self, hook: Hook[S, D], subject: S, default: D, *, name: str = "") -> D | None:
        """Return the decision of *hook* on *subject*; None if it fails. A checkpoint if the hook is one.

        A hook that returns None decides *default*. Failures are reported under *name*, by default its own.

        Raises nothing ordinary.
        """
        name = name or name_of(hook)
        decided: D | None = None
        timeout = min(_timeout_of(hook, self.timeout), max(0.0, self.until - trio.current_time()))
        with trio.move_on_after(timeout) as scope:  # noqa: ASYNC912  # the caller's code in it is the cancel point
            with ErrorBoundary() as boundary:
                decided = await ForeignCall(f"the hook {name}", partial(self._ask, hook, subject))
            if boundary.error is not None:
                self.notice("warning", "hook_failed", f"the hook {name} failed: {describe(boundary.error)}")
                return None
        if scope.cancelled_caught:
            self.notice("warning", "hook_failed", f"the hook {name} did not answer within {timeout:g} s")
            return None
        # It has nothing to say, which is not a failure.
        if decided is None:
            return default
        if (wrong := _wrong(decided, default)) is not None:
            self.notice("warning", "hook_failed", f"the hook {name} returned {wrong}")
            return None
        if decided.message:
            self.notice("info", "hook_message", f"the hook {name} says: {decided.message}")
        return decided

    async def _ask(self, hook: Hook[S, D], subject: S) -> D | None:
        if self.transcript is None or not _is_command(hook):
            return await hook(subject)
        return await cast("_Command[S, D]", hook)(subject, transcript=self.transcript)

    async def run_group(self, group: Sequence[Hook[S, D]], subject: S, default: D) -> list[tuple[Hook[S, D], D | None]]:
        """Return the hooks of a *group* (see `in_groups`) with their decisions, as `run` does. A checkpoint if one of them is.

        They run at the same time; if cancelled, all of them are.
        """
        if len(group) == 1:
            # Without a nursery: this is the common case, and its exceptions need no unwrapping.
            return [(group[0], await self.run(group[0], subject, default))]
        decided: dict[int, D | None] = {}

        async def run(number: int, hook: Hook[S, D]) -> None:
            decided[number] = await self.run(hook, subject, default)

        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                for number, hook in enumerate(group):
                    nursery.start_soon(run, number, hook, name=f"the hook {name_of(hook)}")
        except BaseExceptionGroup as raised:
            failure = public(raised)
        if failure is not None:
            # Outside of the handler, so that the group is not its context.
            raise failure
        return [(hook, decided[number]) for number, hook in enumerate(group)]

    async def run_each(
        self, hooks: Iterable[Hook[S, D]], subject: S, default: D, *, is_last: Callable[[D], bool] = lambda _: False
    ) -> list[tuple[str, D]]:
        """Return the names and decisions of *hooks*, without those that failed. A checkpoint if one of them is.

        No hook is asked after one whose decision *is_last*, except commands, which run at the same time.
        """
        decided: list[tuple[str, D]] = []
        for group in in_groups(hooks):
            for hook, decision in await self.run_group(group, subject, default):
                if decision is not None:
                    decided.append((name_of(hook), decision))
            if any(is_last(decision) for _, decision in decided):
                break
        return decided


def in_groups(hooks: Iterable[Hook[S, D]]) -> Iterator[tuple[Hook[S, D], ...]]:
    """Yield the hooks of a point in order: adjacent commands together, since they run at the same time, others alone."""
    for is_concurrent, group in itertools.groupby(hooks, _is_command):
        if is_concurrent:
            yield tuple(group)
        else:
            for hook in group:
                yield (hook,)


def _is_command(hook: object) -> bool:
    return getattr(hook, "is_concurrent", False) is True


def name_of(hook: object) -> str:
    """Return a hook's name: its attribute `name`, or else that of the function or class."""
    name = cast("object", getattr(hook, "name", None)) or cast("object", getattr(hook, "__qualname__", None))
    return name.rpartition("<locals>.")[2] if isinstance(name, str) else type(hook).__name__


def _timeout_of(hook: object, default: float) -> float:
    own = cast("object", getattr(hook, "timeout", None))
    return float(own) if isinstance(own, (int, float)) and own >= 0 else default


def _wrong(decided: object, default: Remark) -> str | None:
    """Return what is invalid in a decision; None if it is valid."""
    kind = type(default)
    if type(decided) is not kind:
        return f"{type(decided).__name__}, not {kind.__name__}"
    # The author of a hook may not use a type checker: a verdict "no" must not pass for none.
    for name, hint in _hints(cast("object", kind)).items():
        value = cast("object", getattr(decided, name))
        choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
        if choices and value not in choices:
            return f"a {kind.__name__} whose {name} must be one of {', '.join(choices)}, not {value!r}"
        if not choices and not isinstance(value, hint):
            return f"a {kind.__name__} whose {name} must not be {value!r}"
    return None


@cache
def _hints(kind: object) -> dict[str, type]:
    return typing.get_type_hints(kind)

"""Run hooks: each with a deadline, its errors contained and reported."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Literal, Protocol, TypeVar, cast

import attrs
import trio

from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.hooks import Remark

S_contra = TypeVar("S_contra", contravariant=True)
D = TypeVar("D", bound=Remark)
S = TypeVar("S")

Hook = Callable[[S], Awaitable[D | None]]


class HookNotice(Protocol):
    """Reports to the host."""

    def __call__(self, level: Literal["info", "warning"], code: str, text: str, /) -> None:
        """Tell *text*. Not a checkpoint."""
        ...


@attrs.frozen
class HookRunner:
    """Runs hooks.

    Attributes:
        timeout: seconds that a hook has, unless it says so itself.
        notice: reports failures, and the messages of hooks to the user.
        until: no hook has longer, on trio's clock.
    """

    timeout: float
    notice: HookNotice
    until: float = float("inf")

    async def run(self, hook: Hook[S, D], subject: S, default: D, *, name: str = "") -> D | None:
        """Return what *hook* decides of *subject*: *default* if nothing, None if it failed. A checkpoint if it is one.

        Its failures are reported under *name*, or else under its own name. Raises nothing ordinary.
        """
        name = name or name_of(hook)
        decided: D | None = None
        timeout = min(_timeout_of(hook, self.timeout), max(0.0, self.until - trio.current_time()))
        with trio.move_on_after(timeout) as scope:  # noqa: ASYNC912  # the caller's code in it is the cancel point
            with ErrorBoundary() as boundary:
                decided = await hook(subject)
            if boundary.error is not None:
                self.notice("warning", "hook_failed", f"the hook {name} failed: {describe(boundary.error)}")
                return None
        if scope.cancelled_caught:
            self.notice("warning", "hook_failed", f"the hook {name} did not answer within {timeout:g} s")
            return None
        if decided is None:
            return default
        if (wrong := _wrong(decided, default)) is not None:
            self.notice("warning", "hook_failed", f"the hook {name} returned {wrong}")
            return None
        if decided.message:
            self.notice("info", "hook_message", f"the hook {name} says: {decided.message}")
        return decided

    async def run_each(self, hooks: Iterable[Hook[S, D]], subject: S, default: D) -> list[tuple[str, D]]:
        """Return what each of *hooks* decides, with its name; those that failed are left out. A checkpoint if one is."""
        decided: list[tuple[str, D]] = []
        for hook in hooks:
            decision = await self.run(hook, subject, default)
            if decision is not None:
                decided.append((name_of(hook), decision))
        return decided


def name_of(hook: object) -> str:
    """Return the name of a hook: what it says itself, or else what the function is called."""
    name = cast("object", getattr(hook, "name", None)) or cast("object", getattr(hook, "__qualname__", None))
    return name.rpartition("<locals>.")[2] if isinstance(name, str) else type(hook).__name__


def _timeout_of(hook: object, default: float) -> float:
    own = cast("object", getattr(hook, "timeout", None))
    return float(own) if isinstance(own, (int, float)) and own >= 0 else default


def _wrong(decided: object, default: Remark) -> str | None:
    """Say what makes no sense: one verdict must never pass for another, nor a text be no text."""
    kind = type(default)
    if type(decided) is not kind:
        return f"{type(decided).__name__}, not {kind.__name__}"
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

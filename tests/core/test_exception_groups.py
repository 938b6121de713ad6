"""`ErrorBoundary`: what it catches, what it lets through, and in which order it calls back."""

from __future__ import annotations

import pytest
import trio

from engine.core.exception_groups import ErrorBoundary


def _group(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("", errors)


def test_no_error() -> None:
    with ErrorBoundary() as boundary:
        pass
    assert boundary.error is None


def test_ordinary_error_is_kept() -> None:
    error = ValueError("x")
    with ErrorBoundary() as boundary:
        raise error
    assert boundary.error is error


def test_interrupt_passes_unchanged() -> None:
    interrupt = KeyboardInterrupt()
    boundary = ErrorBoundary()
    with pytest.raises(KeyboardInterrupt) as caught, boundary:
        raise interrupt
    assert caught.value is interrupt
    assert boundary.error is None


def test_mixed_group_is_split() -> None:
    error, calls = ValueError("x"), list[str]()
    boundary = ErrorBoundary(
        on_error=lambda e: calls.append(f"error {e}"),
        on_propagate=lambda e: calls.append(f"propagate {type(e).__name__}"),
    )
    with pytest.raises(SystemExit) as caught, boundary:
        raise _group(_group(error), SystemExit(3))
    assert boundary.error is error
    assert caught.value.__suppress_context__
    assert calls == ["error x", "propagate SystemExit"]


def test_group_of_one_is_unwrapped() -> None:
    error = ValueError("x")
    with ErrorBoundary() as boundary:
        raise _group(_group(error))
    assert boundary.error is error


def test_group_of_several_stays_a_group() -> None:
    with ErrorBoundary() as boundary:
        raise _group(ValueError(), TypeError())
    assert isinstance(boundary.error, ExceptionGroup)


async def test_cancelled_reaches_its_scope(autojump_clock: trio.testing.MockClock) -> None:
    async def fail_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("x")

    boundary = ErrorBoundary()
    with trio.move_on_after(1) as scope, boundary:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail_late)
    assert scope.cancelled_caught
    assert isinstance(boundary.error, ValueError)


async def _cancelled_error() -> trio.Cancelled:
    """Return a `Cancelled` that was caught in its scope."""
    stray: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            stray = error
            raise
    assert stray is not None
    return stray


async def test_stray_cancelled_is_an_ordinary_error() -> None:
    stray = await _cancelled_error()
    with ErrorBoundary() as boundary:
        raise _group(stray, ValueError("x"))
    assert isinstance(boundary.error, RuntimeError)
    assert boundary.error.__cause__ is not None

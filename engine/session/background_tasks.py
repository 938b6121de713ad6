"""Tasks beside the turns, in the engine's own nursery: each has a scope, and all end when the engine is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio


@attrs.define(eq=False)
class BackgroundTasks:
    """The tasks beside the turns."""

    _nursery: trio.Nursery
    _scopes: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)

    def start(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope:
        """Run *work* until it is done or everything is cancelled; return the scope that cancels it. Not a checkpoint."""
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._nursery.start_soon(self._run, work, scope, name=name)
        return scope

    def cancel(self) -> None:
        """End them all. Not a checkpoint; they are over a moment later."""
        for scope in self._scopes:
            scope.cancel(reason="the engine was closed")

    async def _run(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            with scope:
                await work()
        finally:
            self._scopes.discard(scope)

"""Runs a command of the user for a question that nobody can see, because no client is connected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio

from engine.core.exception_groups import describe
from engine.core.ids import RequestId, SessionId
from engine.process.crash_cleanup import owned
from engine.process.run_tree import run_tree
from engine.session.engine import engine_runtime
from engine.tools.shell_environment import argv, environment

if TYPE_CHECKING:
    from engine.session.engine import Engine

# A client that reconnects, or that is just about to answer, needs no notification.
SETTLING: Final = 2.0
_LOOK_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 30.0
_log = logging.getLogger("engine.control")


@final
class QuestionNotifier:
    """Watches an engine's questions."""

    def __init__(self, engine: Engine, command: str, has_client: Callable[[], bool]) -> None:
        """Make it.

        Args:
            engine: an open engine.
            command: a line for bash. It gets the variables `ENGINE_SESSION`, `ENGINE_REQUEST`, and `ENGINE_QUESTION`: the
                kind of the question. Texts of the session are not among them: they may hold anything.
            has_client: whether a client is connected that may answer.
        """
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._command = command
        self._has_client = has_client
        self._notified: set[RequestId] = set()

    async def run(self) -> None:
        """Notify until the engine is closed. A checkpoint; a cancel ends the command that runs."""
        changes = self._engine.watch_sessions()
        while True:
            if self._pending():
                await trio.sleep(SETTLING)
                for request_id, variables in self._pending().items():
                    self._notified.add(request_id)
                    await self._notify(variables)
            # Not only on changes: the last client may leave a question behind.
            with trio.move_on_after(_LOOK_SECONDS):  # noqa: ASYNC912  # always a checkpoint
                try:
                    await changes.__anext__()
                except StopAsyncIteration:
                    return

    def _pending(self) -> Mapping[RequestId, Mapping[str, str]]:
        """Return the questions that nobody can see, and of which the user was not notified."""
        asked = {
            event.request_id: _variables(event.session_id, event.request_id, type(event).__name__)
            for live in self._runtime.sessions.by_id.values()
            for event in live.questions.events
        }
        self._notified &= asked.keys()
        if self._has_client():
            # A connected client has seen it.
            self._notified |= asked.keys()
        return {request_id: each for request_id, each in asked.items() if request_id not in self._notified}

    async def _notify(self, variables: Mapping[str, str]) -> None:
        """Run the command. A checkpoint. What goes wrong is logged: the question waits all the same."""
        try:
            finished = await run_tree(
                argv(self._command),
                cwd=str(Path.home()),
                marker=owned(f"notifier-{variables['ENGINE_REQUEST']}".replace(":", "_")),
                on_output=lambda _: None,
                env={**environment(self._runtime.setup.secrets), **variables},
                timeout=_COMMAND_SECONDS,
            )
        except (OSError, RuntimeError) as error:
            _log.warning("the command that notifies of a question can't be started: %s", describe(error))
            return
        if finished.exit_code != 0:
            how = "took too long" if finished.timed_out else f"failed with {finished.exit_code or finished.signal}"
            _log.warning("the command that notifies of a question %s", how)


def _variables(session_id: SessionId, request_id: RequestId, event: str) -> Mapping[str, str]:
    kind = event.removesuffix("Asked").lower()
    return {"ENGINE_SESSION": session_id, "ENGINE_REQUEST": request_id, "ENGINE_QUESTION": kind}

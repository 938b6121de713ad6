"""Tells a user who looks elsewhere that a long turn has ended, or that a question waits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import attrs
import trio

from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.core import events as ev

# The end of a shorter turn is no news.
LONG_SECONDS: Final = 20.0
# A user who has just pressed a key is looking.
_TYPING_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 10.0
_MAX_CHARS: Final = 200
_ASKED: Final = (ev.PermissionAsked, ev.QuestionAsked, ev.RecoveryAsked)
_ANSWERED: Final = (ev.PermissionAnswered, ev.QuestionAnswered, ev.RecoveryAnswered)


@attrs.define(eq=False)
class Notifier:
    """Decides which notifications are sent, and how: `off`, `bell`, `osc` or `command`."""

    _how: str = "off"
    _command: tuple[str, ...] = ()
    _typed_at: float = attrs.field(default=float("-inf"), init=False)
    _began: float | None = attrs.field(default=None, init=False)
    _open: set[str] = attrs.field(factory=set[str], init=False)

    def note_typed(self, now: float) -> None:
        """Note a key; *now* is a monotonic time."""
        self._typed_at = now

    def feed(self, event: object) -> str:
        """Return what to tell of an event of the session, if the user looks elsewhere; empty: nothing."""
        if isinstance(event, ev.TurnStarted) and len(event.path) <= 1:
            self._began = event.time
        elif isinstance(event, _ANSWERED):
            self._open.discard(event.request_id)
        text = self._news(event)
        return "" if self._how == "off" else text

    def _news(self, event: object) -> str:
        if isinstance(event, _ASKED):
            self._open.add(event.request_id)
            return "engine waits for an answer"
        if isinstance(event, ev.TurnEnded) and len(event.path) <= 1:
            began, self._began = self._began, None
            if began is not None and event.time - began > LONG_SECONDS:
                return f"engine: the turn has ended ({event.result.stop_reason.replace('_', ' ')})"
        return ""

    async def looks_elsewhere(self, event: object) -> bool:
        """Return whether the user has missed an event that has just come. A checkpoint.

        Who has just pressed a key sees it. A question waits, so it is seen only if a key follows: a user may send a
        message and turn away, and the question comes a second later.
        """
        now = trio.current_time()
        left = self._typed_at + _TYPING_SECONDS - now
        if left <= 0 or not isinstance(event, _ASKED):
            await trio.lowlevel.checkpoint()
            return left <= 0
        await trio.sleep(left)
        return self._typed_at <= now and event.request_id in self._open

    def sequence(self, text: str, env: Mapping[str, str]) -> str:
        """Return what the terminal gets; empty if a program is run instead."""
        if self._how == "bell":
            return "\a"
        if self._how != "osc":
            return ""
        shown = escape_on_one_line(text)[:_MAX_CHARS]
        osc = f"\x1b]9;{shown}\x07"
        return f"\x1bPtmux;{osc.replace(chr(27), chr(27) * 2)}\x1b\\" if env.get("TMUX") else osc

    async def run_command(self, text: str) -> None:
        """Run the user's program, if there is one. A checkpoint; if it takes too long or is cancelled, it is killed."""
        await trio.lowlevel.checkpoint()
        if self._how != "command":
            return
        with suppress(OSError), trio.move_on_after(_COMMAND_SECONDS):
            await trio.run_process(
                [*self._command, text],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                # Inherited as it is, the environment has lost its keys: see `own_environment`.
                env=os.environ,
                start_new_session=True,
                deliver_cancel=kill_group,
            )


async def kill_group(process: trio.Process) -> None:
    """Kill a program with what it has started. A checkpoint."""
    with suppress(OSError):
        os.killpg(process.pid, 9)
    await trio.lowlevel.checkpoint()

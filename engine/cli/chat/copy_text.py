"""Copies a text: by a program of this machine, or by the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs
import trio

from engine.cli.chat.display.clipboard import MAX_COPIED_BYTES, copy_sequence

_SECONDS: Final = 3.0
_SENT: Final = "Sent to the terminal's clipboard."


@attrs.frozen
class CopyOutcome:
    """What has become of a copy.

    Attributes:
        remark: for the user.
        raw: a sequence that makes the terminal copy it.
    """

    remark: str
    raw: str = ""


async def copy_text(text: str, env: Mapping[str, str], *, has_sequences: bool) -> CopyOutcome:
    """Copy *text*. A checkpoint; if cancelled, it may be copied.

    Args:
        text: the text.
        env: the environment.
        has_sequences: whether the terminal may be sent a sequence that copies it.
    """
    data = text.encode(errors="replace")
    for command, remark in _programs(env, shutil.which):
        if await _run(command, data):
            return CopyOutcome(remark)
    if not has_sequences:
        return CopyOutcome("No program here copies. Next: install wl-clipboard or xclip")
    if len(data) > MAX_COPIED_BYTES:
        return CopyOutcome(
            f"That is too long for the terminal's clipboard: {len(data):,} bytes of {MAX_COPIED_BYTES:,}"
        )
    return CopyOutcome(_SENT, copy_sequence(text, env))


def _programs(env: Mapping[str, str], which: Callable[[str], str | None]) -> Iterator[tuple[list[str], str]]:
    """Yield the programs that may copy, and what is true once one has."""
    # Over ssh, the clipboard of this machine is not the user's.
    if not env.get("SSH_CONNECTION"):
        if env.get("WAYLAND_DISPLAY") and which("wl-copy"):
            yield ["wl-copy"], "Copied."
        if env.get("DISPLAY") and which("xclip"):
            yield ["xclip", "-selection", "clipboard"], "Copied."
        if sys.platform == "darwin" and which("pbcopy"):
            yield ["pbcopy"], "Copied."
    if env.get("TMUX") and which("tmux"):
        # By default, tmux takes no sequences of programs, but sends its own to the terminal outside.
        yield ["tmux", "load-buffer", "-w", "-"], _SENT


async def _run(command: list[str], data: bytes) -> bool:
    """Return whether a program took the text. A checkpoint."""
    # Not `run_tree`, which would end what it leaves behind: xclip and wl-copy stay, to hand the text out.
    with trio.move_on_after(_SECONDS):
        await trio.lowlevel.checkpoint()
        try:
            done = await trio.run_process(
                command,
                stdin=data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                env=dict(os.environ),
                start_new_session=True,
            )
        except OSError:
            return False
        return done.returncode == 0
    return False

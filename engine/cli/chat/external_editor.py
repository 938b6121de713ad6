"""The user's own editor for a long draft, and pager for a long text."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import attrs
import trio

from engine.core.threads import to_thread


@attrs.frozen
class EditFailure:
    """Why nothing was edited."""

    message: str


async def edit_text(text: str) -> str | EditFailure:
    """Let the user edit *text* in $VISUAL or $EDITOR. A checkpoint; if cancelled, the editor is ended."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    path = await to_thread(_write_draft, text)
    try:
        process = await trio.run_process([*command, str(path)], check=False, stdin=None)
        if process.returncode != 0:
            return EditFailure(f"{command[0]} ended with {process.returncode}: the draft is unchanged")
        edited = (await to_thread(path.read_bytes)).decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        return EditFailure(f"can't run {command[0]}: {error}. Next: set EDITOR")
    finally:
        path.unlink(missing_ok=True)
    # Editors end a file with a newline that the user did not type.
    return edited.removesuffix("\n")


async def show_text(text: str) -> str:
    """Let the user read *text* in $PAGER; return why that was not possible. A checkpoint; if cancelled, the pager is ended."""
    command = shlex.split(os.environ.get("PAGER") or "less -R")
    path = await to_thread(_write_draft, text)
    try:
        await trio.run_process([*command, str(path)], check=False, stdin=None)
    except OSError as error:
        return f"can't run {command[0]}: {error.strerror}. Next: set PAGER"
    finally:
        path.unlink(missing_ok=True)
    return ""


def _write_draft(text: str) -> Path:
    """Write the text to a file that only this user can read."""
    descriptor, name = tempfile.mkstemp(prefix="engine-", suffix=".md")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)

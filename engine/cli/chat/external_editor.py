"""The user's own editor for a long draft, and pager for a long text.

They get the environment as the user has set it: what a program inherits by itself has lost its keys (`own_environment`).
"""

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
    command = _command(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "", "vi")
    if isinstance(command, EditFailure):
        return EditFailure(f"{command.message}. Next: set EDITOR")
    path = await to_thread(_write_draft, text)
    try:
        process = await trio.run_process([*command, str(path)], check=False, stdin=None, env=os.environ)
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
    command = _command(os.environ.get("PAGER", ""), "less -R")
    if isinstance(command, EditFailure):
        return f"{command.message}. Next: set PAGER"
    path = await to_thread(_write_draft, text)
    try:
        await trio.run_process([*command, str(path)], check=False, stdin=None, env=os.environ)
    except OSError as error:
        return f"can't run {command[0]}: {error.strerror}. Next: set PAGER"
    finally:
        path.unlink(missing_ok=True)
    return ""


def _command(text: str, default: str) -> list[str] | EditFailure:
    """Return the words of a command that a variable holds."""
    try:
        return shlex.split(text) or shlex.split(default)
    except ValueError:
        return EditFailure(f"can't run {text}: it has a quotation mark without its other half")


def _write_draft(text: str) -> Path:
    """Write the text to a file that only this user can read."""
    descriptor, name = tempfile.mkstemp(prefix="engine-", suffix=".md")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)

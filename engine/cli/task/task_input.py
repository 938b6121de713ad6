"""The whole input of a task: its words, then standard input and the files, each in a marked block."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from engine.cli.task.standard_input import StandardInput
from engine.cli.task.task_files import TaskPart, find_mentions, from_bytes, is_secret, load_file
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.core.errors import ConfigError
from engine.core.messages import MediaPart
from engine.core.value_base import Value
from engine.session.attachments import media_type_of


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskInput(Value):
    """What a prompt consists of.

    Attributes:
        text: the words and the blocks.
        parts: the files, as the record lists them.
        stdin: what came from standard input.
    """

    text: str
    parts: tuple[TaskPart, ...] = ()
    stdin: StandardInput = StandardInput("none")

    @property
    def media(self) -> list[MediaPart]:
        """The parts that are sent as they are."""
        return [part.media for part in self.parts if part.media is not None]


def build_input(words: str, attached: Sequence[str], folder: Path, stdin: StandardInput, *, asks: bool) -> TaskInput:
    """Join a task's words with what they name, the attached files and standard input. It blocks. Raises `ConfigError`.

    Args:
        words: what to do; may name files as `@path`.
        attached: paths of further files.
        folder: what relative paths in *words* start from.
        stdin: what came from standard input.
        asks: whether a user at the terminal can be asked about files that look like secrets.
    """
    mentions = find_mentions(words, folder)
    for name in mentions.unknown:
        print_note(f"engine: no such file: {escape_on_one_line(name)}; it stays in the task as text")
    here = Path()
    names = [*((name, folder) for name in mentions.paths), *((name, here) for name in attached)]
    _check_secrets([name for name, _ in names], asks=asks)
    parts = [load_file(name, base) for name, base in names]
    if stdin.data:
        parts.insert(0, _stdin_part(stdin.data, is_task=not words.strip()))
    blocks = [mentions.text, *(part.text for part in parts if part.text)]
    return TaskInput(text="\n\n".join(filter(str.strip, blocks)), parts=tuple(parts), stdin=stdin)


def _stdin_part(data: bytes, *, is_task: bool) -> TaskPart:
    """Return what came from standard input: the task itself if there are no words, else a block after them."""
    name = "standard input"
    try:
        text = "" if media_type_of(data) else data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text:  # a picture, or an error
        return from_bytes(data, name, len(data))
    return TaskPart(name, "text", text.rstrip() if is_task else f"<stdin>\n{text.rstrip()}\n</stdin>", size=len(data))


def _check_secrets(names: Iterable[str], *, asks: bool) -> None:
    """Raise `ConfigError` for a file that looks like a secret, unless the user agrees to send it."""
    for name in filter(is_secret, names):
        shown = escape_on_one_line(name)
        if not asks:
            raise ConfigError(
                f"{shown} looks like a file with keys, and there is no terminal to ask\nNext: leave it out"
            )
        if not _agrees(f"{shown} looks like a file with keys. Send it to the model? [y/N] "):
            raise ConfigError(f"{shown} was not sent\nNext: leave it out")


def _agrees(question: str) -> bool:
    """Ask at the controlling terminal: standard input may be a pipe."""
    sys.stderr.write(question)
    sys.stderr.flush()
    try:
        with os.fdopen(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)) as terminal:
            return terminal.readline().strip().lower() in {"y", "yes"}
    except OSError:
        return False

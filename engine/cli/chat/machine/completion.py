"""What Tab completes in the draft: a command, its argument, or a path behind an `@`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from engine.cli.chat.machine.picker import PickerItem
from engine.cli.chat.machine.slash_commands import is_command_line

_MENTION: Final = re.compile(r'(?<![\w\\@])@(?P<path>"[^"\n]*|[^\s"@]*)$')
_SHELL_WORD: Final = re.compile(r"(?P<path>[^\s\"'|&;<>()=]*)$")
_ARGUMENT: Final = re.compile(r"/(?P<command>[a-z]+) +(?P<argument>[^\n]*)$")


@attrs.frozen
class CompletionRequest:
    """What is to be completed.

    Attributes:
        kind: a path that is mentioned, one of a command of the user's, or a slash command's argument.
        typed: what is there of it.
        start: where it begins in the draft.
        command: the slash command.
    """

    kind: Literal["mention", "path", "argument"]
    typed: str
    start: int
    command: str = ""


def completion_at(text: str, cursor: int) -> CompletionRequest | None:
    """Return what is to be completed before the cursor; None: nothing."""
    head = text[:cursor]
    if (mention := _MENTION.search(head)) is not None:
        return CompletionRequest("mention", mention["path"].removeprefix('"'), mention.start() + 1)
    if head.startswith("!"):
        word = _SHELL_WORD.search(head, 1)
        return None if word is None else CompletionRequest("path", word["path"], word.start("path"))
    argument = _ARGUMENT.match(head) if is_command_line(head) else None
    if argument is None:
        return None
    return CompletionRequest("argument", argument["argument"], argument.start("argument"), argument["command"])


def inserted_text(request: CompletionRequest, value: str) -> str:
    """Return what stands in the draft for a candidate that was chosen."""
    end = "" if value.endswith("/") else " "
    if request.kind == "mention" and re.search(r'[\s"@]', value):
        return f'"{value}"{end}' if end else f'"{value}'
    return f"{value}{end}"


def common_start(request: CompletionRequest, items: Sequence[PickerItem]) -> str:
    """Return what all candidates begin with, if that is more than was typed; else an empty text."""
    start = common_prefix([item.value for item in items])
    is_plain = request.kind == "argument" or not re.search(r'[\s"@]', start)
    return start if is_plain and len(start) > len(request.typed) and start.startswith(request.typed) else ""


def common_prefix(texts: Sequence[str]) -> str:
    """Return what all *texts*, at least one, begin with."""
    first, last = min(texts), max(texts)
    return first[: next((at for at, char in enumerate(first) if last[at : at + 1] != char), len(first))]

"""What a slash command brings about, and what runs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from engine.cli.chat.machine.picker import PickerItem, PickerRequest


@attrs.frozen
class NextSession:
    """Continue with another session: a new one, a stored one, or a copy of one."""

    kind: Literal["new", "open", "fork"]
    session_id: str = ""
    agent: str | None = None


@attrs.frozen(kw_only=True)
class CommandResult:
    """What a command brings about.

    Attributes:
        diff: a unified diff to print first.
        table: names, each with a text, to print next.
        lines: to print.
        copied: text for the clipboard.
        theme: the theme to use from now on.
        effort: the effort that is asked of the model from now on.
        pager: a long text to read.
        picker: a list to choose from.
        draft: text for the composer.
        prompt: a message to send.
        change: another session to continue with.
    """

    diff: str = ""
    table: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ()
    copied: str = ""
    theme: str = ""
    effort: str = ""
    pager: str = ""
    picker: PickerRequest | None = None
    draft: str = ""
    prompt: str = ""
    change: NextSession | None = None


class CommandRunner(Protocol):
    """Runs the commands of a chat."""

    async def run(self, name: str, argument: str) -> CommandResult:
        """Run a command. A checkpoint. Raises `EngineError`."""
        ...

    async def arguments(self, name: str) -> Sequence[PickerItem]:
        """Return what may follow a command. A checkpoint. Raises `EngineError`."""
        ...


def printed(text: str) -> CommandResult:
    """Return a result of nothing but lines."""
    return CommandResult(lines=tuple(text.splitlines()))

"""The chat's live region, drawn from the machine's state. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import wcwidth

from engine.cli.chat.display.live_region import RegionFrame
from engine.cli.chat.display.styles import without_styles
from engine.cli.chat.editor.graphemes import cells
from engine.cli.chat.editor.wrapped_text import row_of, wrap_text
from engine.cli.chat.machine.chat_machine import ChatMachine
from engine.cli.chat.machine.slash_commands import matching_commands
from engine.cli.chat.machine.status_line import status_line
from engine.cli.terminal.terminal_text import escape_on_one_line

_PROMPT: Final = "> "
_NORMAL_PROMPT: Final = ": "  # of vi
# In a smaller window, the rows of the region would be all that is seen.
_MIN_COLUMNS: Final = 40
_MIN_ROWS: Final = 8
_MAX_COMMANDS: Final = 8


@attrs.frozen
class Size:
    """The terminal's size."""

    columns: int
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether a live region has no room."""
        return self.columns < _MIN_COLUMNS or self.rows < _MIN_ROWS


def draw(machine: ChatMachine, size: Size, now: float) -> RegionFrame:
    """Return the live region; *now* is in seconds since the epoch. It takes at most half of the rows.

    In a small window it is the prompt with what waits, and the last remark; everything else comes as finished lines only.
    """
    width = max(4, size.columns - 1)
    composer, row, column = _composer_rows(machine, width, max(1, size.rows * 2 // 5))
    has_status = not size.is_small or bool(machine.notice)
    status = [status_line(machine, now, width)] if has_status else []
    room = max(0, size.rows // 2 - len(composer) - len(status))
    rows = _waiting(machine, room) if size.is_small else _above(machine, now, room)
    above = [fit(line, width) for line in rows]
    # What is nearest to the composer counts most.
    above = above[len(above) - min(room, len(above)) :]
    return RegionFrame((*above, *composer, *status), len(above) + row, column)


def _above(machine: ChatMachine, now: float, room: int) -> Iterator[str]:
    yield from machine.view.open_rows()
    yield from machine.view.running_rows(None if machine.phase == "parked" else now)
    yield from machine.sub_agents.rows(now)
    if machine.shell is not None and machine.has_running_shell:
        yield machine.shell.row(now)
    yield from _waiting(machine, room)
    if machine.picker is None:
        yield from _command_rows(machine)


def _waiting(machine: ChatMachine, room: int) -> Iterator[str]:
    """Yield what waits for the user or for the session."""
    yield from machine.questions.choice_rows(has_draft=bool(machine.composer.buffer.text))
    for message in machine.outbox.messages:
        yield f"{message.when(is_idle=machine.turn_id is None)}: {escape_on_one_line(message.text)}"
    if machine.picker is not None:
        yield from machine.picker.rows(room)


def _command_rows(machine: ChatMachine) -> Iterator[str]:
    """Yield the commands that the draft may become."""
    commands = matching_commands(machine.composer.buffer.text, machine.commands)
    for command in commands[:_MAX_COMMANDS]:
        yield f"  /{command.name} {command.usage}".rstrip() + f"  {command.summary}"
    if len(commands) > _MAX_COMMANDS:
        yield f"  +{len(commands) - _MAX_COMMANDS} more (Tab: choose)"


def _composer_rows(machine: ChatMachine, width: int, most: int) -> tuple[list[str], int, int]:
    """Return the rows of the composer, and the cursor's row and column in them."""
    questions, composer = machine.questions, machine.composer
    if machine.picker is not None:
        prompt = "filter> "
        rows = wrap_text(machine.picker.filter_line.text, width - len(prompt), {})
        cursor = machine.picker.filter_line.cursor
    elif questions.is_typing:
        prompt = "answer> "
        rows = wrap_text(questions.answer_line.text, width - len(prompt), {})
        cursor = questions.answer_line.cursor
    else:
        prompt = _NORMAL_PROMPT if composer.is_normal else _PROMPT
        composer.width = width - len(prompt)
        rows, cursor = composer.rows, composer.buffer.cursor
    index = row_of(rows, cursor)
    first = min(max(0, index - most + 1), max(0, len(rows) - most))
    shown = rows[first : first + most]
    lines = [(prompt if first + at == 0 else " " * len(prompt)) + row.shown for at, row in enumerate(shown)]
    return (
        [line.rstrip() if not line.strip() else line for line in lines],
        index - first,
        len(prompt) + rows[index].column_of(cursor),
    )


def fit(row: str, width: int) -> str:
    """Return *row* cut to *width* cells; its styles end with it."""
    if cells(without_styles(row)) <= width:
        return row
    return wcwidth.clip(row, 0, width - 1) + "…"

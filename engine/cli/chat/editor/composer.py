"""The composer: the draft, its history, and the actions that edit it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from engine.cli.chat.editor import word_edits
from engine.cli.chat.editor.kill_ring import KillRing
from engine.cli.chat.editor.prompt_history import PromptHistory
from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.cli.chat.editor.vi_mode import ViMode
from engine.cli.chat.editor.wrapped_text import TextRow, row_of, wrap_text

# A longer paste is shown as a label.
_MAX_PASTED_LINES: Final = 10
_MAX_PASTED_CHARS: Final = 2_000
# So is any text that would take long to draw.
_MAX_SHOWN_CHARS: Final = 50_000
# Each long paste is one character of the buffer, from Unicode's last private plane, which no keyboard sends.
_FIRST_LABEL: Final = 0x100000
_LAST_LABEL: Final = 0x10FFFD

_EDITS: Final[Mapping[str, Callable[[TextBuffer], None]]] = {
    "delete_back": TextBuffer.delete_back,
    "delete_forward": TextBuffer.delete_forward,
    "left": TextBuffer.left,
    "right": TextBuffer.right,
    "word_left": word_edits.word_left,
    "word_right": word_edits.word_right,
    "line_start": word_edits.line_start,
    "line_end": word_edits.line_end,
    "undo": TextBuffer.undo,
    "swap": word_edits.swap,
    "upper_case": lambda buffer: word_edits.change_word(buffer, str.upper),
    "lower_case": lambda buffer: word_edits.change_word(buffer, str.lower),
    "capitalize": lambda buffer: word_edits.change_word(buffer, str.capitalize),
}
_KILLS: Final[Mapping[str, Callable[[KillRing, TextBuffer], None]]] = {
    "kill_line_end": KillRing.kill_line_end,
    "kill_line_start": KillRing.kill_line_start,
    "kill_blank_word": KillRing.kill_blank_word,
    "kill_word_back": KillRing.kill_word_back,
    "kill_word": KillRing.kill_word,
    "yank": KillRing.yank,
    "yank_earlier": KillRing.yank_earlier,
}


@attrs.define(eq=False)
class Composer:
    """The draft.

    Attributes:
        buffer: its text.
        history: what was sent before.
        width: of its rows, in cells.
        vi: the mode of vi's keys; None: the keys are those of a shell.
    """

    buffer: TextBuffer = attrs.field(factory=TextBuffer, init=False)
    history: PromptHistory = attrs.field(factory=PromptHistory)
    width: int = attrs.field(default=80, init=False)
    vi: ViMode | None = attrs.field(default=None, init=False)
    _kills: KillRing = attrs.field(factory=KillRing, init=False)
    _pastes: dict[str, str] = attrs.field(factory=dict[str, str], init=False)
    _labels: dict[str, str] = attrs.field(factory=dict[str, str], init=False)
    # The column that the cursor goes back to, when it moves over shorter rows.
    _column: int | None = attrs.field(default=None, init=False)

    @property
    def text(self) -> str:
        """The draft, with what the labels stand for."""
        text = self.buffer.text
        for label, pasted in self._pastes.items():
            text = text.replace(label, pasted)
        return text

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be sent."""
        return self.buffer.is_empty

    @property
    def rows(self) -> list[TextRow]:
        """The draft as rows."""
        return wrap_text(self.buffer.text, self.width, self._labels)

    def use_vi(self) -> None:
        """Have vi's keys from now on."""
        self.vi = ViMode(self.buffer)
        self.vi.reset()

    def vi_escape(self) -> bool:
        """Handle Esc as vi does; return whether it meant something."""
        return self.vi is not None and self.vi.escape()

    @property
    def is_normal(self) -> bool:
        """Whether typed text is commands of vi."""
        return self.vi is not None and self.vi.is_normal

    def type(self, text: str) -> None:
        """Take typed text: insert it, or run it as commands of vi."""
        for index, char in enumerate(text):
            if self.vi is None or not self.vi.is_normal:
                if self.vi is not None:
                    self.vi.note_inserted(text[index:])
                self.insert(text[index:])
                return
            move = self.vi.press(char)
            if move:
                self._move_row(up=move == "up")
                self.vi.settle()
            else:
                self._column = None

    def insert(self, text: str) -> None:
        """Insert text."""
        if not text:
            return
        self._column = None
        self.history.leave()
        self.buffer.insert("".join(char for char in text if not ord(char) >= _FIRST_LABEL))

    def paste(self, text: str) -> None:
        """Insert pasted text; a long one is shown as a label, and sent whole."""
        if len(text) <= _MAX_PASTED_CHARS and text.count("\n") < _MAX_PASTED_LINES:
            self.insert(text)
            return
        self.history.leave()
        self._insert_label(text, f"Pasted {_amount(text)}")

    def attach(self, path: str, kind: str, size: str) -> str:
        """Insert a file as a label, which is sent as `@path`; return the label."""
        self.history.leave()
        before = self.buffer.text[: self.buffer.cursor]
        if before and not before[-1].isspace():
            self.insert(" ")
        label = self._insert_label(f'@"{path}"' if re.search(r"\s", path) else f"@{path}", kind, size)
        self.insert(" ")
        return label

    def _insert_label(self, text: str, kind: str, size: str = "") -> str:
        """Insert *text*, shown as a label; return the label."""
        number = 1 + sum(label.startswith(f"[{kind.partition(' ')[0]} ") for label in self._labels.values())
        char = chr(min(_LAST_LABEL, _FIRST_LABEL + len(self._pastes) + 1))
        self._pastes[char] = text
        self._labels[char] = f"[{kind} #{number}{f' {size}' if size else ''}]"
        self.buffer.insert(char)
        return self._labels[char]

    def perform(self, action: str) -> bool:
        """Edit the draft, or move in it; return whether the action means something here."""
        if action in {"up", "down"}:
            return self._move_row(up=action == "up")
        self._column = None
        if self.vi is not None and action in {"newline", "delete_back"}:
            self.vi.note_inserted("\n" if action == "newline" else "")
        if action == "newline":
            self.buffer.insert("\n")
            return True
        return self.edit(self.buffer, action)

    def edit(self, buffer: TextBuffer, action: str) -> bool:
        """Edit any *buffer*; return whether the action does that."""
        if (kill := _KILLS.get(action)) is not None:
            kill(self._kills, buffer)
        elif (edit := _EDITS.get(action)) is not None:
            edit(buffer)
        else:
            return False
        return True

    def replace(self, text: str, cursor: int | None = None) -> None:
        """Replace the draft."""
        self._column = None
        self.history.leave()
        if len(text) > _MAX_SHOWN_CHARS:
            self.buffer.replace("")
            self.paste(text)
        else:
            self.buffer.replace(text, cursor)

    def take(self) -> str:
        """Return the draft and empty the composer; the history keeps it."""
        text = self.text
        self.history.add(text)
        self.clear()
        if self.vi is not None:
            self.vi.reset()
        return text

    def clear(self) -> None:
        """Empty the composer."""
        self._column = None
        self.buffer.clear()
        self._pastes.clear()
        self._labels.clear()

    def _move_row(self, *, up: bool) -> bool:
        """Move to the row above or below; at the end of the text, through the history."""
        rows = self.rows
        index = row_of(rows, self.buffer.cursor)
        target = index - 1 if up else index + 1
        if 0 <= target < len(rows) and not self.history.is_browsing:
            column = rows[index].column_of(self.buffer.cursor) if self._column is None else self._column
            self.buffer.move(rows[target].position_at(column))
            self._column = column
            return True
        entry = self.history.earlier(self.text) if up else self.history.later()
        if entry is None:
            return False
        self.clear()
        if len(entry) > _MAX_SHOWN_CHARS:
            self._insert_label(entry, f"Pasted {_amount(entry)}")
        else:
            self.buffer.replace(entry)
        return True


def _amount(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"

"""A list to choose from: typing filters it, numbers and arrows choose, Esc leaves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from engine.cli.chat.editor.key_decoder import Key, KeyInput, PastedText, TypedText
from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.cli.terminal.terminal_text import escape_on_one_line, one_line

_MAX_LABEL: Final = 300
_MAX_NUMBERED: Final = 30


@attrs.frozen
class PickerItem:
    """What can be chosen.

    Attributes:
        value: what the choice stands for.
        label: what is shown.
    """

    value: str
    label: str


@attrs.frozen
class PickerRequest:
    """A list to be shown.

    Attributes:
        command: the slash command that gets the value.
        title: what is chosen.
        more: returns all items, if some are only shown on request: those of other folders.
        current: the value that is in use now; it is marked.
    """

    command: str
    title: str
    items: tuple[PickerItem, ...]
    more: Callable[[], tuple[PickerItem, ...]] | None = None
    current: str = ""

    def label(self, item: PickerItem) -> str:
        """Return an item in one line, with a mark if it is the current one."""
        mark = " (current)" if self.current and item.value == self.current else ""
        return one_line(item.label, _MAX_LABEL) + mark


@attrs.frozen
class Chosen:
    """An item was chosen."""

    value: str


@attrs.frozen
class Closed:
    """Nothing was chosen."""


@attrs.define(eq=False)
class Picker:
    """The list while it is open.

    Attributes:
        request: the whole list.
        filter_line: what was typed.
        selected: the index of the marked item among those that match.
    """

    request: PickerRequest
    filter_line: TextBuffer = attrs.field(factory=TextBuffer, init=False)
    selected: int = attrs.field(default=0, init=False)
    _matches: Sequence[PickerItem] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._matches = self.request.items
        values = [item.value for item in self._matches]
        if self.request.current in values:
            self.selected = values.index(self.request.current)

    def press(self, event: KeyInput) -> Chosen | Closed | None:
        """Return what a key decides, if anything."""
        if isinstance(event, (TypedText, PastedText)):
            return self._type(event.text.replace("\n", " "), is_typed=isinstance(event, TypedText))
        match event.name:
            case "enter":
                return self._choose(self.selected)
            case "escape" | "ctrl+c" | "ctrl+g":
                return Closed()
            case "up" | "ctrl+p" | "shift+tab":
                self.selected = max(0, self.selected - 1)
            case "down" | "ctrl+n" | "tab" | "ctrl+r":
                self.selected = max(0, min(len(self._matches) - 1, self.selected + 1))
            case "ctrl+o" if self.request.more is not None:
                self._show_all(self.request.more())
            case _:
                self._edit(event)
        return None

    def _show_all(self, items: tuple[PickerItem, ...]) -> None:
        """Show all items, those of other folders too."""
        self.request = attrs.evolve(self.request, items=items, more=None)
        self._filter()

    def rows(self, most: int) -> list[str]:
        """Return at most *most* rows, with the marked item among them."""
        title = f"{self.request.title} ({len(self._matches)} of {len(self.request.items)}; Enter: choose, Esc: leave{', Ctrl+O: other folders' if self.request.more else ''})"
        room = max(1, most - 1)
        first = max(0, min(self.selected - room // 2, len(self._matches) - room))
        rows = [title]
        for index in range(first, min(first + room, len(self._matches))):
            mark = ">" if index == self.selected else " "
            number = f"{index + 1}" if index < 9 and not self.filter_line.text else " "
            rows.append(f"{mark} {number} {self.request.label(self._matches[index])}")
        return rows

    def numbered_lines(self) -> list[str]:
        """Return the items as lines with numbers."""
        lines = [f"  {number}. {self.request.label(item)}" for number, item in enumerate(self._matches, 1)]
        shown = lines[:_MAX_NUMBERED]
        if len(lines) > len(shown):
            shown.append(f"  {len(lines) - len(shown)} more. Type words to filter.")
        more = ", 'more' for other folders" if self.request.more else ""
        return [f"{self.request.title}: type a number, words to filter{more}, or an empty line to leave.", *shown]

    def choose_line(self, line: str) -> Chosen | Closed | list[str]:
        """Return what a whole line decides, or the lines that still match."""
        text = line.strip()
        if not text:
            return Closed()
        if text == "more" and self.request.more is not None:
            self._show_all(self.request.more())
            return self.numbered_lines()
        if text.isascii() and text.isdigit() and 0 < int(text) <= len(self._matches):
            return Chosen(self._matches[int(text) - 1].value)
        self.filter_line.replace(text)
        self._filter()
        if not self._matches:
            return [f"Nothing matches {escape_on_one_line(text)}. Type other words, or an empty line to leave."]
        return self.numbered_lines()

    def _type(self, text: str, *, is_typed: bool) -> Chosen | None:
        is_number = is_typed and len(text) == 1 and text.isascii() and text.isdigit() and text != "0"
        if is_number and not self.filter_line.text and int(text) <= len(self._matches):
            return self._choose(int(text) - 1)
        self.filter_line.insert(text)
        self._filter()
        return None

    def _edit(self, key: Key) -> None:
        match key.name:
            case "backspace":
                self.filter_line.delete_back()
            case "ctrl+u":
                self.filter_line.clear()
            case _:
                return
        self._filter()

    def _filter(self) -> None:
        words = self.filter_line.text.lower().split()
        self._matches = [item for item in self.request.items if all(word in item.label.lower() for word in words)]
        self.selected = 0

    def _choose(self, index: int) -> Chosen | None:
        return Chosen(self._matches[index].value) if index < len(self._matches) else None

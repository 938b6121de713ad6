"""A line that is edited key by key: the rest of a message, where the terminal has no line of its own any more. Pure."""

from __future__ import annotations

import attrs

from engine.cli.chat.editor.composer import Composer
from engine.cli.chat.editor.graphemes import cells, clusters, visible_cluster
from engine.cli.chat.editor.key_decoder import Key, KeyDecoder, PastedText, TypedText
from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.config.chat_keys import KeyBindings, bind_keys


@attrs.frozen
class EditedLine:
    """A line that was completed.

    Attributes:
        is_pasted: a part of it was pasted.
    """

    text: str
    is_pasted: bool


@attrs.define(eq=False)
class DraftLine:
    """The line, and what is to be done with it on the screen.

    Attributes:
        needs_redraw: the last keys did more than to append what the terminal has echoed.
    """

    needs_redraw: bool = attrs.field(default=False, init=False)
    _buffer: TextBuffer = attrs.field(factory=TextBuffer, init=False)
    # For its kill ring and edits: their text is `_buffer`.
    _composer: Composer = attrs.field(factory=Composer, init=False)
    _keys: KeyBindings = attrs.field(factory=lambda: bind_keys({}), init=False)
    _decoder: KeyDecoder = attrs.field(factory=KeyDecoder, init=False)
    _is_pasted: bool = attrs.field(default=False, init=False)

    @property
    def text(self) -> str:
        """The line so far."""
        return self._buffer.text

    def begin(self, text: str) -> None:
        """Go on with *text*."""
        self._buffer.clear()
        self._buffer.insert(text)
        self._is_pasted = False

    def feed(self, data: bytes, now: float) -> list[EditedLine]:
        """Take keys; return the lines that they complete."""
        self.needs_redraw = False
        lines: list[EditedLine] = []
        events = (
            self._decoder.expire(now) if self._decoder.deadline is not None and now >= self._decoder.deadline else []
        )
        for event in (*events, *self._decoder.feed(data, now)):
            is_at_end = self._buffer.cursor == len(self._buffer.text)
            match event:
                case TypedText():
                    self._buffer.insert(event.text)
                    self.needs_redraw |= not is_at_end
                case PastedText():
                    self._buffer.insert(event.text)
                    self._is_pasted = self.needs_redraw = True
                # The terminal sends the newline for Enter.
                case Key(name="enter" | "ctrl+j"):
                    lines.append(EditedLine(self._buffer.text, self._is_pasted))
                    self.begin("")
                case Key(name="tab"):
                    self._buffer.insert("\t")
                case _:
                    self._composer.edit(self._buffer, self._keys.actions.get(event.name, ""))
                    self.needs_redraw = True
        return lines

    def shown(self, width: int) -> str:
        """Return the line as it is drawn, its end if it is too long, with the cursor where it belongs."""
        cursor = self._buffer.cursor
        before = [visible_cluster(each) for each in clusters(self._buffer.text[:cursor])]
        after = "".join(visible_cluster(each) for each in clusters(self._buffer.text[cursor:]))
        while before and cells("".join(before) + after) > width:
            before.pop(0)
        back = cells(after)
        return "".join(before) + after + (f"\x1b[{back}D" if back else "")

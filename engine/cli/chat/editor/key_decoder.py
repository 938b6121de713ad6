"""From the bytes of a terminal to keys, typed text and pastes.

Understood are the encodings that terminals use by themselves, CSI u and modifyOtherKeys. Unknown sequences are dropped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

# After these, a lone Esc is the key, and a lone Enter is one that was typed: the next byte of a sequence, or the next
# line of a paste without brackets, comes faster.
ESCAPE_SECONDS: Final = 0.025
ENTER_SECONDS: Final = 0.010

_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_CSI: Final = re.compile(r"\x1b\[([0-9;:<=>?]*)([ -/]*)([@-~])")
# The beginning of one that has not come to its end.
_OPEN_CSI: Final = re.compile(r"\x1b(\[[0-9;:<=>? -/]{0,64})?|\x1bO|\x1b\[\[")
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")

_FINALS: Final = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "shift+tab"} | {
    "P": "f1",
    "Q": "f2",
    "S": "f4",
}
# After ESC O. (After ESC [, the last two are a report of the cursor and one of the mouse.)
_SS3_FINALS: Final = _FINALS | {"R": "f3", "M": "enter"}
_TILDES: Final = {1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageup", 6: "pagedown", 7: "home", 8: "end"} | {
    code: f"f{number}" for number, code in enumerate((11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 24), 1)
}
_CODES: Final = {9: "tab", 13: "enter", 27: "escape", 32: "space", 127: "backspace", 57414: "enter"}
_CONTROLS: Final = {
    "\t": "tab",
    "\r": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x00": "ctrl+space",
    "\x1c": "ctrl+\\",
    "\x1d": "ctrl+]",
    "\x1e": "ctrl+^",
    "\x1f": "ctrl+_",
}


@attrs.frozen
class Key:
    """A key that is no text, such as `enter`, `ctrl+c`, `alt+left`."""

    name: str


@attrs.frozen
class TypedText:
    """Text that was typed."""

    text: str


@attrs.frozen
class PastedText:
    """Text that was pasted: it never counts as keys."""

    text: str


KeyInput: TypeAlias = Key | TypedText | PastedText


@attrs.define(eq=False)
class KeyDecoder:
    """Decodes what a terminal sends. Pure: the time is passed in.

    Attributes:
        deadline: when `expire` must be called, since what has come may be the beginning of something; None: never.
    """

    deadline: float | None = attrs.field(default=None, init=False)
    _utf8: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _pending: str = attrs.field(default="", init=False)
    _pasted: list[str] | None = attrs.field(default=None, init=False)
    _came_at: float = attrs.field(default=0.0, init=False)
    _newline_at: float = attrs.field(default=float("-inf"), init=False)

    def feed(self, data: bytes, now: float) -> list[KeyInput]:
        """Return what *data* completes."""
        self._pending += self._utf8.decode(data)
        self.deadline = None
        self._came_at = now
        return list(self._parse(now))

    def expire(self, now: float) -> list[KeyInput]:
        """Return what has waited for more until its deadline."""
        self.deadline = None
        if not self._pending or self._pasted is not None:
            return []
        head, self._pending = self._pending[0], self._pending[1:]
        if head == "\r":
            # When it came counts, not when it was read.
            return [self._enter(self._came_at)]
        # A lone Esc, or one that begins nothing: the rest are keys of their own.
        return [Key("escape"), *self._parse(now)]

    def _parse(self, now: float) -> Iterator[KeyInput]:
        while self._pending:
            if self._pasted is not None:
                pasted = self._take_paste()
                if pasted is None:
                    return
                yield pasted
                # A newline behind the end of a paste belongs to what was hidden in it.
                self._newline_at = now
                continue
            event, length = self._first(now)
            if not length:
                return
            self._pending = self._pending[length:]
            if event is not None:
                yield event

    def _first(self, now: float) -> tuple[KeyInput | None, int]:
        """Return the first event, and how many characters it takes: 0, if more have to come."""
        text = self._pending
        if (run := _PRINTABLE.match(text)) is not None:
            return TypedText(run[0]), run.end()
        if text[0] == "\x1b":
            return self._escape(now)
        if text[0] == "\r":
            return self._return(now)
        name = _CONTROLS.get(text[0]) or (f"ctrl+{chr(ord(text[0]) + 96)}" if text[0] < "\x1b" else "")
        return (Key(name) if name else None), 1

    def _return(self, now: float) -> tuple[KeyInput | None, int]:
        following = self._pending[1:2]
        if not following:
            self.deadline = now + ENTER_SECONDS
            return None, 0
        if following in {"\n", "\r"} or _PRINTABLE.match(following):
            # A paste without brackets: no person types the next line that fast.
            self._newline_at = now
            return TypedText("\n"), 2 if following == "\n" else 1
        return self._enter(now), 1

    def _enter(self, now: float) -> KeyInput:
        is_pasted = now - self._newline_at < ENTER_SECONDS
        self._newline_at = now
        return TypedText("\n") if is_pasted else Key("enter")

    def _escape(self, now: float) -> tuple[KeyInput | None, int]:
        text = self._pending
        if text.startswith(_PASTE_START):
            self._pasted = []
            return None, len(_PASTE_START)
        if (sequence := _CSI.match(text)) is not None:
            return _csi(sequence[1], sequence[3]), sequence.end()
        if len(text) >= 3 and text[:2] == "\x1bO":
            return _named(_SS3_FINALS.get(text[2]), 1), 3
        if _OPEN_CSI.fullmatch(text) is not None:
            self.deadline = now + ESCAPE_SECONDS
            return None, 0
        if text[1] == "\x1b":  # two Esc, or Alt with a sequence: the first one is a key
            return Key("escape"), 1
        if _PRINTABLE.match(text[1]) is not None:
            return Key(f"alt+{text[1]}"), 2
        name = _CONTROLS.get(text[1]) or (f"ctrl+{chr(ord(text[1]) + 96)}" if text[1] < "\x1b" else "")
        # In the order of `chat_keys`: ctrl, alt, shift.
        control, _, base = name.rpartition("+")
        return (Key(f"{control}{'+' if control else ''}alt+{base}") if name else None), 2

    def _take_paste(self) -> PastedText | None:
        """Return the paste, if it is complete."""
        assert self._pasted is not None
        # The last end that is here: a paste may hold the sequence, to have the rest taken for keys.
        end = self._pending.rfind(_PASTE_END)
        if end < 0:
            keep = _partial_end(self._pending)
            self._pasted.append(self._pending[: len(self._pending) - keep])
            self._pending = self._pending[len(self._pending) - keep :]
            return None
        text = "".join((*self._pasted, self._pending[:end])).replace(_PASTE_END, "")
        self._pasted = None
        self._pending = self._pending[end + len(_PASTE_END) :]
        return PastedText(text.replace("\r\n", "\n").replace("\r", "\n"))


def _partial_end(text: str) -> int:
    """Return how many of the last characters may be the beginning of the end of a paste."""
    return next((n for n in range(len(_PASTE_END) - 1, 0, -1) if text.endswith(_PASTE_END[:n])), 0)


def _csi(parameters: str, final: str) -> KeyInput | None:
    """Return the key of a control sequence; None: it is none."""
    if parameters[:1] in {"<", "=", ">", "?"}:
        return None
    fields = [field.partition(":") for field in parameters.split(";")]
    first, modifiers, code = [*(int(text) if text.isdigit() else 1 for text, _, _ in fields), 1, 1, 0][:3]
    # kitty reports the release of a key in a sub-parameter.
    if len(fields) > 1 and fields[1][2] == "3":
        return None
    if final == "u":
        return _coded(first, modifiers)
    if final != "~":
        return _named(_FINALS.get(final), modifiers)
    return _coded(code, modifiers) if first == 27 and code else _named(_TILDES.get(first), modifiers)


def _named(name: str | None, modifiers: int) -> Key | None:
    return None if name is None else Key(_with_modifiers(name, modifiers))


def _coded(code: int, modifiers: int) -> KeyInput | None:
    """Return the key with that code point."""
    if code in _CODES and not (code == 32 and modifiers <= 2):
        return Key(_with_modifiers(_CODES[code], modifiers))
    # The private range holds keys such as a lone Shift.
    if not 32 <= code < 0xE000:
        return None
    if modifiers <= 2:
        return TypedText(chr(code).upper() if modifiers == 2 else chr(code))
    return Key(_with_modifiers(chr(code).lower(), modifiers))


def _with_modifiers(name: str, modifiers: int) -> str:
    bits = max(0, modifiers - 1)
    names = [each for bit, each in ((4, "ctrl+"), (2, "alt+"), (1, "shift+")) if bits & bit and each not in name]
    return "".join(names) + name

"""vi's keys for the composer: an everyday subset. Pure.

Normal mode has counts; the motions h j k l w b e W B E 0 ^ $ f t F T ; , G gg; the operators d c y with motions, text objects
and doubled; i a I A o O x X s S D C Y p P u . r ~ J.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer, line_end_at, line_start_at
from engine.cli.chat.editor.vi_motions import ViRange, motion_target, operator_range, text_object

# A command is complete when it matches; `_BEGINNING` matches what may still become one.
_MOTION: Final = r"[hjklwbeWBE0^$G;, ]|gg|[fFtT].|\r"
_COMMAND: Final = re.compile(
    rf"(?P<count>[1-9]\d*)?(?:(?P<motion>{_MOTION})|(?P<operator>[dcy])(?P<second>[1-9]\d*)?"
    rf"(?:(?P<target>{_MOTION})|(?P<object>[ia].)|(?P<double>[dcy]))|(?P<replace>r.)|(?P<simple>[iaIAoOxXsSDCYpPu.~J]))",
    re.DOTALL,
)
_BEGINNING: Final = re.compile(r"(?:[1-9]\d*)?(?:[dcy](?:[1-9]\d*)?[ia]?)?[fFtTgr]?")
_MAX_COUNT: Final = 9_999
# What these stand for.
_SHORT: Final = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "s": "cl", "S": "cc", "Y": "yy"}
_OPENERS: Final = "iaIAoO"


@attrs.define(eq=False)
class ViMode:
    """The mode, and what was typed of a command.

    Attributes:
        is_normal: typed text is commands; otherwise it is inserted.
    """

    buffer: TextBuffer
    is_normal: bool = attrs.field(default=False, init=False)
    _pending: str = attrs.field(default="", init=False)
    _register: tuple[str, bool] = attrs.field(default=("", False), init=False)
    _searched: str = attrs.field(default="", init=False)
    # The last change, for `.`: its command, and what was typed after it.
    _changed: str = attrs.field(default="", init=False)
    _inserted: list[str] = attrs.field(factory=list[str], init=False)

    def reset(self) -> None:
        """Begin a new draft, in insert mode."""
        self.is_normal, self._pending = False, ""
        self._inserted.clear()
        self.buffer.begin_group()

    def escape(self) -> bool:
        """Leave insert mode, or drop what was typed of a command; return whether there was anything to leave."""
        if not self.is_normal:
            self.is_normal = True
            self.buffer.end_group()
            if self.buffer.cursor > line_start_at(self.buffer.text, self.buffer.cursor):
                self.buffer.left()
            return True
        had_pending, self._pending = bool(self._pending), ""
        return had_pending

    def note_inserted(self, text: str) -> None:
        """Note what is typed in insert mode, for `.`; an empty text: the last character was deleted."""
        if self.is_normal:
            return
        if text:
            self._inserted.append(text)
        elif self._inserted:
            self._inserted.append(self._inserted.pop()[:-1])

    def press(self, char: str) -> str:
        """Take a character in normal mode; return `up` or `down` if the cursor is to leave its row."""
        self._pending += char
        match = _COMMAND.fullmatch(self._pending)
        if match is None:
            if _BEGINNING.fullmatch(self._pending) is None:
                self._pending = ""
            return ""
        command, self._pending = self._pending, ""
        return self._run(command, match)

    # -- commands --------------------------------------------------------------------------------

    def _run(self, command: str, match: re.Match[str]) -> str:
        count = min(_MAX_COUNT, int(match["count"] or 0))
        if match["motion"] is not None:
            return self._move(match["motion"], count)
        if match["operator"] is not None:
            self._operate(match, count)
        elif match["replace"] is not None:
            self._replace(match["replace"][1], count or 1)
        elif match["simple"] == ".":
            self._repeat()
            return ""
        elif match["simple"] in _SHORT:
            long = f"{count or ''}{_SHORT[match['simple']]}"
            expanded = _COMMAND.fullmatch(long)
            assert expanded is not None
            return self._run(command, expanded)
        else:
            self._simple(match["simple"], count or 1)
        if match["operator"] != "y" and match["simple"] != "u":
            self._changed = command
            self._inserted.clear()
        self.settle()
        return ""

    def _move(self, motion: str, count: int) -> str:
        if motion in {"j", "k"}:
            return "down" if motion == "j" else "up"
        target = motion_target(self.buffer, self._motion(motion), count)
        if target is not None:
            self.buffer.move(target)
        self.settle()
        return ""

    def _motion(self, motion: str) -> str:
        """Return the motion that `;` and `,` repeat; remember one that they can."""
        if motion in {";", ","}:
            repeated = self._searched or "0"
            return repeated if motion == ";" else repeated[0].swapcase() + repeated[1:]
        if motion[0] in "fFtT":
            self._searched = motion
        return motion

    def _operate(self, match: re.Match[str], count: int) -> None:
        buffer, operator = self.buffer, match["operator"]
        count = (count or 1) * int(match["second"] or 1) if count or match["second"] else 0
        area: ViRange | None = None
        if match["object"] is not None:
            area = text_object(buffer.text, buffer.cursor, match["object"])
        elif match["target"] is not None:
            area = operator_range(buffer, self._target(match["target"], operator), count)
        elif match["double"] == operator:
            area = operator_range(buffer, "lines", count)
        if area is not None:
            self._apply(operator, area)

    def _target(self, motion: str, operator: str) -> str:
        """Return the motion of an operator; `cw` leaves the blank behind the word, as `ce` does."""
        at = self.buffer.cursor
        if operator == "c" and motion in {"w", "W"} and not self.buffer.text[at : at + 1].isspace():
            return "e" if motion == "w" else "E"
        return self._motion(motion)

    def _apply(self, operator: str, area: ViRange) -> None:
        buffer = self.buffer
        start, end = area.start, min(area.end, len(buffer.text))
        self._register = (buffer.text[start:end], area.is_linewise)
        if operator == "y":
            buffer.move(buffer.cursor if area.is_linewise else start)
            return
        if operator == "c":
            self._insert_mode()
        elif area.is_linewise:
            # With the line break behind it, or that before the last line.
            start, end = (start, end + 1) if end < len(buffer.text) else (max(0, start - 1), end)
        buffer.splice(start, end)
        if operator == "c":
            buffer.move(start)
        elif area.is_linewise:
            buffer.move(line_start_at(buffer.text, min(start, len(buffer.text))))

    def _replace(self, char: str, count: int) -> None:
        buffer = self.buffer
        end = buffer.cursor
        for _ in range(count):
            if end >= line_end_at(buffer.text, buffer.cursor):
                return
            end = buffer.after(end)
        buffer.splice(buffer.cursor, end, ("\n" if char == "\r" else char) * count)
        buffer.left()

    def _simple(self, name: str, count: int) -> None:
        match name:
            case "u":
                for _ in range(count):
                    self.buffer.undo()
            case "p" | "P":
                self._put(is_before=name == "P", count=count)
            case "~":
                self._swap_case(count)
            case "J":
                self._join(max(1, count - 1))
            case _:
                self._open(name)

    def _open(self, name: str) -> None:
        """Go to insert mode, after moving as the command says."""
        buffer = self.buffer
        start, end = line_start_at(buffer.text, buffer.cursor), line_end_at(buffer.text, buffer.cursor)
        self._insert_mode()
        match name:
            case "a" if buffer.cursor < end:
                buffer.right()
            case "A":
                buffer.move(end)
            case "I":
                buffer.move(motion_target(buffer, "^", 1) or 0)
            case "o":
                buffer.splice(end, end, "\n")
            case "O":
                buffer.splice(start, start, "\n")
                buffer.move(start)
            case _:
                pass

    def _put(self, *, is_before: bool, count: int) -> None:
        buffer = self.buffer
        text, is_linewise = self._register
        if not text and not is_linewise:
            return
        if is_linewise:
            block = "\n".join([text] * count)
            start, end = line_start_at(buffer.text, buffer.cursor), line_end_at(buffer.text, buffer.cursor)
            at = start if is_before else end
            buffer.splice(at, at, f"{block}\n" if is_before else f"\n{block}")
            buffer.move(at if is_before else at + 1)
        else:
            is_at_end = buffer.cursor >= line_end_at(buffer.text, buffer.cursor)
            at = buffer.cursor if is_before or is_at_end else buffer.after(buffer.cursor)
            buffer.splice(at, at, text * count)
            buffer.left()

    def _swap_case(self, count: int) -> None:
        buffer = self.buffer
        end = min(buffer.cursor + count, line_end_at(buffer.text, buffer.cursor))
        buffer.splice(buffer.cursor, end, buffer.text[buffer.cursor : end].swapcase())

    def _join(self, count: int) -> None:
        buffer = self.buffer
        for _ in range(count):
            end = line_end_at(buffer.text, buffer.cursor)
            if end >= len(buffer.text):
                return
            rest = buffer.text[end + 1 :]
            blanks = len(rest) - len(rest.lstrip(" \t"))
            buffer.splice(end, end + 1 + blanks, " " if rest[blanks : blanks + 1] not in {"", "\n"} else "")
            buffer.move(end)

    def _repeat(self) -> None:
        """Do the last change again, with what was typed after it."""
        command, inserted = self._changed, "".join(self._inserted)
        match = _COMMAND.fullmatch(command)
        if match is None:
            return
        self._run(command, match)
        if not self.is_normal:
            self.buffer.insert(inserted)
            self._inserted.append(inserted)
            self.escape()

    def _insert_mode(self) -> None:
        self.is_normal = False
        self.buffer.begin_group()

    def settle(self) -> None:
        """In normal mode the cursor stands on a character, and not behind the last one of the line."""
        buffer = self.buffer
        start, end = line_start_at(buffer.text, buffer.cursor), line_end_at(buffer.text, buffer.cursor)
        if self.is_normal and start < buffer.cursor == end:
            buffer.left()

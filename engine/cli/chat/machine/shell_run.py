"""A command that the user runs with `!`: its output as lines, and as a text for the conversation. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final

import attrs

from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line, one_line

# More is counted, and not shown: a command may print without end.
MAX_LINES: Final = 2_000
_MAX_KEPT_CHARS: Final = 128 << 10
_MAX_LINE_CHARS: Final = 20_000
# Colours and moves of the cursor mean nothing here.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B])")


@attrs.define(eq=False)
class ShellRun:
    """A run.

    Attributes:
        command: what was typed after the `!`.
        started: when, in seconds since the epoch.
        status: how it ended; empty: it runs.
    """

    command: str
    started: float
    status: str = attrs.field(default="", init=False)
    _utf8: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _rest: str = attrs.field(default="", init=False)
    _shown: int = attrs.field(default=0, init=False)
    _hidden: int = attrs.field(default=0, init=False)
    _head: str = attrs.field(default="", init=False)
    _tail: str = attrs.field(default="", init=False)
    _dropped: int = attrs.field(default=0, init=False)

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that *data* completes."""
        return self._take(self._utf8.decode(data))

    def finish(self, status: str) -> list[str]:
        """Return the last lines."""
        self.status = status
        lines = self._take(self._utf8.decode(b"", final=True))
        if self._rest:
            lines.append(_clean(self._rest))
        if self._hidden:
            lines.append(f"  {self._hidden:,} more lines are not shown")
        return lines

    def row(self, now: float) -> str:
        """Return the row that says that it runs."""
        return f"! {one_line(self.command, 60)}  {max(0, int(now - self.started))} s (Esc: stop)"

    def as_text(self) -> str:
        """Return the command and its output, for the conversation."""
        middle = f"\n[… {self._dropped:,} characters are left out here …]\n" if self._dropped else ""
        body = _SEQUENCE.sub("", f"{self._head}{middle}{self._tail}").rstrip("\n")
        return f"I ran this command ({self.status}):\n```\n$ {self.command}\n{body}\n```"

    def _take(self, text: str) -> list[str]:
        self._keep(text)
        if self._shown >= MAX_LINES:
            # Only counted: a command may print without end, and the keys are waiting.
            self._hidden += text.count("\n")
            return []
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > _MAX_LINE_CHARS:
            lines.append(self._rest)
            self._rest = ""
        shown = lines[: MAX_LINES - self._shown]
        self._shown += len(shown)
        if self._shown >= MAX_LINES:
            self._hidden += len(lines) - len(shown)
            self._rest = ""
        return list(map(_clean, shown))

    def _keep(self, text: str) -> None:
        room = _MAX_KEPT_CHARS // 2 - len(self._head)
        if room > 0 and not self._tail:
            self._head += text[:room]
            text = text[room:]
        tail = self._tail + text
        self._tail = tail[-_MAX_KEPT_CHARS // 2 :]
        self._dropped += len(tail) - len(self._tail)


def _clean(line: str) -> str:
    """Return a line as it is shown: what was written over by a carriage return is left out."""
    return "  " + escape_control_chars(_SEQUENCE.sub("", line.rstrip("\r").rpartition("\r")[2]))


def shell_command(text: str) -> str:
    """Return the command of a draft that begins with `!`; empty: it is a message."""
    return text[1:].strip() if text.startswith("!") else ""


def heading(command: str, remark: str) -> str:
    """Return the line that a run begins with."""
    return f"! {escape_on_one_line(command)}{f' ({remark})' if remark else ''}"

"""Make text safe for a terminal: no output of a model or a command can control it."""

from __future__ import annotations

import shutil
import time
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final

import attrs

from engine.cli.terminal.standard_streams import standard_output
from engine.core.value_base import Value
from engine.export.sanitize import UNSAFE_RANGES

_PIPE_WIDTH: Final = 100
# Long names must not squeeze their descriptions to a word per line.
_MIN_DESCRIPTION: Final = 30


# Escape sequences, changes of the writing direction and invisible characters could disguise a text, so they are
# escaped. Joiners within words and emoji are left alone.
@cache
def _escapes() -> dict[int, str]:
    """Return what is written instead of each of some 6,000 characters."""
    hiding = [code for first, last in UNSAFE_RANGES for code in range(first, last + 1) if code > 0xA0]
    return {
        **{code: f"^{chr(code + 64)}" for code in range(0x20)},
        **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
        **{code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in hiding},
        0x7F: "^?",
        ord("\n"): "\n",
        ord("\t"): "\t",
        ord("\r"): "",
    }


# Letters and marks that are not seen, besides the categories below: fillers, blanks, variation selectors.
_BLANK: Final = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)})
# Control characters, formats (joiners, directions), undefined characters, and separators.
_UNSEEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Symbols(Value):
    """The symbols in front of lines about calls, and between the facts of a line."""

    running: str
    done: str
    failed: str
    stopped: str
    note: str
    cut: str
    between: str


UNICODE: Final = Symbols(running="●", done="✓", failed="✗", stopped="■", note="·", cut="…", between=" · ")
ASCII: Final = Symbols(running="*", done="+", failed="x", stopped="#", note="-", cut="...", between=" - ")
# A screen reader reads signs aloud, or leaves them out.
WORDS: Final = Symbols(
    running="running:", done="done:", failed="failed:", stopped="stopped:", note="Note:", cut="...", between=", "
)


def symbols_for(encoding: str) -> Symbols:
    """Return the symbols that *encoding* can represent."""
    try:
        "".join(attrs.astuple(UNICODE)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def escape_control_chars(text: str) -> str:
    """Escape the control characters of *text*, except newline and tab."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_escapes())


def escape_on_one_line(text: str) -> str:
    """Escape the control characters and line breaks of *text*: a name must not hide text or imitate the engine's lines."""
    # Visible, not removed: the user should see that the name is odd.
    return escape_control_chars(text).replace("\n", "^J").replace("\t", "^I")


def escape_unseen(text: str) -> str:
    """Escape everything in *text* that is invisible or changes the order of what is seen, except newline, tab and space.

    For a text that a user is asked to approve: there, unlike in other texts, a joiner in an emoji is escaped as well, and
    so is a carriage return.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_seen, text))


def _seen(char: str) -> str:
    code = ord(char)
    if char in "\n\t " or not (unicodedata.category(char) in _UNSEEN_CATEGORIES or code in _BLANK or code >= 0xE0100):
        return char
    if code == 0x0D:
        return "^M"
    return _escapes().get(code) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def one_line(text: str, width: int, cut: str = "…") -> str:
    """Return *text* on one line, truncated to *width* characters."""
    line = " ".join(escape_control_chars(text).split())
    return line if len(line) <= width else line[: max(0, width - len(cut))] + cut


def duration(seconds: float) -> str:
    """Format a duration: `4 ms`, `0.25 s`, `1.2 s`, `2 min 5 s`."""
    # The bounds are such that rounding never gives "100 ms" or "60.0 s".
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1_000:.0f} ms"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def clock_time(moment: float) -> str:
    """Format a moment, in seconds since the epoch, as local time."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def time_left(moment: float) -> str:
    """Format how long it is until a moment, in seconds since the epoch."""
    return duration(max(0.0, moment - time.time()))


def clock_minute(moment: float) -> str:
    """Format a moment, in seconds since the epoch, as local time to the minute; with its date if that is another day."""
    form = "%H:%M" if abs(moment - time.time()) < 12 * 3600 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(moment))


def stdout_width() -> int:
    """Return how many characters a line on standard output may have."""
    output = standard_output()
    is_terminal = output is not None and output.isatty()
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if is_terminal else _PIPE_WIDTH


def two_columns(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and their descriptions as lines; a description wraps inside its column."""
    # Imported here: most commands wrap nothing.
    import textwrap

    width = max((len(name) for name, _ in rows), default=0)
    room = max(_MIN_DESCRIPTION, stdout_width() - width - 4)
    lines: list[str] = []
    for name, description in rows:
        first, *more = textwrap.wrap(description, room)
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in more)]
    return "\n".join(lines)

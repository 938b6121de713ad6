"""Text for a terminal: whatever a model or a command says, it can't do anything to it."""

from __future__ import annotations

import time
from typing import Final

import attrs

from engine.export.sanitize import UNSEEN

# Cursor movements, colours and titles would let a text hide what it is; so would a
# change of the writing direction, and what can't be seen at all. They are shown as what they are. (Not what joins
# letters, and parts of a picture, to one.)
_HIDING: Final = [
    *UNSEEN,
    *(0x00AD, 0x061C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFFF9, 0xFFFC),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
]
_VISIBLE: Final[dict[int, str]] = {
    **{code: f"^{chr(code + 64)}" for code in range(0x20)},
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in _HIDING},
    0x7F: "^?",
    ord("\n"): "\n",
    ord("\t"): "\t",
    ord("\r"): "",
}


@attrs.frozen(kw_only=True)
class Symbols:
    """The signs of the lines about calls."""

    running: str
    done: str
    failed: str
    stopped: str
    note: str
    cut: str


UNICODE: Final = Symbols(running="●", done="✓", failed="✗", stopped="■", note="·", cut="…")
ASCII: Final = Symbols(running="*", done="+", failed="x", stopped="#", note="-", cut="...")


def symbols_for(encoding: str) -> Symbols:
    """Return the signs that *encoding* has."""
    try:
        "".join(attrs.astuple(UNICODE)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def visible(text: str) -> str:
    """Return *text* with its control characters made visible, but for newline and tab."""
    return text.translate(_VISIBLE)


def on_a_line(text: str) -> str:
    """Return all of *text*, on one line: what follows a line break in a name must not be hidden, nor look like words of ours."""
    return visible(text).replace("\n", "^J").replace("\t", "^I")


def one_line(text: str, width: int, cut: str = "…") -> str:
    """Return *text* on one line of at most *width* characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else line[: max(0, width - len(cut))] + cut


def duration(seconds: float) -> str:
    """Return a time for people: `4 ms`, `0.25 s`, `1.2 s`, `2 min 5 s`."""
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1_000:.0f} ms"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def clock_time(moment: float) -> str:
    """Return a moment, in seconds since the epoch, as the clock on the wall has it."""
    return time.strftime("%H:%M:%S", time.localtime(moment))

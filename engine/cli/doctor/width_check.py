"""Does the terminal draw text as wide as we think? It is asked where the cursor is after each of six texts."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from typing import Final

from wcwidth import wcswidth

from engine.cli.doctor.check_result import CheckResult, CheckResults

# Plain, wide, combining, an emoji, one of several code points, and a flag.
TEXTS: Final = ("abc", "日本", "é", "✅", "👩‍💻", "🇪🇺")
_ASK: Final = "\x1b[6n"
_REPLY: Final = re.compile(rb"\x1b\[(\d+);(\d+)R")
_SECONDS: Final = 0.5


def check_width() -> CheckResults:
    """Measure the texts. It blocks, for a second at most; the terminal is as before afterwards, and its line empty."""
    if not sys.stdin.isatty() or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return []
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        widths = _measure(descriptor)
    finally:
        # Also drops a reply that comes too late, which would look like typing.
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    if widths is None:
        return [CheckResult("width", "warn", "the terminal does not say where its cursor is, so nothing was measured")]
    wrong = [f"{text} is {got} wide, not {wcswidth(text)}" for text, got in widths if got != wcswidth(text)]
    if wrong:
        return [
            CheckResult(
                "width", "warn", f"{'; '.join(wrong)}: such lines may be drawn wrongly", "engine chat --accessible"
            )
        ]
    return [CheckResult("width", "ok", f"all {len(TEXTS)} texts are as wide as expected")]


def _measure(descriptor: int) -> list[tuple[str, int]] | None:
    """Return the width of each text; None if the terminal does not answer."""
    deadline = time.monotonic() + _SECONDS
    widths: list[tuple[str, int]] = []
    for text in TEXTS:
        sys.stderr.write(f"\r{text}{_ASK}")
        sys.stderr.flush()
        reply = b""
        while (match := _REPLY.search(reply)) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            reply += os.read(descriptor, 64)
        widths.append((text, int(match[2]) - 1))
    return widths

"""Changes to a text, as a person reads them before allowing them.

What lies between the first and the last line that differ is one hunk, which takes
time in proportion to the text's length; the smallest diff would take its square.
"""

from __future__ import annotations

from typing import Final

_CONTEXT: Final = 3
_SHOWN_LINES: Final = 500
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


def changes(path: str, before: str, after: str) -> str:
    """Return how to get from *before* to *after*, as a unified diff of one hunk; empty if they are equal."""
    old, new = _lines(before), _lines(after)
    if old == new:
        return ""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    start, kept = max(0, head - _CONTEXT), min(tail, _CONTEXT)
    body = [
        *(f" {line}" for line in old[start:head]),
        *(f"-{line}" for line in old[head : len(old) - tail]),
        *(f"+{line}" for line in new[head : len(new) - tail]),
        *(f" {line}" for line in old[len(old) - tail :][:kept]),
    ]
    old_span, new_span = (_span(start, len(lines) - tail + kept - start) for lines in (old, new))
    return _shown(f"--- {path}\n+++ {path}\n@@ -{old_span} +{new_span} @@\n", body)


def replacement(path: str, old: str, new: str) -> str:
    """Return that *old* becomes *new* somewhere in *path*: like a diff, but without line numbers."""
    body = [*(f"-{line}\n" for line in old.split("\n")), *(f"+{line}\n" for line in new.split("\n") if new)]
    return _shown(f"--- {path}\n+++ {path}\n", body)


def whole_text(path: str, text: str) -> str:
    """Return that *path* will hold *text*, whatever it holds now."""
    return _shown(f"+++ {path}, all of it:\n", [f"+{line}" for line in _lines(text)])


def _lines(text: str) -> list[str]:
    # Not splitlines(): a form feed ends no line in a diff.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _common(old: list[str], new: list[str]) -> int:
    """Return how many lines both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))


def _span(start: int, count: int) -> str:
    # An empty span names the line before it.
    return f"{start + 1 if count else start},{count}"


def _shown(head: str, body: list[str]) -> str:
    shown = [line if line.endswith("\n") else line + _NO_NEWLINE for line in body[:_SHOWN_LINES]]
    if len(body) > _SHOWN_LINES:
        shown.append(f"[{len(body) - _SHOWN_LINES:,} more lines of this change are not shown]\n")
    return head + "".join(shown)

"""Changes to texts, as unified diffs: for a person before they are allowed, for the model after they are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.tools.line_diff import Difference, differences

_CONTEXT: Final = 3
SHOWN_LINES: Final = 500
_LINE_CHARS: Final = 1_000
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"
_NOTHING: Final = "/dev/null"


def changes(path: str, before: str | None, after: str | None, *, moved: str = "", limit: int = SHOWN_LINES) -> str:
    """Return how to get from *before* to *after*, as a unified diff; empty if they are equal.

    Args:
        path: the file, as it is called before.
        before: its text; None: there is no such file.
        after: its text; None: there will be no such file.
        moved: what it is called after, if that is something else.
        limit: how many lines to show; the others are counted.
    """
    old, new = _lines(before or ""), _lines(after or "")
    if before == after and not moved:
        return ""
    head = f"--- {_NOTHING if before is None else path}\n+++ {_NOTHING if after is None else moved or path}\n"
    return head + _shown(list(_hunks(old, new)), limit)


def comparison(one: str, other: str, *, first: int, limit: int = SHOWN_LINES) -> str:
    """Return the lines of *one* that *other* has not, with `-`, and the reverse, with `+`: all in one hunk.

    *first* is the number of the first line of *other*, in the file that it is a part of.
    """
    old, new = _lines(f"{one}\n"), _lines(f"{other}\n")
    return _shown([f"@@ +{first},{len(new)} @@\n", *_body(old, new, differences(old, new), 0, len(old))], limit)


def replacement(path: str, old: str, new: str) -> str:
    """Return that *old* becomes *new* somewhere in *path*: like a diff, but without line numbers."""
    body = [*(f"-{line}\n" for line in old.split("\n")), *(f"+{line}\n" for line in new.split("\n") if new)]
    return f"--- {path}\n+++ {path}\n{_shown(body, SHOWN_LINES)}"


def whole_text(path: str, text: str) -> str:
    """Return that *path* will hold *text*, whatever it holds now."""
    return f"+++ {path}, all of it:\n" + _shown([f"+{line}" for line in _lines(text)], SHOWN_LINES)


def _lines(text: str) -> list[str]:
    # Not splitlines(): a form feed ends no line in a diff.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a diff."""
    for group in _groups(differences(old, new)):
        start, end = max(0, group[0].start - _CONTEXT), min(len(old), group[-1].end + _CONTEXT)
        new_start = group[0].new_start - (group[0].start - start)
        new_end = group[-1].new_end + (end - group[-1].end)
        yield f"@@ -{_span(start, end)} +{_span(new_start, new_end)} @@\n"
        yield from _body(old, new, group, start, end)


def _groups(found: Sequence[Difference]) -> Iterator[list[Difference]]:
    """Yield differences that share a hunk, because they are near each other."""
    group: list[Difference] = []
    for difference in found:
        if group and difference.start - group[-1].end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(difference)
    if group:
        yield group


def _body(old: Sequence[str], new: Sequence[str], group: Sequence[Difference], start: int, end: int) -> Iterator[str]:
    """Yield the lines of a hunk that reaches from *start* to *end* of the old text."""
    for difference in group:
        yield from (f" {line}" for line in old[start : difference.start])
        yield from (f"-{line}" for line in old[difference.start : difference.end])
        yield from (f"+{line}" for line in new[difference.new_start : difference.new_end])
        start = difference.end
    yield from (f" {line}" for line in old[start:end])


def _span(start: int, end: int) -> str:
    # An empty span names the line before it.
    return f"{start + (end > start)},{end - start}"


def _shown(body: Sequence[str], limit: int) -> str:
    shown = [line if line.endswith("\n") else line + _NO_NEWLINE for line in map(_cut, body[:limit])]
    if len(body) > limit:
        shown.append(f"[{len(body) - limit:,} more lines of this change are not shown]\n")
    return "".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]} [the rest of this line is not shown]\n"

"""Changes to texts, as unified diffs: for a person before they are allowed, for the model after they are made.

Texts may be large and the same but for a line, or large and different everywhere. So
what both begin and end with is passed over by chunks, and of what can't be shown
lines are counted, not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.files.line_diff import Difference, differences

_CONTEXT: Final = 3
SHOWN_LINES: Final = 500
_LINE_CHARS: Final = 1_000
_CHUNK_CHARS: Final = 65_536
# Where more lines than these differ, it is all one hunk.
_DIFFED_LINES: Final = 20_000
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"
_NOTHING: Final = "/dev/null"
_CUT_CHANGE: Final = " more lines of this change are not shown]\n"
_CUT_LINE: Final = " [the rest of this line is not shown]\n"


def changes(path: str, before: str | None, after: str | None, *, moved: str = "", limit: int = SHOWN_LINES) -> str:
    """Return how to get from *before* to *after*, as a unified diff; empty if they are equal.

    Args:
        path: the file, as it is called before.
        before: its text; None: there is no such file.
        after: its text; None: there will be no such file.
        moved: what it is called after, if that is something else.
        limit: how many lines to show; the others are counted.
    """
    if before == after and not moved:
        return ""
    head = f"--- {_NOTHING if before is None else path}\n+++ {_NOTHING if after is None else moved or path}\n"
    return head + _diff(before or "", after or "", limit)


def comparison(one: str, other: str, *, first: int, limit: int = SHOWN_LINES) -> str:
    """Return the lines of *one* that *other* has not, with `-`, and the reverse, with `+`: all in one hunk.

    *first* is the number of the first line of *other*, in the file that it is a part of.
    """
    old, new = _lines(f"{one}\n"), _lines(f"{other}\n")
    body = list(_body(old, new, differences(old, new), 0, len(old)))
    return f"@@ +{first},{len(new)} @@\n{_shown(body, limit, len(body))}"


def replacement(path: str, old: str, new: str) -> str:
    """Return that *old* becomes *new* somewhere in *path*: like a diff, but without line numbers."""
    gone, come = _first_lines(f"{old}\n"), _first_lines(f"{new}\n" if new else "")
    total = old.count("\n") + 1 + (new.count("\n") + 1 if new else 0)
    body = [*(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
    return f"--- {path}\n+++ {path}\n{_shown(body, SHOWN_LINES, total)}"


def whole_text(path: str, text: str) -> str:
    """Return a note that *path* will hold *text*, for a file whose content is not compared."""
    body = [f"+{line}" for line in _first_lines(text)]
    return f"+++ {path}, all of it:\n" + _shown(body, SHOWN_LINES, _number_of_lines(text))


def is_cut(diff: str) -> bool:
    """Return whether a diff, made here, does not show all of the change."""
    return diff.endswith(_CUT_CHANGE) or _CUT_LINE in diff


def _lines(text: str) -> list[str]:
    # Not splitlines(): a form feed ends no line in a diff.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _first_lines(text: str) -> list[str]:
    """Return as many lines as may be shown, and some more."""
    end = -1
    for _ in range(SHOWN_LINES + _CONTEXT):
        end = text.find("\n", end + 1)
        if end < 0:
            return _lines(text)
    return _lines(text[: end + 1])


def _number_of_lines(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _diff(before: str, after: str, limit: int) -> str:
    """Return the hunks of a diff."""
    start = before.rfind("\n", 0, _common_head(before, after)) + 1
    tail = _common_tail(before[start:], after[start:])
    # What both end with counts from the first line that begins in it.
    tail -= before[len(before) - tail :].find("\n") + 1 or tail
    end, new_end = len(before) - tail, len(after) - tail
    first = before.count("\n", 0, start)
    sizes = _number_of_lines(before[start:end]), _number_of_lines(after[start:new_end])
    if sum(sizes) > _DIFFED_LINES:
        spans = (_span(first, first + size) for size in sizes)
        gone, come = _first_lines(before[start:end]), _first_lines(after[start:new_end])
        lines = [*(f"-{line}" for line in gone), *(f"+{line}" for line in come if sizes[0] < limit)]
        return "@@ -{} +{} @@\n".format(*spans) + _shown(lines, limit, sum(sizes))
    above, below = _context_start(before, start), _context_end(before, end)
    old, new = _lines(before[above:below]), _lines(after[above : new_end + below - end])
    body = list(_hunks(old, new, first - before.count("\n", above, start)))
    return _shown(body, limit, len(body))


def _common_head(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    at = 0
    while at < min(len(one), len(other)) and one[at : at + _CHUNK_CHARS] == other[at : at + _CHUNK_CHARS]:
        at += _CHUNK_CHARS
    pairs = zip(one[at : at + _CHUNK_CHARS], other[at : at + _CHUNK_CHARS], strict=False)
    return min(len(one), len(other), at + next((i for i, (a, b) in enumerate(pairs) if a != b), _CHUNK_CHARS))


def _common_tail(one: str, other: str) -> int:
    """Return how many characters both end with."""
    most = min(len(one), len(other))
    at = 0
    while at < most and _from_end(one, at) == _from_end(other, at):
        at += _CHUNK_CHARS
    pairs = zip(reversed(_from_end(one, at)), reversed(_from_end(other, at)), strict=False)
    return min(most, at + next((i for i, (a, b) in enumerate(pairs) if a != b), _CHUNK_CHARS))


def _from_end(text: str, at: int) -> str:
    return text[max(0, len(text) - at - _CHUNK_CHARS) : max(0, len(text) - at)]


def _context_start(text: str, at: int) -> int:
    for _ in range(_CONTEXT):
        at = text.rfind("\n", 0, max(0, at - 1)) + 1
    return at


def _context_end(text: str, at: int) -> int:
    for _ in range(_CONTEXT):
        at = text.find("\n", at) + 1 or len(text)
    return at


def _hunks(old: Sequence[str], new: Sequence[str], first: int) -> Iterator[str]:
    """Yield the lines of a diff; *first* lines stand before these."""
    for group in _groups(differences(old, new)):
        start, end = max(0, group[0].start - _CONTEXT), min(len(old), group[-1].end + _CONTEXT)
        new_start = group[0].new_start - (group[0].start - start)
        new_end = group[-1].new_end + (end - group[-1].end)
        yield f"@@ -{_span(first + start, first + end)} +{_span(first + new_start, first + new_end)} @@\n"
        yield from _body(old, new, group, start, end)


def _groups(changes: Sequence[Difference]) -> Iterator[list[Difference]]:
    """Yield differences that share a hunk, because they are near each other."""
    group: list[Difference] = []
    for difference in changes:
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


def _shown(body: Sequence[str], limit: int, total: int) -> str:
    """Return the first lines of *body*; *total* is how many there are or would be."""
    shown = [line if line.endswith("\n") else line + _NO_NEWLINE for line in map(_cut, body[:limit])]
    if total > limit:
        shown.append(f"[{total - limit:,}{_CUT_CHANGE}")
    return "".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}{_CUT_LINE}"

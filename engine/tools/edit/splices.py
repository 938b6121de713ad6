"""Turn a request that matches a file loosely into splices.

A request replaces old lines by new ones. Where the old lines are not exactly the file's, the new ones can't simply take
their place: lines that the request keeps would lose what the file really has, and added lines would have a wrong
indentation. So only the lines that differ between old and new are changed, and added lines are indented like the file's
lines around them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from engine.files.line_diff import Difference, differences
from engine.tools.edit.source_text import SourceText, Splice
from engine.tools.edit.unicode_forms import keep_forms

_TAB: Final = 4
# Enough to tell the indentation; a file may have a million lines.
_SAMPLE_LINES: Final = 1_000


@attrs.frozen
class Request:
    """Lines that a model wants to change: as it believes them to be, and as they should become."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @classmethod
    def of(cls, old: str, new: str) -> Request:
        """Split two texts into lines. If both end with a line feed, the empty rest after it is not a line."""
        if old.endswith("\n") and (new.endswith("\n") or not new):
            return cls(tuple(old[:-1].split("\n")), tuple(new[:-1].split("\n")) if new else ())
        if old.endswith("\n"):
            return cls(tuple(old[:-1].split("\n")), tuple(new.split("\n")))
        return cls(tuple(old.split("\n")), tuple(new.split("\n")))


def make_splices(source: SourceText, request: Request, pairs: Sequence[int | None]) -> tuple[Splice, ...]:
    """Return the splices that carry out *request*.

    *pairs* maps each old line of the request to the index of the file's line; None: the file does not have it. An old
    line that the file does not have, and the request keeps, is not added.
    """
    indents = Indents.of(source, request, pairs)
    text: list[Splice] = []
    for change in differences(request.old, request.new):
        new = _with_forms(source, request, change, pairs)
        added = [indents.of_line(line, change.start) for line in new]
        replaced = [pair for pair in pairs[change.start : change.end] if pair is not None]
        if replaced:
            text.append(source.replaced(replaced[0], replaced[-1], added))
        elif added:
            text.append(source.inserted(_place(change, pairs), added))
    return tuple(splice for splice in text if not source.is_idle(splice))


def _with_forms(source: SourceText, request: Request, change: Difference, pairs: Sequence[int | None]) -> Sequence[str]:
    """Return the new lines of a change, with the file's characters where the request has others that look alike."""
    new = request.new[change.new_start : change.new_end]
    old = [(request.old[i], pair) for i in range(change.start, change.end) if (pair := pairs[i]) is not None]
    if all(line.isascii() and source.lines[pair].isascii() for line, pair in old):
        return new
    before = "\n".join(line.strip() for line, _ in old)
    actual = "\n".join(source.stripped[pair] for _, pair in old)
    return keep_forms(before, "\n".join(new), actual).split("\n")


def _place(change: Difference, pairs: Sequence[int | None]) -> int:
    """Return the index of the file's line before which added lines belong."""
    if change.start > 0 and (before := pairs[change.start - 1]) is not None:
        return before + 1
    after = next((pair for pair in pairs[change.end :] if pair is not None), None)
    if after is not None:
        return after
    return next((pair + 1 for pair in reversed(pairs[: change.start]) if pair is not None), 0)


@attrs.frozen
class _Pair:
    """An old line's index, and its indentation in the request and in the file."""

    index: int
    requested: str
    actual: str


@attrs.frozen
class Indents:
    """The translation of the request's indentation to the file's."""

    pairs: tuple[_Pair, ...]
    odd: _Pair | None
    request_unit: int
    file_unit: int
    has_tabs: bool

    @classmethod
    def of(cls, source: SourceText, request: Request, pairs: Sequence[int | None]) -> Indents:
        """Derive it from old lines and their counterparts in the file."""
        known = tuple(
            _Pair(index, _indent(line), _indent(source.lines[pair]))
            for index, (line, pair) in enumerate(zip(request.old, pairs, strict=True))
            if pair is not None and line.strip() and source.stripped[pair]
        )
        odd = None
        if any(pair.requested and pair.requested == pair.actual for pair in known[1:]):
            # Models often omit the blanks before the first line. If the other lines are right, the first one is an
            # exception.
            odd, known = known[0], known[1:]
        first = next((pair for pair in pairs if pair is not None), 0)
        around = source.lines[max(0, first - _SAMPLE_LINES // 2) : first + _SAMPLE_LINES // 2]
        return cls(
            pairs=known,
            odd=odd,
            request_unit=_unit([*request.old, *request.new]),
            file_unit=_unit(around),
            has_tabs=_has_tabs(around) if any(map(_indent, around)) else _has_tabs([*request.old, *request.new]),
        )

    def of_line(self, line: str, near: int) -> str:
        """Return a new line, indented as the file indents the old lines near *near*."""
        indent = _indent(line)
        if not self.pairs or len(indent) == len(line):
            return line
        if self.odd is not None and (near, indent) == (0, self.odd.requested):
            return self.odd.actual + line[len(indent) :]
        # The old line with the most similar indentation; the deeper, then the nearer one.
        pair = min(
            self.pairs,
            key=lambda pair: (
                abs(_width(pair.requested) - _width(indent)),
                -_width(pair.requested),
                abs(pair.index - near),
            ),
        )
        return self._converted(indent, pair) + line[len(indent) :]

    def _converted(self, indent: str, pair: _Pair) -> str:
        if indent == pair.requested:
            return pair.actual
        if indent.startswith(pair.requested):
            return pair.actual + self._step(indent[len(pair.requested) :])
        more = _width(indent) - _width(pair.requested)
        if more > 0:
            return pair.actual + self._step(" " * more)
        surplus = pair.requested.removeprefix(indent) if pair.requested.startswith(indent) else " " * -more
        return pair.actual[: max(0, len(pair.actual) - len(self._step(surplus)))]

    def _step(self, more: str) -> str:
        """Translate additional indentation to the file's style."""
        if set(more) == {"\t"}:
            return more if self.has_tabs else " " * (self.file_unit * len(more))
        if self.has_tabs:
            return "\t" * max(1, round(_width(more) / self.request_unit))
        return " " * max(1, round(_width(more) * self._scale()))

    def _scale(self) -> float:
        """Return the ratio of the file's indentation steps to the request's; 1 if the lines don't agree on one."""
        widths = sorted({(_width(pair.requested), _width(pair.actual)) for pair in self.pairs})
        (low, base), (high, top) = widths[0], widths[-1]
        if high == low or top <= base:
            return 1.0
        scale = (top - base) / (high - low)
        return scale if all(found - base == (asked - low) * scale for asked, found in widths) else 1.0


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _has_tabs(lines: Sequence[str]) -> bool:
    indents = [line[0] for line in lines if _indent(line)]
    return 2 * indents.count("\t") > len(indents)


def _width(indent: str) -> int:
    return len(indent.expandtabs(_TAB))


def _unit(lines: Iterable[str]) -> int:
    """Return the most frequent step of indentation."""
    steps: Counter[int] = Counter()
    last = 0
    for line in lines:
        if line.strip():
            width = _width(_indent(line))
            if width > last:
                steps[width - last] += 1
            last = width
    return max(steps, key=lambda step: (steps[step], -step)) if steps else _TAB

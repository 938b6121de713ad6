"""Build Markdown: blocks one after the other, in lists and quotations, and the line being filled.

A page is one flow, and so is each cell of a table. Depths are bounded, so what is repeated for each level (the prefix
of a line, the text of an open mark) is repeated a limited number of times. Otherwise a page of 100,000 nested lists
would grow quadratically.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

# Deeper lists and quotations are written at this depth.
MAX_DEPTH: Final = 8

# Also the zero-width space, which pages put into long words.
_BLANKS: Final = re.compile(r"[ \t\r\n\f\u200b]+")
_DOUBLED: Final = re.compile(r" {2,}")
_AROUND_BREAKS: Final = re.compile(r" ?\n[ \n]*")


def squeezed(text: str) -> str:
    """Collapse runs of blanks to one space, as browsers do."""
    return _BLANKS.sub(" ", text)


@attrs.frozen(eq=False)
class Mark:
    """Emphasis, code or a link: where in the line it begins, and the markup before and after it."""

    name: str
    begin: int
    before: str
    after: str


@attrs.define(eq=False)
class Container:
    """A list, an item of one, a quotation.

    name: of its element.
    first: the prefix of its first line.
    rest: the prefix of its other lines.
    number: in a numbered list, the next number.
    gap: line ends before its first block.
    has_content: whether something was written in it.
    """

    name: str
    first: str = ""
    rest: str = ""
    number: int | None = None
    gap: int | None = None
    has_content: bool = False


@attrs.define(eq=False)
class Flow:
    """Blocks of text.

    Attributes:
        containers: the open ones, the innermost last.
        heading: the level of the open heading; 0: none.
        gap: line ends before the next block.
        count: the number of blocks written.
    """

    containers: list[Container] = attrs.field(factory=list[Container], init=False)
    heading: int = attrs.field(default=0, init=False)
    gap: int = attrs.field(default=0, init=False)
    count: int = attrs.field(default=0, init=False)
    _blocks: list[str] = attrs.field(factory=list[str], init=False)
    _line: list[str] = attrs.field(factory=list[str], init=False)
    _marks: list[Mark] = attrs.field(factory=list[Mark], init=False)

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(self._blocks)

    # -- the line -------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Append to the line; line ends in *text* are kept."""
        self._line.append(text)

    def open_mark(self, name: str, before: str, after: str) -> None:
        """Begin emphasis, code or a link; nested marks of the same kind count once, since `****x****` is not bold."""
        if not any(mark.before == before for mark in self._marks):
            self._marks.append(Mark(name, len(self._line), before, after))

    def close_mark(self, name: str) -> None:
        """End the mark of that name, if one is open."""
        mark_ = next((mark for mark in self._marks if mark.name == name), None)
        if mark_ is not None:
            self._write_mark(mark_)
            # Marks opened inside it and still open have lost their place.
            self._marks = [mark for mark in self._marks if mark is not mark_ and mark.begin <= mark_.begin]

    def _write_mark(self, mark: Mark) -> bool:
        """Write a mark around its words; return whether it has any."""
        inner = "".join(self._line[mark.begin :])
        words = inner.strip()
        # Empty emphasis would be visible: `****`.
        if not words:
            return False
        # A code span that contains a backtick needs a longer fence.
        before, after = ("`` ", " ``") if mark.before == "`" in words else (mark.before, mark.after)
        # Markdown requires the signs to touch the words: blanks stay outside of them.
        head, _, tail = inner.partition(words)
        self._line[mark.begin :] = [head + before + words + after + tail]
        return True

    def end_line(self, gap: int = 2) -> None:
        """Write the line as a block unless it is blank, with at least *gap* line ends before the next block."""
        unused = [mark for mark in reversed(self._marks) if not self._write_mark(mark)]
        text = _AROUND_BREAKS.sub("\n", _DOUBLED.sub(" ", "".join(self._line))).strip()
        self._line.clear()
        if text and self.heading:
            # A Markdown heading is one line.
            text = "#" * self.heading + " " + text.replace("\n", " ")
        if text:
            self.write(text)
        # Emphasis continues in the next block; a link is written once.
        going_on = [mark for mark in self._marks if mark in unused or mark.before not in {"[", "`"}]
        self._marks = [attrs.evolve(mark, begin=0) for mark in going_on]
        self.gap = max(self.gap, gap)

    # -- blocks ---------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Write a block, of one line or several."""
        innermost = self.containers[-1] if self.containers else None
        if innermost is not None and not innermost.has_content and innermost.gap is not None:
            self.gap = innermost.gap
        first = rest = between = ""
        for container in self.containers:
            between += container.rest if container.has_content else ""
            first += container.rest if container.has_content else container.first
            # Each container has its prefix (bullet, number) on its first line only.
            rest += container.rest
            container.has_content = True
        if self._blocks:
            # With a gap of 1, list items stay together; an empty line would make it a loose list.
            self._blocks.append("\n" if self.gap < 2 else f"\n{between.rstrip()}\n")
        begin, *others = text.split("\n")
        self._blocks.append("\n".join([first + begin, *((rest + line).rstrip() for line in others)]))
        self.count += 1
        self.gap = 0

    def open(self, container: Container) -> None:
        """Open a list, an item or a quotation; beyond `MAX_DEPTH`, its content is written into the one around it."""
        if len(self.containers) < MAX_DEPTH:
            self.containers.append(container)

    def close(self, name: str, *, within: tuple[str, ...] = ()) -> bool:
        """Close the innermost container of that name and everything in it; return whether there was one.

        The search ends at the innermost container named in *within*: an item must not close an item of an outer list.
        """
        for index in range(len(self.containers) - 1, -1, -1):
            if self.containers[index].name == name:
                del self.containers[index:]
                return True
            if self.containers[index].name in within:
                break
        return False

    def innermost(self, *names: str) -> Container | None:
        """Return the innermost open container of these names."""
        return next((container for container in reversed(self.containers) if container.name in names), None)

"""Text as rows of cells: where each row begins, and where the cursor is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from engine.cli.chat.editor.graphemes import cells, clusters, visible_cluster


@attrs.frozen
class TextRow:
    """A row.

    Attributes:
        start: the position in the text where it begins.
        end: where it ends, without a line break.
        shown: what is drawn.
        marks: for each cluster in it, its position and the column where it begins; the last one is the row's end.
    """

    start: int
    end: int
    shown: str
    marks: tuple[tuple[int, int], ...]

    def column_of(self, position: int) -> int:
        """Return the column of the cluster at *position*."""
        return next(column for at, column in reversed(self.marks) if at <= position)

    def position_at(self, column: int) -> int:
        """Return the position of the cluster that covers *column*, or of the row's end."""
        return next(at for at, first in reversed(self.marks) if first <= column)


def wrap_text(text: str, width: int, labels: Mapping[str, str]) -> list[TextRow]:
    """Return the rows of *text*, each at most *width* cells; *labels* are drawn for these characters."""
    rows: list[TextRow] = []
    start = 0
    for line in text.split("\n"):
        rows.extend(_wrap_line(line, start, max(2, width), labels))
        start += len(line) + 1
    return rows


def row_of(rows: list[TextRow], position: int) -> int:
    """Return the index of the row where a cursor at *position* stands: the later one, where a row was wrapped."""
    return next(index for index in range(len(rows) - 1, -1, -1) if rows[index].start <= position)


def _wrap_line(line: str, start: int, width: int, labels: Mapping[str, str]) -> Iterator[TextRow]:
    position = first = start
    column = 0
    shown: list[str] = []
    marks: list[tuple[int, int]] = []
    for cluster in clusters(line):
        drawn = labels.get(cluster) or visible_cluster(cluster)
        size = cells(drawn)
        if column and column + size > width:
            yield TextRow(first, position, "".join(shown), (*marks, (position, column)))
            first, column, shown, marks = position, 0, [], []
        marks.append((position, column))
        shown.append(drawn)
        column += size
        position += len(cluster)
    yield TextRow(first, position, "".join(shown), (*marks, (position, column)))
    if column >= width:
        # The cursor behind a full row stands in the next one.
        yield TextRow(position, position, "", ((position, 0),))

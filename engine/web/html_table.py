"""A table of a page: a Markdown grid, or, if it is only used for layout, its cells one after the other."""

from __future__ import annotations

import attrs

from engine.web.html_flow import Flow, squeezed


@attrs.define(eq=False)
class Table:
    """An open table.

    Attributes:
        outer: the flow around it.
        rows: its cells, each a flow of its own.
        has_table: whether it contains another table.
    """

    outer: Flow
    rows: list[list[Flow]] = attrs.field(factory=list[list[Flow]], init=False)
    has_table: bool = attrs.field(default=False, init=False)

    def add_row(self) -> None:
        """Begin a row, unless the current one is still empty."""
        if not self.rows or self.rows[-1]:
            self.rows.append([])

    def add_cell(self, cell: Flow) -> None:
        """Put a cell at the end of the last row."""
        if not self.rows:
            self.rows.append([])
        self.rows[-1].append(cell)

    def holds(self, flow: Flow) -> bool:
        """Return whether *flow* is the last cell."""
        return bool(self.rows) and bool(self.rows[-1]) and self.rows[-1][-1] is flow

    def blocks(self) -> list[str]:
        """Return its Markdown, block by block."""
        rows = [row for row in self.rows if any(cell.count for cell in row)]
        if not self._is_grid(rows):
            return [cell.text for row in rows for cell in row if cell.count]
        head: list[str] = []
        while len(rows[0]) == 1:  # a caption above wider rows
            head.append(rows.pop(0)[0].text)
        lines = ["| " + " | ".join(squeezed(cell.text).replace("|", "\\|") for cell in row) + " |" for row in rows]
        # Markdown tables need a header row, so the first row becomes one.
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        return [*head, "\n".join(lines)]

    def _is_grid(self, rows: list[list[Flow]]) -> bool:
        if self.has_table or max((len(row) for row in rows), default=0) < 2:
            return False
        # A table with code, or with several blocks in one of two columns, is used for layout; a grid has only lines of
        # text.
        return not any("```" in cell.text or (cell.count > 1 and len(row) < 3) for row in rows for cell in row)

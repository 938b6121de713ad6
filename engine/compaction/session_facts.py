"""What the session itself knows of its work, as a summary carries it: the list of what is to be done, digests of files."""

from __future__ import annotations

from engine.core.events import SharedContext
from engine.files.read_state import read_files
from engine.tools.builtin.todo import todos_of


def open_todos(shared: SharedContext) -> tuple[str, ...]:
    """Return what of the list is still open, a line each."""
    return tuple(
        f"{todo.id}. [{todo.status}] {' '.join(todo.content.split())}"
        for todo in todos_of(shared).todos
        if todo.status in {"pending", "in_progress"}
    )


def digests_in(shared: SharedContext) -> dict[str, str]:
    """Return the digests of the files that the session knows, by their real paths."""
    return dict(read_files(shared))

"""Facts that the session records itself: open items of the todo list, digests of files."""

from __future__ import annotations

from engine.core.events import SharedContext
from engine.files.read_state import read_files
from engine.tools.builtin.todo import todos_of


def open_todos(shared: SharedContext) -> tuple[str, ...]:
    """Return the open items of the list, one line each."""
    return tuple(
        f"{todo.id}. [{todo.status}] {' '.join(todo.content.split())}"
        for todo in todos_of(shared).todos
        if todo.status in {"pending", "in_progress"}
    )


def file_digests(shared: SharedContext) -> dict[str, str]:
    """Return the recorded digests of files, by their real paths."""
    return dict(read_files(shared))

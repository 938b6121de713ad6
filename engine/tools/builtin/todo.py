"""`todo_write` and `todo_read`: the to-do list, kept in the session's shared context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Final, Literal, cast

import attrs

from engine.core.errors import ToolError
from engine.core.events import SharedContext
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

# The list's name in the shared context: `{"last": 7, "todos": [{"id": "7", "content": "…", "status": "pending"}]}`.
VALUE: Final = "todos"
# The list is a part of every result of the tool.
MAX_TODOS: Final = 100
MAX_CHARS: Final = 500

Status = Literal["pending", "in_progress", "completed", "cancelled"]
_OPEN: Final = frozenset({"pending", "in_progress"})


def _says_something(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not value.strip() or len(value) > MAX_CHARS:
        raise ValueError(f"{field.name!r} must say something, in at most {MAX_CHARS} characters")


def _has_one_in_progress(_: object, field: attrs.Attribute[list[Todo]], value: list[Todo]) -> None:
    if len(value) > MAX_TODOS:
        raise ValueError(f"{field.name!r} may hold at most {MAX_TODOS} todos, not {len(value):,}")
    count = sum(todo.status == "in_progress" for todo in value)
    if count > 1:
        raise ValueError(f"at most one todo may be in_progress, not {count}")
    ids = [todo.id for todo in value if todo.id is not None]
    if len(set(ids)) < len(ids):
        raise ValueError("two todos can't have the same id")


@attrs.frozen(eq=False, repr=False)
class Todo(Value):
    """An item of the list."""

    content: Annotated[str, doc("what is to be done, in a few words")] = attrs.field(validator=_says_something)
    status: Annotated[Status, doc("how far it is")] = "pending"
    id: Annotated[str | None, doc("the id that the list shows; leave it out for a new todo")] = None


@attrs.frozen(eq=False, repr=False)
class TodoWrite(Value):
    """Arguments of `todo_write`."""

    todos: Annotated[list[Todo], doc("the whole list, in the order in which it is to be done")] = attrs.field(
        validator=_has_one_in_progress
    )


@attrs.frozen(eq=False, repr=False)
class TodoRead(Value):
    """Arguments of `todo_read`: none."""


@attrs.frozen(eq=False, repr=False)
class Todos(Value):
    """The stored list.

    Attributes:
        last: the highest id ever used: none is used twice.
        todos: each with its id.
    """

    last: int = 0
    todos: tuple[Todo, ...] = ()

    @property
    def text(self) -> str:
        """The list for the model."""
        if not self.todos:
            return "The list is empty."
        lines = [f"{todo.id}. [{todo.status}] {' '.join(todo.content.split())}" for todo in self.todos]
        return "\n".join([f"{self.summary}:", *lines])

    @property
    def summary(self) -> str:
        """The progress in a few words."""
        still_open = sum(todo.status in _OPEN for todo in self.todos)
        return f"{counted(len(self.todos), 'todo')}, {still_open} of them open" if self.todos else "no todos"


async def todo_write(args: TodoWrite, ctx: ToolContext) -> ToolOutput:
    """Replace the list. Not a checkpoint."""
    todos = _numbered(args.todos, todos_of(ctx.shared))
    text = json.dumps({"last": todos.last, "todos": [attrs.asdict(todo) for todo in todos.todos]}, ensure_ascii=False)
    return ToolOutput(
        text=todos.text, modify=lambda shared: shared.with_value(VALUE, text), metadata=metadata(todos.summary)
    )


async def todo_read(_: TodoRead, ctx: ToolContext) -> ToolOutput:
    """Return the list. Not a checkpoint."""
    todos = todos_of(ctx.shared)
    return ToolOutput(text=todos.text, metadata=metadata(todos.summary))


# They change only the session's own list, so they need no permission. Writing is not parallel: the next list refers to
# the ids of the one before.
TODO_WRITE = tool(
    name="todo_write",
    description=description("todo_write", max_todos=MAX_TODOS, max_chars=MAX_CHARS),
    read_only=True,
    safe=False,
    need=lambda _: Need(permission="todo"),
    permission="todo",
)(todo_write)
TODO_READ = tool(
    name="todo_read",
    description=description("todo_read"),
    read_only=True,
    need=lambda _: Need(permission="todo"),
    permission="todo",
)(todo_read)


def todos_of(shared: SharedContext) -> Todos:
    """Return a session's list; an empty one if the stored value is malformed."""
    try:
        document: object = json.loads(shared.get(VALUE) or "{}")
        kept = cast("dict[str, object]", document)
        items = cast("list[dict[str, str]]", kept.get("todos", []))
        todos = tuple(
            Todo(content=item["content"], status=cast("Status", item["status"]), id=item["id"]) for item in items
        )
        return Todos(last=int(cast("int", kept.get("last", 0))), todos=todos)
    except (ValueError, TypeError, AttributeError, KeyError):  # a host may have stored anything under this name
        return Todos()


def _check_ids(written: Sequence[Todo], before: Todos) -> None:
    """Raise `ToolError` for ids that are not in the list."""
    old_ids = [str(todo.id) for todo in before.todos]
    unknown = [todo.id for todo in written if todo.id is not None and todo.id not in old_ids]
    if unknown:
        raise ToolError(
            f"There is no todo with the id {', '.join(unknown)[:200]}; the list has: {', '.join(old_ids) or 'none yet'}. "
            "Leave the id out for a new todo. Nothing was changed."
        )


def _numbered(written: Sequence[Todo], before: Todos) -> Todos:
    """Return the items with ids: their own, that of an item with the same text before, or new ones."""
    _check_ids(written, before)
    used_ids = {todo.id for todo in written}
    free = {todo.content: todo.id for todo in reversed(before.todos) if todo.id not in used_ids}
    last = before.last
    numbered: list[Todo] = []
    for todo in written:
        own = todo.id or free.pop(todo.content, None)
        if own is None:
            last += 1
            own = str(last)
        numbered.append(attrs.evolve(todo, id=own))
    return Todos(last=last, todos=tuple(numbered))

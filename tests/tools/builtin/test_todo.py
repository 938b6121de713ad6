"""`todo_write` and `todo_read`: a list in the shared context, with ids that stay."""

from __future__ import annotations

import json
from typing import cast

import attrs
import pytest
from trio.testing import MockClock

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.core.events import SharedContext
from engine.testing.script import call, done, text
from engine.tools.builtin.todo import (
    MAX_CHARS,
    MAX_TODOS,
    TODO_READ,
    TODO_WRITE,
    Todo,
    TodoRead,
    TodoWrite,
    todo_read,
    todo_write,
    todos_of,
)
from engine.tools.call_values import Need
from engine.tools.registry import Registry
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_of
from tests.support.world import world


async def wrote(ctx: ToolContext, *todos: Todo) -> tuple[ToolContext, str]:
    """Write a list; return the context after it, and what was said."""
    output = await todo_write(TodoWrite(list(todos)), ctx)
    assert output.modify is not None
    after = attrs.evolve(ctx, shared=output.modify(ctx.shared))
    assert (await todo_read(TodoRead(), after)).text == output.text
    return after, output.text


async def test_a_list_and_its_ids(ctx: ToolContext) -> None:
    ctx, said = await wrote(ctx, Todo("look"), Todo("change  \n it", "in_progress"))
    assert said == "2 todos, 2 of them open:\n1. [pending] look\n2. [in_progress] change it"
    ctx, said = await wrote(ctx, Todo("change it", "completed", "2"), Todo("new"), Todo("look", "cancelled"))
    assert said == "3 todos, 1 of them open:\n2. [completed] change it\n3. [pending] new\n1. [cancelled] look"
    ctx, said = await wrote(ctx)
    assert said == "The list is empty."
    _, said = await wrote(ctx, Todo("again"))
    assert said == "1 todo, 1 of them open:\n4. [pending] again", "no id is given twice"


async def test_duplicate_todos_are_merged(ctx: ToolContext) -> None:
    ctx, _ = await wrote(ctx, Todo("test"), Todo("test"))
    ctx, said = await wrote(ctx, Todo("test", "completed"), Todo("test"), Todo("test"))
    assert [line.partition(".")[0] for line in said.split("\n")[1:]] == ["1", "3", "4"]


async def test_todos_are_kept(ctx: ToolContext) -> None:
    ctx, _ = await wrote(ctx, Todo("é", "completed"))
    kept = {"last": 1, "todos": [{"content": "é", "status": "completed", "id": "1"}]}
    assert json.loads(ctx.shared.get("todos")) == kept


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "[]",
        "null",
        "5",
        "{",
        '{"todos": 5}',
        '{"todos": [5]}',
        '{"todos": [{}]}',
        '{"last": "x", "todos": []}',
        '{"todos": [{"content": 5, "status": "pending", "id": "1"}]}',
    ],
)
async def test_invalid_list_is_empty(ctx: ToolContext, kept: str) -> None:
    shared = SharedContext(cwd="/", values=(("todos", kept),))
    assert todos_of(shared).text == "The list is empty."
    _, said = await wrote(attrs.evolve(ctx, shared=shared), Todo("x"))
    assert said.endswith("1. [pending] x")


async def test_an_id_that_is_not_there(ctx: ToolContext) -> None:
    ctx, _ = await wrote(ctx, Todo("x"))
    with pytest.raises(ToolError, match=r"no todo with the id 9, a; the list has: 1\. .*Nothing was changed"):
        await todo_write(TodoWrite([Todo("x", id="9"), Todo("x", id="1"), Todo("y", id="a")]), ctx)


@pytest.mark.parametrize(
    ("todos", "reason"),
    [
        (None, "todos"),
        ("x", "todos"),
        ([5], "todos"),
        ([{}], "content"),
        ([{"content": ""}], "'content' must say something"),
        ([{"content": " \n"}], "'content' must say something"),
        ([{"content": "x" * (MAX_CHARS + 1)}], f"at most {MAX_CHARS} characters"),
        ([{"content": "x", "status": "done"}], "status"),
        ([{"content": "x", "id": 5}], "id"),
        ([{"content": "x", "priority": "high"}], "priority"),
        ([{"content": "x"}] * (MAX_TODOS + 1), f"at most {MAX_TODOS} todos"),
        ([{"content": "x", "status": "in_progress"}] * 2, "at most one todo may be in_progress, not 2"),
        ([{"content": "x", "id": "1"}] * 2, "the same id"),
    ],
)
def test_arguments_that_do_not_fit(todos: object, reason: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        parse(TodoWrite, json.dumps({"todos": todos}))
    assert reason in str(raised.value)


def test_the_largest_list_fits() -> None:
    todos = [{"content": "x" * MAX_CHARS, "status": "cancelled"}] * MAX_TODOS
    assert len(parse(TodoWrite, json.dumps({"todos": todos})).todos) == MAX_TODOS


def test_declarations() -> None:
    assert need_of(TODO_WRITE, TodoWrite([])) == need_of(TODO_READ, TodoRead()) == Need(permission="todo")
    assert not TODO_WRITE.safe(TodoWrite([]))
    assert TODO_READ.safe(TodoRead())
    assert Registry.of([TODO_WRITE, TODO_READ]).names == ("todo_read", "todo_write")


async def test_the_list_outlives_its_turn(autojump_clock: MockClock) -> None:
    writing = [
        *call("todo_write", {"todos": [{"content": "a"}, {"content": "b", "status": "in_progress"}]}, id="1"),
        *call("todo_write", {"todos": [{"content": "b", "status": "completed"}]}, id="2"),
        *done("calls"),
    ]
    reading = [*call("todo_read", {}, id="3"), *done("calls")]
    last = [*text("Done."), *done()]
    async with world(writing, last, reading, last, tools=[TODO_WRITE, TODO_READ]) as w:
        first = await w.play()
        second = await w.play("and now?")
        assert [s.text for s in first.settlements] == [
            "2 todos, 2 of them open:\n1. [pending] a\n2. [in_progress] b",
            "1 todo, 0 of them open:\n2. [completed] b",
        ], "the second call sees what the first one wrote"
        assert [s.text for s in second.settlements] == ["1 todo, 0 of them open:\n2. [completed] b"]
        kept = cast("dict[str, object]", json.loads(w.session.state.context.get("todos")))
    assert kept["last"] == 2

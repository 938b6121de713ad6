"""All built-in tools, imported at the first call."""

from __future__ import annotations

from functools import lru_cache

from engine.tools.spec import Tool


@lru_cache(maxsize=1)
def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools: `open_engine(model=…, tools=builtin_tools())`."""
    from engine.tools.builtin.apply_patch import APPLY_PATCH
    from engine.tools.builtin.bash import BASH
    from engine.tools.builtin.bash_output import BASH_OUTPUT
    from engine.tools.builtin.bash_stop import BASH_STOP
    from engine.tools.builtin.edit import EDIT
    from engine.tools.builtin.glob import GLOB
    from engine.tools.builtin.grep import GREP
    from engine.tools.builtin.list import LIST
    from engine.tools.builtin.multi_edit import MULTI_EDIT
    from engine.tools.builtin.plan_exit import PLAN_EXIT
    from engine.tools.builtin.question import QUESTION
    from engine.tools.builtin.read import READ
    from engine.tools.builtin.todo import TODO_READ, TODO_WRITE
    from engine.tools.builtin.write import WRITE

    return (
        APPLY_PATCH,
        BASH,
        BASH_OUTPUT,
        BASH_STOP,
        EDIT,
        GLOB,
        GREP,
        LIST,
        MULTI_EDIT,
        PLAN_EXIT,
        QUESTION,
        READ,
        TODO_READ,
        TODO_WRITE,
        WRITE,
    )

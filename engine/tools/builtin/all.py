"""All built-in tools, imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from engine.tools.spec import Tool


def builtin_tools(environment: Mapping[str, str] | None = None) -> tuple[Tool, ...]:
    """Return the built-in tools that need no configuration: `open_engine(model=…, tools=builtin_tools())`.

    `web_search` is among them if *environment*, by default that of the process, names a
    service (`web_search_hosts.provider_from`; raises `ConfigError` as that does). For `skill` and
    `task` see `skill_tool` and `task_tool`.
    """
    from engine.tools.builtin.web_search import configured_web_search

    search = configured_web_search(environment)
    return _fixed() if search is None else tuple(sorted((*_fixed(), search), key=lambda tool: tool.name))


@lru_cache(maxsize=1)
def _fixed() -> tuple[Tool, ...]:
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
    from engine.tools.builtin.web_fetch import web_fetch_tool
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
        web_fetch_tool(),
        WRITE,
    )

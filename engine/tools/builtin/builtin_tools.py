"""All built-in tools, imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.config.sandbox_config import Sandbox
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.permission.programs.program_registry import ProgramRegistry


def builtin_tools(
    environment: Mapping[str, str] | None = None,
    *,
    sandbox: Sandbox | None = None,
    programs: ProgramRegistry | None = None,
) -> tuple[Tool, ...]:
    """Return the built-in tools that need no configuration: `open_engine(model=…, tools=builtin_tools())`.

    `web_search` is among them if *environment*, by default that of the process, names a
    service (`web_search_hosts.provider_from`; raises `ConfigError` as that does). For `skill` and
    `task` see `skill_tool` and `task_tool`. *sandbox* is how the commands of `bash` are confined; None: those that run
    without a question, by what works here.
    *programs* is the user's knowledge of programs, by default the built-in one.
    """
    from engine.tools.builtin.web_search import configured_web_search

    search = configured_web_search(environment)
    tools = {tool.name: tool for tool in (*_fixed(), *(() if search is None else (search,)))}
    if sandbox is not None or programs is not None:
        tools["bash"] = _bash(sandbox or Sandbox(backend="auto"), programs)
    return tuple(tool for _, tool in sorted(tools.items()))


@lru_cache(maxsize=1)
def _fixed() -> tuple[Tool, ...]:
    from engine.tools.builtin.apply_patch import APPLY_PATCH
    from engine.tools.builtin.bash_output import BASH_OUTPUT
    from engine.tools.builtin.bash_stop import BASH_STOP
    from engine.tools.builtin.context import CONTEXT
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
        _bash(Sandbox(backend="auto"), None),
        BASH_OUTPUT,
        BASH_STOP,
        CONTEXT,
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


def _bash(sandbox: Sandbox, programs: ProgramRegistry | None) -> Tool:
    if sandbox.backend == "off":
        from engine.tools.builtin.bash import bash_tool

        return bash_tool(programs)
    from engine.tools.builtin.bash_sandboxed import sandboxed_bash_tool

    return sandboxed_bash_tool(sandbox, programs)

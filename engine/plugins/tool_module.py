"""The code of a tool file, run as a module: what it defines with `engine.tool` are its tools."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast

from engine.core.errors import ConfigError
from engine.plugins.tool_files import digest_of
from engine.tools.tool import Tool


def run_tool_file(path: str, name: str, code: bytes) -> tuple[Tool, ...]:
    """Run a tool file, and return its tools. It blocks, and raises what the file does; `ConfigError` if it has no tools."""
    module = ModuleType(f"engine_tool_file_{name.replace('-', '_')}_{digest_of(code)[:8]}")
    module.__file__ = path
    # attrs and pickle look a class's module up there.
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, path, "exec", dont_inherit=True), vars(module))  # noqa: S102  # the user's own code, or approved
        own = [value for value in vars(module).values() if isinstance(value, Tool) and _is_of(value, module)]
        if not own:
            raise ConfigError("it has no tools: define an async function with @engine.tool")
        if len({tool.name for tool in own}) < len(own):
            raise ConfigError("it has two tools of the same name")
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return tuple(own)


def _is_of(tool: Tool, module: ModuleType) -> bool:
    # It may import others.
    return cast("object", getattr(tool.body, "__module__", None)) == module.__name__

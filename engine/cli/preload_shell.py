"""Loads what the first command of a session needs: importing it takes longer than to start most commands."""

from __future__ import annotations

from importlib import import_module
from typing import Final

_MODULES: Final = (
    "engine.permission.paths.path_access",
    "engine.process.run_tree",
    "engine.sandbox.backends",
    "engine.sandbox.bwrap",
    "engine.sandbox.git_settings",
    "engine.sandbox.landlock",
    "engine.sandbox.temporary",
    "engine.sandbox.usual_limits",
    "engine.tools.builtin.bash_run",
    "engine.tools.output.spill",
)


def preload_shell() -> None:
    """Import the scanner of commands, the sandbox and what starts processes, and scan a command. It blocks."""
    for name in _MODULES:
        import_module(name)
    from engine.tools.builtin.bash_permissions import only_reads

    only_reads("true")

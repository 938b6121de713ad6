"""Loads what the first command of a session needs: importing it takes longer than to start most commands."""

from __future__ import annotations


def preload_shell() -> None:
    """Import the scanner of commands, the sandbox and what starts processes, and scan a command. It blocks."""
    import engine.permission.paths.path_access
    import engine.process.run_tree
    import engine.sandbox.backends
    import engine.sandbox.bwrap
    import engine.sandbox.git_settings
    import engine.sandbox.landlock
    import engine.sandbox.temporary
    import engine.sandbox.usual_limits
    import engine.tools.builtin.bash_run
    import engine.tools.output.spill  # noqa: F401
    from engine.tools.builtin.bash_permissions import only_reads

    only_reads("true")

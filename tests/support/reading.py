"""A call of a session that has read some files."""

from pathlib import Path

import attrs

from engine.files.read_state import digest, note_read
from engine.tools.tool_context import ToolContext


def having_read(ctx: ToolContext, *names: str | Path) -> ToolContext:
    """Return the call as it would be if these files had been read as they are now."""
    shared = ctx.shared
    for name in names:
        path = Path(ctx.cwd, name)
        shared = note_read(path, digest(path.read_bytes()))(shared)
    return attrs.evolve(ctx, shared=shared)

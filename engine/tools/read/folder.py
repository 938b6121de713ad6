"""Folders for `read`: their entries."""

from __future__ import annotations

import heapq
import os
from typing import Final

from engine.files.text_files import visible_name
from engine.tools.call_values import ToolOutput
from engine.tools.read.line_window import MAX_BYTES
from engine.tools.tool_text import counted, metadata

MAX_ENTRIES: Final = 1_000


def folder_output(shown: str, folder: int) -> ToolOutput:
    """List a folder by its descriptor. It blocks. Raises `OSError`."""
    count = 0
    with os.scandir(folder) as entries:
        names: list[str] = []
        for entry in entries:
            count += 1
            names.append(_name(folder, entry))
            if len(names) > 2 * MAX_ENTRIES:  # keeps the memory bounded for a folder of a million files
                names = heapq.nsmallest(MAX_ENTRIES, names)
    if not names:
        return ToolOutput(text=f"({shown} is an empty folder)", metadata=metadata("empty"), is_cut=True)
    # The rest is for the note on missing entries.
    lines, room = [f"({shown} is a folder)"], MAX_BYTES - 200
    for name in heapq.nsmallest(MAX_ENTRIES, names):
        room -= len(name.encode()) + 1
        if room < 0:
            break
        lines.append(name)
    if count > len(lines) - 1:
        lines.append(f"({count - len(lines) + 1:,} more entries are not shown)")
    return ToolOutput(text="\n".join(lines), metadata=metadata(counted(count, "entry", "entries")), is_cut=True)


def _name(folder: int, entry: os.DirEntry[str]) -> str:
    name = visible_name(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {visible_name(os.readlink(entry.name, dir_fd=folder))}"
        return f"{name}/" if entry.is_dir() else name
    except OSError:  # it was removed in the meantime
        return name

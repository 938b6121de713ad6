"""What `list` does: show a folder as a tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import attrs

from engine.files.text_files import renamed_errors, visible_name
from engine.tools.call_values import ToolOutput
from engine.tools.search.search_arguments import MAX_ENTRIES
from engine.tools.search.search_paths import SearchPlace, approved_place, folder_at
from engine.tools.search.walk import Folder, FolderEntry, Listing, start
from engine.tools.tool_text import counted, metadata

# How many names are read: of one folder, and in total.
MAX_SEEN_IN_ONE: Final = 50_000
MAX_SEEN: Final = 200_000

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SPECIAL: Final = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}


@attrs.define(eq=False)
class _Node:
    """A line of the tree, and what is shown below it."""

    text: str
    below: list[_Node] = attrs.field(factory=list["_Node"])

    def lines(self, indent: str = "") -> Iterator[str]:
        """Yield what is below, line by line."""
        for node in self.below:
            yield indent + node.text
            yield from node.lines(indent + "  ")


@attrs.define(eq=False)
class FolderTree:
    """A folder, level by level, as long as there is room: no large folder hides its neighbours."""

    shown: str
    depth: int
    include_ignored: bool
    halted: Callable[[], bool]
    room: int = MAX_ENTRIES
    seen: int = 0
    ignored: int = 0

    def output(self, cwd: str, approved: Collection[str] | None) -> ToolOutput:
        """Return what the model reads. Raises `ToolError` if the folder can't be read."""
        place = approved_place(folder_at(cwd, self.shown), approved)
        root = start(os.fsencode(place.folder), include_ignored=self.include_ignored)
        with renamed_errors(self.shown, place.folder):
            listing = self._read(root)
        top = _Node("")
        left = self._fill(top, listing)
        return self._describe(place, top, left)

    def _fill(self, top: _Node, listing: Listing) -> int:
        """Put the tree below *top*; return how many entries of the folder itself found no room."""
        left = max(0, len(listing.entries) - self.room)
        level = self._expanded(top, listing)
        for _ in range(1, self.depth):
            level = [
                deeper
                for node, folder in level
                for deeper in (self._expanded(node, folder) if self._fits(folder) else [(node, folder)])
            ]
        for node, folder in level:
            if not node.below:
                node.text += f"  ({_count(folder)})"
        return left

    def _fits(self, listing: Listing) -> bool:
        return bool(listing.entries) and len(listing.entries) <= self.room

    def _expanded(self, node: _Node, listing: Listing) -> list[tuple[_Node, Listing]]:
        """Put what is in a folder below its line; return the lines of the folders in it, and what is in these."""
        folders: list[tuple[_Node, Listing]] = []
        for entry in listing.entries[: self.room]:
            below = _Node(_line(listing.folder, entry))
            node.below.append(below)
            if entry.kind == "folder" and not self.halted():
                try:
                    inside = self._read(listing.below(entry.name))
                except OSError as error:
                    below.text += f"  ({(error.strerror or 'not readable').lower()})"
                else:
                    folders.append((below, inside))
        self.room -= len(node.below)
        return folders

    def _read(self, folder: Folder) -> Listing:
        # The rest of the total, but enough to tell that the folder is not empty.
        listing = folder.read(min(MAX_SEEN_IN_ONE, max(1, MAX_SEEN - self.seen)))
        self.seen += len(listing.entries) + listing.left_out
        self.ignored += listing.left_out
        return listing

    def _describe(self, place: SearchPlace, top: _Node, left: int) -> ToolOutput:
        lines = list(top.lines())
        ignored = counted(self.ignored, "ignored entry", "ignored entries")
        if not lines:
            text = f"({place.shown} is empty{f', but for {ignored}' if self.ignored else ''})"
            return ToolOutput(text=text, metadata=metadata("empty"))
        if left:
            lines.append(f"({counted(left, 'more entry', 'more entries')} of {place.shown} are not shown)")
        if self.ignored:
            lines.append(f"({ignored} not shown)")
        shown = MAX_ENTRIES - self.room
        return ToolOutput(
            text="\n".join(lines), is_cut=True, metadata=metadata(counted(shown, "entry", "entries"), entries=shown)
        )


def _count(listing: Listing) -> str:
    if not listing.entries and listing.is_whole:
        return "empty"
    count = counted(len(listing.entries), "entry", "entries")
    return count if listing.is_whole else f"more than {count}"


def _line(folder: Folder, entry: FolderEntry) -> str:
    name = visible_name(os.fsdecode(entry.name))
    path = os.path.join(folder.path, entry.name)  # noqa: PTH118 - Path has no bytes
    try:
        if entry.kind == "folder":
            return f"{name}/"
        if entry.kind == "link":
            target = visible_name(os.fsdecode(os.readlink(path)))  # noqa: PTH115 - Path has no bytes
            return f"{name} -> {target}{'' if Path(os.fsdecode(path)).exists() else '  (leads nowhere)'}"
        state = os.lstat(path)
    except OSError:  # it went away in the meantime
        return name
    special = _SPECIAL.get(stat.S_IFMT(state.st_mode))
    return f"{name}  ({special})" if special else f"{name}  {size(state.st_size)}"


def size(count: int) -> str:
    """Return a number of bytes for a reader: `512 B`, `1.5 KiB`."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in _UNITS:
        value /= 1024
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} {_UNITS[-1]}"

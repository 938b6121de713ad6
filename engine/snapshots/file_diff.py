"""Unified diffs of what changed between snapshots, for people."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.snapshot_types import LINK, Change, TreeEntry
from engine.files.diff import changes

_SNIFFED_BYTES = 8_000


def unified_diff(shown: str, change: Change, contents: Mapping[str, bytes]) -> str:
    """Return the diff; empty where one side is no text, or its content is missing."""
    before, after = _text(change.before, contents), _text(change.after, contents)
    if (before is None and change.before is not None) or (after is None and change.after is not None):
        return ""
    # A name of two lines must not look like a line of the file.
    return changes(shown.replace("\n", "\\n"), before, after)


def _text(entry: TreeEntry | None, contents: Mapping[str, bytes]) -> str | None:
    if entry is None or entry.mode == LINK or entry.id not in contents:
        return None
    data = contents[entry.id]
    return None if b"\0" in data[:_SNIFFED_BYTES] else data.decode(errors="replace")

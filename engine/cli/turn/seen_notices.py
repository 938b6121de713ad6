"""Notices that a user has seen in another run: what is said once about a model is not said again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

import attrs

from engine.core import events as ev
from engine.journal.state import Resync
from engine.snapshots.snapshot_dir import write_atomically

# About a model itself, which is the same in every run.
_ONCE: Final = frozenset({"unknown_model"})
_MOST: Final = 500


@attrs.define(eq=False, repr=False)
class SeenNotices:
    """The notices that are shown once, in a file. A file that can't be read or written costs only a repetition."""

    _file: Path

    @classmethod
    def of_user(cls) -> SeenNotices:
        """Return the notices that the user of this process has seen."""
        # Imported here: most runs have no such notice, but each reaches this line.
        from platformdirs import user_state_path

        return cls(user_state_path("engine", appauthor=False) / "seen-notices.json")

    def hides(self, event: ev.Durable | ev.Live | Resync) -> bool:
        """Return whether *event* is a notice that was shown before; note that it is shown now. It may block shortly."""
        if not isinstance(event, ev.Notice) or event.code not in _ONCE:
            return False
        seen = self._read()
        if event.text in seen:
            return True
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps([*seen, event.text][-_MOST:]).encode())
        except OSError:
            pass  # it is shown again next time
        return False

    def _read(self) -> list[str]:
        try:
            texts: object = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return []
        known = cast("list[object]", texts) if isinstance(texts, list) else []
        return [text for text in known if isinstance(text, str)]

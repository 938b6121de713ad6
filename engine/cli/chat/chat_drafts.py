"""Drafts and history of the chat on disk, readable by this user only. Each method blocks."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import attrs

from engine.cli.terminal.standard_streams import print_error

_MAX_DRAFT_BYTES: Final = 32 << 20
_MAX_HISTORY_BYTES: Final = 4 << 20
_MAX_ENTRY_CHARS: Final = 100_000


def default_folder() -> Path:
    """Return the folder of the user's drafts and history."""
    # Imported here: it is not needed before a chat begins.
    from platformdirs import user_state_path

    return user_state_path("engine", appauthor=False) / "chat"


@attrs.frozen(kw_only=True)
class DraftChanges:
    """What a chat has to save.

    Attributes:
        draft: the draft; empty: there is none.
        entries: what was sent since the last time.
        session_id: the session, once it has a turn; empty before.
    """

    draft: str
    entries: tuple[str, ...]
    session_id: str


@attrs.define(eq=False)
class ChatDrafts:
    """The draft of one session, and the history of all.

    A session that has no turn yet is not in the store, and will not be continued; so its draft belongs to the folder.

    Attributes:
        folder: where the files are.
        cwd: the session's working directory.
        session_id: the session, once it has a turn; empty before.
    """

    folder: Path
    cwd: str
    session_id: str = ""
    _has_failed: bool = attrs.field(default=False, init=False)

    def load(self) -> str:
        """Return the draft; empty if there is none."""
        try:
            with self._draft_path.open("rb") as file:
                return file.read(_MAX_DRAFT_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def update(self, changes: DraftChanges) -> None:
        """Save what has changed."""
        for entry in changes.entries:
            self.add_entry(entry)
        if changes.session_id:
            self.move_to(changes.session_id)
        self.save(changes.draft)

    def save(self, text: str) -> None:
        """Replace the draft; an empty one leaves no file."""
        path = self._draft_path
        try:
            if text.strip():
                self._make_folder()
                _write_private(path, text.encode(errors="replace"))
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            self._report(error)

    def move_to(self, session_id: str) -> None:
        """From now on the draft is that of the session, and no longer the folder's."""
        if self.session_id != session_id:
            with suppress(OSError):
                self._draft_path.unlink(missing_ok=True)
            self.session_id = session_id

    def add_entry(self, text: str) -> None:
        """Add what was sent to the history."""
        line = json.dumps({"cwd": self.cwd, "text": text[:_MAX_ENTRY_CHARS]})
        try:
            self._make_folder()
            descriptor = os.open(self._history_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                # One write: another chat may add an entry at the same time.
                file.write(f"{line}\n".encode())
        except OSError as error:
            self._report(error)

    def entries(self) -> tuple[list[str], list[str]]:
        """Return the entries of this folder, and those of all folders, the oldest first."""
        try:
            with self._history_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MAX_HISTORY_BYTES))
                lines = file.read(_MAX_HISTORY_BYTES).splitlines()[1 if size > _MAX_HISTORY_BYTES else 0 :]
        except OSError:
            return [], []
        if size > 2 * _MAX_HISTORY_BYTES:
            with suppress(OSError):
                _write_private(self._history_path, b"".join(line + b"\n" for line in lines))
        parsed = [entry for entry in map(_parse_entry, lines) if entry is not None]
        return [text for cwd, text in parsed if cwd == self.cwd], [text for _, text in parsed]

    @property
    def _draft_path(self) -> Path:
        name = self.session_id or f"folder-{hashlib.sha256(self.cwd.encode(errors='replace')).hexdigest()[:24]}"
        return self.folder / f"{name}.draft"

    @property
    def _history_path(self) -> Path:
        return self.folder / "history.jsonl"

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _report(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            print_error(
                f"engine chat: drafts and history can't be saved in {self.folder}: {error.strerror}\r\n"
                "Next: free space there, or make the directory writable\r"
            )


def _parse_entry(line: bytes) -> tuple[str, str] | None:
    try:
        entry = cast("object", json.loads(line))
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, object]", entry)
    cwd, text = fields.get("cwd"), fields.get("text")
    return (cwd, text) if isinstance(cwd, str) and isinstance(text, str) else None


def _write_private(path: Path, data: bytes) -> None:
    """Write a file atomically, readable by this user only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

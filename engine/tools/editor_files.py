"""Texts that the user's editor holds and the disk does not: they are what the tools for files read and change.

Only an editor can say what is in it, so it is asked for each text that a tool reads from the disk. What it holds counts
only if it differs: a file that it holds as it is on disk is read and replaced there, by one rename, and the editor loads
it again. Rights are checked first, by the tool; the editor gets paths within the session's folder as it knows them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.files.real_path import followed
from engine.files.text_files import TextFile, decoded, read_data, real_file

# Escaped as JSON, a larger one may not fit into a message.
MOST_BYTES: Final = 4_000_000


class EditorFiles(Protocol):
    """The editor that a session works for. Neither method raises, whatever the editor does."""

    async def read(self, path: str) -> str | None:
        """Return the editor's text of the file at an absolute path; None: it has no answer. A checkpoint."""
        ...

    async def write(self, path: str, text: str) -> str:
        """Let the editor replace the text of a file and save it; return why it has not, empty if it has. A checkpoint.

        If cancelled, it may have done so.
        """
        ...


@attrs.frozen(kw_only=True)
class SavedText:
    """A text as it is on disk.

    Attributes:
        path: where the file really is.
        name: its path as the editor knows it.
        data: its bytes.
        text: what they say.
    """

    path: str
    name: str
    data: bytes
    text: TextFile

    @property
    def has_returns(self) -> bool:
        """Whether all its lines end with a carriage return and a line feed."""
        pairs = self.text.text.count("\r\n")
        return 0 < pairs == self.text.text.count("\n")

    def written(self, text: str) -> bytes:
        """Return what a file like this holds once the editor has saved *text*. Raises `ToolError` for what no file can hold."""
        if self.has_returns:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return attrs.evolve(self.text, text=text.removeprefix("\ufeff")).data


@attrs.frozen(kw_only=True)
class UnsavedText:
    """What the editor holds of a file, which is something else than what is on disk.

    Attributes:
        saved: what is on disk.
        shown: the text as the editor has sent it.
        data: the bytes that the file would have if it were saved.
    """

    saved: SavedText
    shown: str
    data: bytes

    def sent(self, data: bytes) -> str:
        """Return new bytes of the file as the text that the editor is sent: with its own line ends."""
        text = decoded(self.saved.name, data).text
        return text if "\r\n" in self.shown else text.replace("\r\n", "\n")


async def unsaved_texts(
    editor: EditorFiles, cwd: str, names: Sequence[str], approved: Collection[str] | None
) -> Mapping[str, UnsavedText]:
    """Return what the editor holds unsaved of the files that a call names, by their real paths. A checkpoint.

    If cancelled, nothing has happened. Files that can't be read are left out: the tool itself reports them.
    """
    texts: dict[str, UnsavedText] = {}
    for name in names:
        saved = await to_thread(_saved_text, cwd, name, approved)
        if saved is None:
            continue
        shown = await editor.read(saved.name)
        if shown is not None and (unsaved := _unsaved(saved, shown)) is not None:
            texts[saved.path] = unsaved
    return texts


def _saved_text(cwd: str, name: str, approved: Collection[str] | None) -> SavedText | None:
    """Return a file as it is on disk, if an editor may hold its text. It blocks."""
    try:
        real = real_file(cwd, name, approved)
        # Notebooks are shown by their cells, which no editor sends.
        if real.suffix == ".ipynb" or not real.is_file() or real.stat().st_size > MOST_BYTES:
            return None
        data = read_data(name, real)
        return SavedText(path=str(real), name=_name_in_editor(cwd, real), data=data, text=decoded(name, data))
    except (ToolError, OSError):
        return None


def _name_in_editor(cwd: str, real: Path) -> str:
    """Return the path of a file for the editor, which has opened the folder under the name *cwd*."""
    folder = followed(cwd)
    return os.path.join(cwd, real.relative_to(folder)) if real.is_relative_to(folder) else str(real)  # noqa: PTH118


def _unsaved(saved: SavedText, shown: str) -> UnsavedText | None:
    # Editors keep line ends and the byte order mark apart from the text.
    if shown.removeprefix("\ufeff").replace("\r\n", "\n") == saved.text.text.replace("\r\n", "\n"):
        return None
    try:
        data = saved.written(shown)
    except ToolError:
        return None
    return UnsavedText(saved=saved, shown=shown, data=data) if b"\0" not in data else None

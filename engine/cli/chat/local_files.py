"""What a session of this process can undo, for the commands of the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from engine.session.rewind import RewindPoint, RewindPreview, RewindScope, Rewound
from engine.session.session import Session


@final
@attrs.frozen
class LocalFiles:
    """A `FileHistory`."""

    _session: Session

    async def points(self) -> Sequence[RewindPoint]:
        """Return the prompts to rewind to. A checkpoint."""
        return await self._session.files.rewind_points()

    async def preview(self, turn_id: str) -> RewindPreview:
        """Return what rewinding would do. A checkpoint."""
        return await self._session.files.preview_rewind(turn_id)

    async def rewind(self, turn_id: str, scope: RewindScope, *, force: bool) -> Rewound:
        """Undo a turn and all later ones. A checkpoint."""
        return await self._session.files.rewind(turn_id, scope=scope, force=force)

    async def undo(self, *, force: bool) -> Rewound:
        """Undo the newest turn. A checkpoint."""
        undone = await self._session.files.undo(force=force)
        remarks = ([f"No file was changed: {undone.note}"] if undone.note else []) + list(undone.remarks)
        return Rewound(
            turns=(undone.turn_id,), inputs=undone.inputs, files=undone.files, left=undone.left, remarks=tuple(remarks)
        )

    async def redo(self, *, force: bool) -> tuple[str, ...]:
        """Redo what was undone last. A checkpoint."""
        return (await self._session.files.redo(force=force)).files

    async def diff(self) -> str:
        """Return the newest turn's changes of files. A checkpoint."""
        return "".join(diff.text or f"{diff.path}: not text\n" for diff in await self._session.files.diff())

    async def summarise(self, turn_id: str) -> str:
        """Summarise a turn and all later ones. A checkpoint."""
        result = await self._session.context.compact(since=turn_id)
        return "" if result.stop_reason == "completed" else result.detail or result.stop_reason

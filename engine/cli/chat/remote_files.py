"""What a session of a server can undo, for the commands of the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

import attrs

from engine.client.control_client import Client
from engine.client.remote_session import new_key
from engine.control.protocol import answer_methods as an
from engine.control.protocol.turn_methods import CompactResult
from engine.core.ids import SessionId
from engine.session.rewind import RewindPoint, RewindPreview, RewindScope, Rewound
from engine.session.undo import FileDiff


@final
@attrs.frozen
class RemoteFiles:
    """A `FileHistory`."""

    _client: Client
    _session_id: SessionId

    async def points(self) -> Sequence[RewindPoint]:
        """Return the prompts to rewind to. A checkpoint."""
        result = cast("an.RewindPointsResult", await self._request("rewind.points"))
        return [RewindPoint(**attrs.asdict(point, recurse=False)) for point in result.points]

    async def preview(self, turn_id: str) -> RewindPreview:
        """Return what rewinding would do. A checkpoint."""
        result = cast("an.RewindPreviewResult", await self._request("rewind.preview", turn_id=turn_id))
        files = tuple(FileDiff(path=file.path, before=None, after=None, text=file.text) for file in result.files)
        return RewindPreview(turns=result.turns, files=files, conflicts=result.conflicts, left=result.left)

    async def rewind(self, turn_id: str, scope: RewindScope, *, force: bool) -> Rewound:
        """Undo a turn and all later ones. A checkpoint."""
        return _rewound(await self._request("rewind", turn_id=turn_id, scope=scope, force=force, key=new_key()))

    async def undo(self, *, force: bool) -> Rewound:
        """Undo the newest turn. A checkpoint."""
        return _rewound(await self._request("undo", force=force, key=new_key()))

    async def redo(self, *, force: bool) -> tuple[str, ...]:
        """Redo what was undone last. A checkpoint."""
        return cast("an.UndoResult", await self._request("redo", force=force, key=new_key())).files

    async def diff(self) -> str:
        """Return the newest turn's changes of files. A checkpoint."""
        result = cast("an.DiffResult", await self._request("diff"))
        return "".join(file.text or f"{file.path}: not text\n" for file in result.files)

    async def summarise(self, turn_id: str) -> str:
        """Summarise a turn and all later ones. A checkpoint; if cancelled, the server goes on."""
        begun = cast("CompactResult", await self._request("compact", since=turn_id))
        result = await self._client.session(self._session_id).turn(begun.turn_id).wait()
        return "" if result.stop_reason == "completed" else result.detail or result.stop_reason

    async def _request(self, method: str, **params: object) -> object:
        return await self._client.request(method, session_id=self._session_id, **params)


def _rewound(result: object) -> Rewound:
    undone = cast("an.UndoResult", result)
    return Rewound(
        # A server of an older version does not name them all.
        turns=undone.turns or (undone.turn_id,),
        inputs=undone.inputs,
        files=undone.files,
        left=undone.left,
        remarks=undone.remarks,
    )

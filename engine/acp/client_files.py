"""`ClientFiles`: the files of the editor at the other end, which answers when it likes, or never."""

from __future__ import annotations

from typing import Final, final

import attrs
import trio

from engine.acp.client_params import FileCapabilities
from engine.acp.editor_connection import EditorConnection
from engine.core.schema import Json
from engine.jsonrpc.rpc_messages import RpcError, RpcResult

# How long a tool waits for the editor's text before it takes the one on disk.
READ_SECONDS: Final = 2.0
# A change may be formatted, and reviewed by extensions, before it is saved.
WRITE_SECONDS: Final = 10.0
# After so many requests without an answer, an editor is not asked any more: each would hold a call up.
_MOST_SILENT: Final = 3


@final
@attrs.define(eq=False)
class ClientFiles:
    """The files that an editor reads and writes for one session (`engine.tools.editor_files.EditorFiles`).

    Attributes:
        session_id: the session, once there is one.
    """

    _connection: EditorConnection
    _capabilities: FileCapabilities
    session_id: str = ""
    _silent: int = attrs.field(default=0, init=False)

    async def read(self, path: str) -> str | None:
        """Return the editor's text of a file; None: it has no answer. A checkpoint; if cancelled, it is not asked any more."""
        if self._silent >= _MOST_SILENT:
            await trio.lowlevel.checkpoint()
            return None
        answer = await self._ask("fs/read_text_file", {"path": path}, READ_SECONDS)
        text = answer.value.get("content") if isinstance(answer, RpcResult) and isinstance(answer.value, dict) else None
        return text if isinstance(text, str) else None

    async def write(self, path: str, text: str) -> str:
        """Let the editor save a text; return why it has not. A checkpoint; if cancelled, it may have done so."""
        if not self._capabilities.write_text_file:
            await trio.lowlevel.checkpoint()
            return "it takes no changes from agents"
        answer = await self._ask("fs/write_text_file", {"path": path, "content": text}, WRITE_SECONDS)
        if answer is None:
            return f"it has not answered within {WRITE_SECONDS:g} s"
        return f"it reports: {answer.message[:200]}" if isinstance(answer, RpcError) else ""

    async def _ask(self, method: str, params: dict[str, Json], seconds: float) -> RpcResult | RpcError | None:
        """Return the answer to a request; None: there was none in time. A checkpoint; it is withdrawn if that is cancelled."""
        request = self._connection.ask(method, {"sessionId": self.session_id, **params})
        try:
            with trio.move_on_after(seconds):
                await request.answer.wait()
        finally:
            answer = request.answer.value if request.answer.is_settled else None
            # Nothing happens if it was answered.
            self._connection.withdraw(request)
        self._silent = 0 if answer is not None else self._silent + 1
        return answer


def client_files(
    connection: EditorConnection, capabilities: FileCapabilities | None, session_id: str = ""
) -> ClientFiles | None:
    """Return the files of an editor; None: it offers none to read, so what it holds can't be known."""
    if capabilities is None or not capabilities.read_text_file:
        return None
    return ClientFiles(connection, capabilities, session_id)

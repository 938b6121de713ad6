"""`Uploads`: files that clients have sent ahead, to be attached to prompts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, final

import attrs

from engine.control.credentials import new_secret
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.turn_methods import UploadParams, UploadResult
from engine.control.protocol.wire_converter import BadParams

KEPT_SECONDS: Final = 3600.0
# A client that sends no piece for so long has given up, even if its connection lasts.
UNFINISHED_SECONDS: Final = 60.0
# Of all clients together: they are in memory.
MOST_BYTES: Final = 256 << 20


@attrs.define(eq=False)
class _Upload:
    """A file, or what has come of it: then *connection* sends the rest."""

    data: bytes | bytearray = attrs.field(repr=False)
    until: float
    connection: str | None = None
    is_attached: bool = False


@final
class Uploads:
    """Uploads by reference, for an hour. A whole file comes by HTTP; over a connection it comes in pieces."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        """Make it empty.

        Args:
            now: the time in seconds, of a clock that does not go back.
            random: returns so many random bytes.
        """
        self._now = now
        self._random = random
        self._uploads: dict[str, _Upload] = {}

    @property
    def size(self) -> int:
        """How many bytes of them are in memory, with what has come of unfinished ones."""
        self._drop_old()
        return sum(len(each.data) for each in self._uploads.values())

    def add(self, data: bytes) -> str:
        """Keep *data*; return its reference. Raises `Refusal` if there are too many."""
        self._make_room(len(data))
        name = new_secret(self._random)
        self._uploads[name] = _Upload(data, self._now() + KEPT_SECONDS)
        return name

    def receive(self, params: UploadParams, connection: str, most: int) -> UploadResult:
        """Keep a piece of a file of at most *most* bytes. Not a checkpoint. Raises `BadParams`, `Refusal`.

        After a refusal nothing of the file is left.
        """
        name = params.upload or new_secret(self._random)
        known = self._uploads.get(name)
        if params.upload is not None and (known is None or known.connection != connection):
            raise _unknown()
        self._uploads.pop(name, None)
        received = bytearray() if known is None else known.data
        if params.size > most:
            raise Refusal("too_large", f"a file has at most {most} bytes", limit=most)
        try:
            piece = base64.b64decode(params.data, validate=True)
        except ValueError as error:
            raise BadParams("data", "expected base64") from error
        if len(received) + len(piece) > params.size:
            raise Refusal("conflict", f"more than {params.size} bytes have come")
        self._make_room(len(received) + len(piece))
        received += piece
        now = self._now()
        if len(received) == params.size:
            self._uploads[name] = _Upload(bytes(received), now + KEPT_SECONDS)
        else:
            self._uploads[name] = _Upload(received, now + UNFINISHED_SECONDS, connection)
        return UploadResult(upload=name, received=len(received))

    def data(self, name: str) -> bytes:
        """Return an upload. Raises `Refusal`."""
        self._drop_old()
        upload = self._uploads.get(name)
        if upload is None or upload.connection is not None:
            raise _unknown()
        upload.is_attached = True
        return bytes(upload.data)

    def drop_unfinished(self, connection: str) -> None:
        """Drop what a connection that has ended was sending. Not a checkpoint."""
        self._uploads = {name: each for name, each in self._uploads.items() if each.connection != connection}

    def _make_room(self, size: int) -> None:
        """Drop the oldest of those that were attached, if there is no room for *size* bytes. Raises `Refusal`."""
        left = MOST_BYTES - size - self.size
        for name, each in tuple(self._uploads.items()):
            if left < 0 and each.is_attached:
                del self._uploads[name]
                left += len(each.data)
        if left < 0:
            raise Refusal("too_large", "too much was uploaded: try again later", limit=MOST_BYTES)

    def _drop_old(self) -> None:
        now = self._now()
        self._uploads = {name: each for name, each in self._uploads.items() if each.until > now}


def _unknown() -> Refusal:
    return Refusal("not_found", "there is no such upload, or it is too old: send it again", what="upload")

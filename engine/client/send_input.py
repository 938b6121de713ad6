"""Input with attachments, sent to a server: inside of the request, or as uploads if they do not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

import attrs

from engine.client.link_owner import LinkOwner
from engine.control.protocol import turn_methods as tu
from engine.control.protocol.error_kinds import Refusal
from engine.core.errors import ConfigError
from engine.core.messages import FilePart, MediaPart

# Of a request, besides its text and attachments.
_FRAME_BYTES: Final = 16_384
# Of an upload, in one request: base64, so a multiple of four.
_PIECE: Final = 512 * 1024
# A lost connection takes an unfinished upload with it, and a server that has restarted knows none.
_ATTEMPTS: Final = 5

InputParams = tu.PromptParams | tu.QueueParams | tu.SteerParams


async def send_input(client: LinkOwner, method: str, params: InputParams, parts: Sequence[MediaPart]) -> object:
    """Make a request with attachments; return its result. A checkpoint.

    If cancelled in an upload, nothing was added, and the server drops what it has of the upload after a minute.

    Raises `ConfigError` for a file that is too large for this server, and the errors that the server answers with.
    """
    limits = client.server.limits
    room = limits.message_bytes - _FRAME_BYTES - len(json.dumps(params.text))
    attempts = 0
    while True:
        attempts += 1
        try:
            # A text that is too long by itself is refused before anything is sent.
            if room < 0 or sum(len(part.data) for part in parts) <= room:
                attachments = [_attachment(part, data=part.data) for part in parts]
            else:
                attachments = [_attachment(part, upload=await _upload(client, part)) for part in parts]
            return await client.send(method, attrs.evolve(params, attachments=tuple(attachments)))
        except Refusal as refusal:
            if attempts == _ATTEMPTS or refusal.facts.get("what") != "upload":
                raise


async def _upload(client: LinkOwner, part: MediaPart) -> str:
    """Send an attachment in pieces; return its reference. A checkpoint; cancelled, it is not finished."""
    limits = client.server.limits
    size = len(part.data) // 4 * 3 - part.data[-2:].count("=")
    if "upload_pieces" not in client.server.capabilities:
        raise ConfigError(
            f"a file has {size:,} bytes, and this server takes none above {limits.message_bytes * 3 // 4:,} over this "
            "connection. Next: attach smaller files, or update the server"
        )
    if size > limits.upload_bytes:
        raise ConfigError(f"a file has {size:,} bytes; this server takes {limits.upload_bytes:,}. Next: a smaller file")
    step = min(_PIECE, (limits.message_bytes - _FRAME_BYTES) // 4 * 4)
    upload: str | None = None
    for start in range(0, len(part.data), step):
        params = tu.UploadParams(size=size, data=part.data[start : start + step], upload=upload)
        upload = cast("tu.UploadResult", await client.send("upload", params)).upload
    assert upload is not None  # no attachment is empty
    return upload


def _attachment(part: MediaPart, *, data: str | None = None, upload: str | None = None) -> tu.Attachment:
    name = part.name if isinstance(part, FilePart) else ""
    return tu.Attachment(data=data, upload=upload, media_type=part.media_type, name=name)

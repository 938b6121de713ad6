"""What requests of opencode's clients have: a credential, a body, a prompt. No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, cast

import attrs

from engine.control.opencode.documents import Document
from engine.control.transport.http_connection import HttpRequest
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.core.schema import Json
from engine.jsonrpc.strict_json import BadJson, RpcLimits, read_json

_DATA: Final = re.compile(r"data:(?P<type>[^;,]*);base64,(?P<data>.*)", re.DOTALL)
# The server has checked how long a body may be.
_LIMITS: Final = RpcLimits(bytes=1 << 30)


def with_bearer(head: RequestHead) -> RequestHead:
    """Return *head* with the password of basic authentication as a token."""
    scheme, _, secret = head.fields.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return head
    try:
        _, _, password = base64.b64decode(secret.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        password = ""
    return attrs.evolve(head, fields={**head.fields, "authorization": f"Bearer {password}"})


def body_of(request: HttpRequest) -> Document:
    """Return the body. Raises `BadRequest`."""
    try:
        document = read_json(request.body or b"{}", _LIMITS)
    except BadJson as error:
        raise BadRequest(400, str(error)) from None
    if not isinstance(document, dict):
        raise BadRequest(400, "the body is not an object of JSON")
    return document


def whole_number(text: str) -> int:
    """Return the number that *text* is. Raises `BadRequest`."""
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise BadRequest(400, f"not a whole number: {text[:20]}")
    return int(text)


def model_name(model: Json, field: str) -> str:
    """Return the name of a model that a client has selected; empty: it has not."""
    return f"{model.get('providerID')}/{model.get(field)}" if isinstance(model, dict) else ""


def prompt_of(parts: Json) -> tuple[str, list[Json]]:
    """Return the text and the attachments of a prompt. Raises `BadRequest`."""
    texts: list[str] = []
    attachments: list[Json] = []
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"type": "text", "ignored": True}:
                pass
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "file", "url": str(url)} if found := _DATA.fullmatch(url):
                kind, name = cast("Document", part).get("mime"), cast("Document", part).get("filename")
                attachments.append({"data": found["data"], "media_type": kind or found["type"], "name": name or ""})
            case _:
                raise BadRequest(400, "a part must be text, or a file with a data: URL that has base64")
    if not texts and not attachments:
        raise BadRequest(400, "parts must have a text or a file")
    return "\n".join(texts), attachments

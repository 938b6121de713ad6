"""What opencode's clients call sessions, parts and errors, as JSON documents. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Literal, cast

from engine.core.events import StopReason, TurnResult
from engine.core.messages import FinishReason, ImagePart, TextPart, Usage, UserPart
from engine.core.schema import Json
from engine.core.version import __version__
from engine.store.store_protocols import SessionRow

Document = dict[str, Json]
# What opencode calls the reasons for which a model stops.
FINISH: Final[Mapping[FinishReason, str]] = {
    "stop": "stop",
    "calls": "tool-calls",
    "length": "length",
    "overflow": "length",
    "refusal": "content-filter",
    "content_filter": "content-filter",
    "malformed": "error",
    "pause": "other",
    "unknown": "unknown",
}
_NO_ERRORS: Final = frozenset({"completed", "hook_stopped", "permission_rejected"})
_ERRORS: Final[Mapping[StopReason, str]] = {
    "aborted": "MessageAbortedError",
    "output_limit": "MessageOutputLengthError",
    "prompt_too_long": "ContextOverflowError",
    "compaction_ineffective": "ContextOverflowError",
    "blocking_limit": "ContextOverflowError",
    "content_filter": "ContentFilterError",
    "refusal": "ContentFilterError",
    "auth_failed": "ProviderAuthError",
    "rate_limited": "APIError",
    "provider_error": "APIError",
    "incomplete": "APIError",
}


def milliseconds(time: float) -> int:
    """Return a time as JavaScript has it."""
    return int(time * 1000)


def ascending_id(kind: Literal["msg", "prt"], own: str, time: float, seq: int) -> str:
    """Return an id that sorts by time, as clients expect that compare the ids of messages and parts.

    Its first twelve digits are the time as opencode writes it, so that it can be compared with an id that a client has made.
    """
    number = (milliseconds(time) * 0x1000 + (seq & 0xFFF)) & (2**48 - 1)
    return f"{kind}_{number:012x}{own.rpartition('_')[2]}"


def session_document(row: SessionRow) -> Document:
    """Return a session."""
    document: Document = {
        "id": row.id,
        "slug": row.id,
        "projectID": "global",
        "directory": row.cwd,
        "title": row.title or "New session",
        "version": __version__,
        "time": {"created": milliseconds(row.created), "updated": milliseconds(row.updated)},
        "cost": row.cost,
        "tokens": tokens_of(row.usage),
        "model": {"id": model_of(row.model)["modelID"], "providerID": model_of(row.model)["providerID"]},
    }
    if row.parent_id is not None:
        document["parentID"] = row.parent_id
    if row.agent:
        document["agent"] = row.agent
    return document


def deleted_session(session_id: str) -> Document:
    """Return a session of which only the id is left."""
    time: Document = {"created": 0, "updated": 0}
    unknown: Document = dict.fromkeys(("directory", "title"), "")
    return {
        "id": session_id,
        "slug": session_id,
        "projectID": "global",
        "version": __version__,
        "time": time,
        **unknown,
    }


def tokens_of(usage: Usage) -> Document:
    """Return tokens; opencode counts reasoning apart from the output."""
    return {
        "input": usage.input,
        "output": usage.output - usage.reasoning,
        "reasoning": usage.reasoning,
        "cache": {"read": usage.cache_read, "write": usage.cache_write},
    }


def model_of(name: str) -> dict[str, Json]:
    """Return a model's name in its two parts."""
    provider, _, model = name.partition("/")
    return {"providerID": provider, "modelID": model}


def input_part(part: UserPart) -> Document:
    """Return a part of a prompt, without what says where it belongs."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    name: Document = {} if isinstance(part, ImagePart) or not part.name else {"filename": part.name}
    return {"type": "file", "mime": part.media_type, "url": f"data:{part.media_type};base64,{part.data}", **name}


def arguments_of(text: str) -> Document:
    """Return a call's arguments; those that are no object get a name, as opencode gives them one."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        document = text
    return cast("Document", document if isinstance(document, dict) else {"value": document})


def error_document(name: str, message: str) -> Document:
    """Return an error, as clients of both generations of opencode's SDK read it."""
    document: Document = {"name": name, "data": {"message": message}}
    return document if name != "BadRequest" else {**document, "_tag": "InvalidRequestError", "message": message}


def turn_error(result: TurnResult) -> Document | None:
    """Return why a turn has failed; None: it has not."""
    if result.stop_reason in _NO_ERRORS:
        return None
    error = error_document(
        _ERRORS.get(result.stop_reason, "UnknownError"), result.detail or result.stop_reason.replace("_", " ")
    )
    data = cast("Document", error["data"])
    failure = result.failure
    if error["name"] == "ProviderAuthError":
        data["providerID"] = "" if failure is None else failure.host
    elif error["name"] == "APIError":
        data["isRetryable"] = True
        if failure is not None and failure.http_status is not None:
            data["statusCode"] = failure.http_status
    return error

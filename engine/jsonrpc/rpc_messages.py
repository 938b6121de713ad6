"""JSON-RPC messages as values: what a frame of text holds, and the text of each message.

Params and results are written from JSON *text*, so that one that many peers get is encoded once.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from engine.core.schema import Json
from engine.journal.json_text import to_json_text
from engine.jsonrpc.strict_json import RpcLimits, read_json

RpcId: TypeAlias = str | int

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
OVERLOADED: Final = -32001
# Larger integers are changed by peers whose numbers are doubles.
_LARGEST_ID: Final = 2**53
_METHOD_CHARS: Final = 128


@attrs.frozen
class RpcError:
    """Why a request failed: a code, a message for people, and facts for programs."""

    code: int
    message: str
    data: Json = None


@attrs.frozen
class RpcRequest:
    """A request, to be answered under its id."""

    id: RpcId
    method: str
    params: Json = None


@attrs.frozen
class RpcNotification:
    """A message that gets no answer."""

    method: str
    params: Json = None


@attrs.frozen
class RpcResult:
    """The answer to a request that succeeded."""

    id: RpcId
    value: Json


@attrs.frozen
class RpcFailure:
    """The answer to a request that failed; without an id, if its sender could not read the id."""

    id: RpcId | None
    error: RpcError


@attrs.frozen
class RpcInvalid:
    """Something that is no message, and the error to answer it with; the answer has no id."""

    error: RpcError


RpcMessage: TypeAlias = RpcRequest | RpcNotification | RpcResult | RpcFailure | RpcInvalid


@attrs.frozen
class RpcFrame:
    """The messages of one frame; a batch is answered by a batch."""

    messages: tuple[RpcMessage, ...]
    is_batch: bool


def invalid_request(message: str) -> RpcError:
    """Return the error for what is no request."""
    return RpcError(INVALID_REQUEST, message, {"kind": "request", "retry": "no"})


def parse_error(message: str) -> RpcError:
    """Return the error for what is no JSON."""
    return RpcError(PARSE_ERROR, message, {"kind": "parse", "retry": "no"})


def overloaded(limits: RpcLimits) -> RpcError:
    """Return the error for one request too many."""
    message = f"{limits.in_flight} requests are running already: wait for an answer"
    return RpcError(OVERLOADED, message, {"kind": "overloaded", "retry": "later", "limit": limits.in_flight})


# -- reading -----------------------------------------------------------------------------


def parse_frame(text: str | bytes, limits: RpcLimits) -> RpcFrame:
    """Return the messages in *text*. Raises `BadJson`, `FrameTooLarge`; all else is an `RpcInvalid` in the frame."""
    value = read_json(text, limits)
    if not isinstance(value, list):
        return RpcFrame((_message(value, limits),), is_batch=False)
    if not 1 <= len(value) <= limits.batch:
        error = invalid_request(f"a batch holds 1 to {limits.batch} messages, not {len(value)}")
        return RpcFrame((RpcInvalid(error),), is_batch=False)
    return RpcFrame(tuple([_message(item, limits) for item in value]), is_batch=True)


def _message(value: Json, limits: RpcLimits) -> RpcMessage:
    if not isinstance(value, dict):
        return _invalid("a message is an object")
    if value.get("jsonrpc") != "2.0":
        return _invalid('a message has "jsonrpc": "2.0"')
    if "id" in value and not _is_id(value["id"], limits) and not (value["id"] is None and "error" in value):
        return _invalid(f"an id is a string of at most {limits.id_chars} characters, or a whole number within 2^53")
    if "method" in value:
        return _call(value)
    return _answer(value)


def _call(value: dict[str, Json]) -> RpcMessage:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str) or not 0 < len(method) <= _METHOD_CHARS:
        return _invalid(f"a method is a string of 1 to {_METHOD_CHARS} characters")
    if "params" in value and not isinstance(params, (dict, list)):
        return _invalid("params are an object or a list")
    if "result" in value or "error" in value:
        return _invalid("a message is a call or an answer, not both")
    if "id" not in value:
        return RpcNotification(method, params)
    key = value["id"]
    return RpcRequest(key, method, params) if isinstance(key, (str, int)) else _invalid("a request has an id")


def _answer(value: dict[str, Json]) -> RpcMessage:
    key = value.get("id")
    if "id" not in value or ("result" in value) == ("error" in value):
        return _invalid("a message has a method, or an id and a result or an error")
    if "result" in value:
        return RpcResult(key, value["result"]) if isinstance(key, (str, int)) else _invalid("a result has an id")
    error = value["error"]
    if not isinstance(error, dict):
        return _invalid("an error is an object")
    code, message = error.get("code"), error.get("message")
    if type(code) is not int or not isinstance(message, str):
        return _invalid("an error has a whole number as its code, and a message")
    return RpcFailure(key if isinstance(key, (str, int)) else None, RpcError(code, message, error.get("data")))


def _is_id(value: Json, limits: RpcLimits) -> bool:
    if isinstance(value, str):
        return len(value) <= limits.id_chars
    return type(value) is int and abs(value) <= _LARGEST_ID


def _invalid(message: str) -> RpcInvalid:
    return RpcInvalid(invalid_request(message))


# -- writing -----------------------------------------------------------------------------


def request_text(key: RpcId, method: str, params: str) -> str:
    """Return the text of a request whose params are the JSON text *params*."""
    return f'{{"jsonrpc":"2.0","id":{to_json_text(key)},"method":{to_json_text(method)},"params":{params}}}'


def notification_text(method: str, params: str) -> str:
    """Return the text of a notification whose params are the JSON text *params*."""
    return f'{{"jsonrpc":"2.0","method":{to_json_text(method)},"params":{params}}}'


def result_text(key: RpcId, value: str) -> str:
    """Return the text of an answer whose result is the JSON text *value*."""
    return f'{{"jsonrpc":"2.0","id":{to_json_text(key)},"result":{value}}}'


def failure_text(key: RpcId | None, error: RpcError) -> str:
    """Return the text of an answer with an error."""
    body: dict[str, Json] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return f'{{"jsonrpc":"2.0","id":{to_json_text(key)},"error":{to_json_text(body)}}}'

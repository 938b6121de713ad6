"""Errors of the protocol: one table of kinds, total over `engine.errors`, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

from engine.control.protocol.wire_converter import BadParams, to_json
from engine.core import errors
from engine.core.schema import Json
from engine.jsonrpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    OVERLOADED,
    PARSE_ERROR,
    UNKNOWN_METHOD,
    RpcError,
)

# "no": the same request fails again. "later": it may succeed later. "same_key": repeat it with the same key.
RetryAdvice = Literal["no", "later", "same_key"]


@attrs.frozen(kw_only=True)
class ErrorKind:
    """A row of the table.

    Attributes:
        kind: its name in `data.kind`.
        code: the JSON-RPC code.
        meaning: for the reference.
        retry: whether repeating helps.
        facts: what else `data` may hold.
        classes: the errors of the engine that become this.
    """

    kind: str
    code: int
    meaning: str
    retry: RetryAdvice = "no"
    facts: tuple[str, ...] = ()
    classes: tuple[type[errors.EngineError], ...] = ()


ERROR_KINDS: Final[Mapping[str, ErrorKind]] = {
    row.kind: row
    for row in (
        ErrorKind(kind="parse", code=PARSE_ERROR, meaning="The message is not JSON."),
        ErrorKind(kind="request", code=INVALID_REQUEST, meaning="The message is no request, or its id is in use."),
        ErrorKind(kind="method", code=UNKNOWN_METHOD, meaning="There is no such method.", facts=("method", "nearest")),
        ErrorKind(
            kind="params",
            code=INVALID_PARAMS,
            meaning="A parameter is missing, unknown or wrong.",
            facts=("path", "expected", "nearest"),
        ),
        ErrorKind(
            kind="internal",
            code=INTERNAL_ERROR,
            meaning="A fault of the server; its log has more under that incident.",
            facts=("incident",),
            classes=(
                errors.EngineError,
                errors.ToolError,
                errors.OutcomeUnknown,
                errors.InvalidArguments,
                errors.WrongThread,
                errors.WrongTask,
                errors.CursorInUse,
                # Raised by clients.
                errors.ServerOffline,
            ),
        ),
        ErrorKind(
            kind="overloaded",
            code=OVERLOADED,
            meaning="Too many requests are running.",
            retry="later",
            facts=("limit",),
        ),
        ErrorKind(kind="not_ready", code=-32002, meaning="The first message must be `hello`."),
        ErrorKind(
            kind="forbidden",
            code=-32003,
            meaning="The connection's role does not allow it.",
            facts=("role", "needed"),
            classes=(errors.Unauthorized,),
        ),
        ErrorKind(
            kind="not_found",
            code=-32004,
            meaning="There is no such session, message, call, question, input, grant or upload.",
            facts=("what",),
            classes=(
                errors.SessionNotFound,
                errors.MessageNotFound,
                errors.CallNotFound,
                errors.RequestNotFound,
                errors.InputNotFound,
            ),
        ),
        ErrorKind(
            kind="busy",
            code=-32005,
            meaning="A turn is running in the session, or the session was just closed.",
            retry="later",
            facts=("turn_id", "status"),
            # A session that is closed is opened again by the next request.
            classes=(errors.SessionBusy, errors.TurnNotEnded, errors.SessionClosed),
        ),
        ErrorKind(
            kind="conflict",
            code=-32006,
            meaning="The key was used with other parameters, or the turn is over.",
            facts=("current",),
            classes=(errors.InputConflict, errors.TurnOver, errors.SubAgentRefused),
        ),
        ErrorKind(
            kind="already_settled",
            code=-32007,
            meaning="The question was answered before, has expired, or was withdrawn.",
            facts=("answer", "by", "seq"),
            classes=(errors.AlreadyAnswered,),
        ),
        ErrorKind(
            kind="elsewhere",
            code=-32008,
            meaning="Another engine has the session open.",
            retry="later",
            facts=("session_id", "host", "pid", "until", "url"),
            classes=(errors.SessionElsewhere,),
        ),
        ErrorKind(kind="too_large", code=-32009, meaning="The message or the result is too large.", facts=("limit",)),
        ErrorKind(
            kind="rate_limited",
            code=-32010,
            meaning="Too many requests, or too many failed logins.",
            retry="later",
            facts=("retry_after",),
        ),
        ErrorKind(
            kind="draining",
            code=-32011,
            meaning="The server is about to end.",
            retry="same_key",
            facts=("until", "successor"),
            classes=(errors.EngineClosed, errors.Draining),
        ),
        ErrorKind(
            kind="unsupported",
            code=-32012,
            meaning="No common version, or a capability that this server does not have.",
            facts=("min", "max", "capability"),
        ),
        ErrorKind(
            kind="nothing_to_do",
            code=-32013,
            meaning="There is nothing to undo, redo, compare, restore or resume.",
            classes=(errors.SessionError, errors.NothingToUndo, errors.NothingParked),
        ),
        ErrorKind(
            kind="parked",
            code=-32013,
            meaning="The session's turn is parked: resume it first.",
            facts=("turn_id",),
            classes=(errors.TurnParked,),
        ),
        ErrorKind(
            kind="undo_conflict",
            code=-32014,
            meaning="Something else has changed the files; nothing was restored. `force` overwrites them.",
            facts=("paths",),
            classes=(errors.UndoConflict,),
        ),
        ErrorKind(
            kind="undo_incomplete",
            code=-32015,
            meaning="Some files are restored; the same request does the rest.",
            retry="later",
            facts=("done", "left"),
            classes=(errors.UndoIncomplete,),
        ),
        ErrorKind(
            kind="store",
            code=-32016,
            meaning="The store can't read or write; what was changed may not be durable.",
            retry="later",
            facts=("is_newer", "is_full", "durable"),
            classes=(
                errors.StoreError,
                errors.SessionLost,
                errors.StoreCorrupt,
                errors.StoreMismatch,
                errors.JournalCorrupt,
            ),
        ),
        ErrorKind(
            kind="provider",
            code=-32017,
            meaning="The model's host failed.",
            facts=("retryable", "status", "retry_after", "reset_at", "time_limit", "seconds", "info"),
            classes=(
                errors.ProviderError,
                errors.Overloaded,
                errors.RateLimited,
                errors.QuotaExhausted,
                errors.ContextOverflow,
                errors.MediaTooLarge,
                errors.AuthFailed,
                errors.ContentFiltered,
                errors.ModelNotFound,
                errors.InvalidRequest,
                errors.SignatureRejected,
                errors.ProviderProtocolError,
                errors.ConnectionBroken,
                errors.StreamTimeout,
            ),
        ),
        ErrorKind(kind="cancelled", code=-32018, meaning="The request was cancelled by `rpc.cancel`."),
        ErrorKind(
            kind="config",
            code=-32019,
            meaning="A configured or passed value can't work.",
            facts=("field", "nearest", "host"),
            classes=(errors.ConfigError, errors.UnknownModel, errors.MissingKey),
        ),
        ErrorKind(
            kind="snapshot",
            code=-32020,
            meaning="A snapshot of the files can't be taken or read. No file was changed.",
            classes=(errors.SnapshotError,),
        ),
    )
}

_KIND_OF: Final = {cls: row for row in ERROR_KINDS.values() for cls in row.classes}
_CLASS_OF: Final = {cls.__name__: cls for cls in _KIND_OF}
# What clients raise for kinds that servers report without naming a class.
_CLASS_OF_KIND: Final[Mapping[str, type[errors.EngineError]]] = {
    "forbidden": errors.Unauthorized,
    "draining": errors.Draining,
}
_WHAT: Final[Mapping[type[errors.EngineError], str]] = {
    errors.SessionNotFound: "session",
    errors.MessageNotFound: "message",
    errors.CallNotFound: "call",
    errors.RequestNotFound: "question",
    errors.InputNotFound: "input",
}


# Attributes whose names have another meaning in `data`.
_FACT_OF: Final = {"kind": "time_limit"}
_ATTRIBUTE_OF: Final = {fact: attribute for attribute, fact in _FACT_OF.items()}


class Refusal(errors.EngineError):
    """A request that the server refuses for a reason that no error of the engine has.

    Attributes:
        kind: a kind of the table.
        facts: what `data` holds besides.
    """

    def __init__(self, kind: str, message: str, **facts: Json) -> None:
        super().__init__(message)
        self.kind = kind
        self.facts = facts


# -- to the wire -------------------------------------------------------------------------


def error_of(error: BaseException, *, incident: str = "") -> RpcError:
    """Return what a client learns of *error*.

    Of a fault it learns only *incident*, the text to look for in the server's log: its message may hold anything.
    """
    if isinstance(error, Refusal):
        return _row_error(ERROR_KINDS[error.kind], str(error), error.facts)
    if isinstance(error, BadParams):
        facts: dict[str, Json] = {"path": error.path, "expected": error.problem}
        return _row_error(
            ERROR_KINDS["params"], str(error), facts | ({"nearest": error.nearest} if error.nearest else {})
        )
    row = _row_of(type(error))
    if row.kind == "internal":
        return _row_error(row, f"the server failed; its log has more under {incident!r}", {"incident": incident})
    named: dict[str, Json] = {"error": type(error).__name__ if type(error) in _KIND_OF else row.classes[0].__name__}
    if row.kind == "not_found":
        named["what"] = next(what for cls, what in _WHAT.items() if isinstance(error, cls))
    if row.kind == "store":
        named["durable"] = False
    return _row_error(row, str(error), named | dict(_facts_in(error, row)))


def is_fault(error: BaseException) -> bool:
    """Return whether *error* is a fault of the server, which its log should have."""
    return not isinstance(error, (Refusal, BadParams)) and _row_of(type(error)).kind == "internal"


def _row_error(row: ErrorKind, message: str, facts: Mapping[str, Json]) -> RpcError:
    retry: RetryAdvice = "later" if facts.get("retryable") is True else row.retry
    return RpcError(row.code, message, {"kind": row.kind, "retry": retry, **facts})


def _row_of(cls: type[BaseException]) -> ErrorKind:
    """Return the row of a class; that of its nearest base, if a host has derived it; else that of faults."""
    return next((_KIND_OF[base] for base in cls.__mro__ if base in _KIND_OF), ERROR_KINDS["internal"])


def _facts_in(error: BaseException, row: ErrorKind) -> Iterator[tuple[str, Json]]:
    """Yield the attributes that the table names, and no others: one may hold a secret."""
    for attribute, value in vars(error).items():
        name = _FACT_OF.get(attribute, attribute)
        if name in row.facts:
            yield name, to_json(value)


# -- from the wire -----------------------------------------------------------------------


def exception_of(error: RpcError) -> errors.EngineError:
    """Return the exception that a client raises: the engine's own class where there is one, else a `Refusal`."""
    data = error.data if isinstance(error.data, dict) else {}
    kind = str(data.get("kind"))
    cls = _CLASS_OF.get(str(data.get("error"))) or _CLASS_OF_KIND.get(kind)
    if cls is None:
        facts = {name: value for name, value in data.items() if name != "kind"}
        return Refusal(kind if kind in ERROR_KINDS else "internal", error.message, **facts)
    # Their constructors differ; what they set has a name in the table.
    error_value = cls.__new__(cls)
    errors.EngineError.__init__(error_value, error.message)
    for name in _KIND_OF[cls].facts:
        if name in data and name not in {"what", "durable"}:
            setattr(error_value, _ATTRIBUTE_OF.get(name, name), _attribute(name, data[name]))
    return error_value


def _attribute(name: str, value: Json) -> object:
    if name == "info" and isinstance(value, dict) and "code" in value:
        # By a newer server, it may have more.
        known = {field.name for field in attrs.fields(errors.ErrorInfo)}
        return errors.ErrorInfo(**{each: fact for each, fact in value.items() if each in known})  # type: ignore[arg-type]
    return tuple(value) if isinstance(value, list) else value


# -- close codes -------------------------------------------------------------------------


@attrs.frozen
class CloseCode:
    """Why a server closes a connection.

    Attributes:
        code: the WebSocket close code.
        meaning: for the reference.
        is_final: the client stops and says why; else it comes back.
    """

    code: int
    meaning: str
    is_final: bool = False


CLOSE_CODES: Final = (
    CloseCode(1000, "The client is done.", is_final=True),
    CloseCode(1001, "The server goes away."),
    CloseCode(1002, "A frame that WebSockets do not have.", is_final=True),
    CloseCode(1003, "A binary message.", is_final=True),
    CloseCode(1007, "Text that is not UTF-8.", is_final=True),
    CloseCode(1009, "A message that is too large or nested too deeply.", is_final=True),
    CloseCode(1011, "A fault of the server."),
    CloseCode(1012, "The server restarts: come back."),
    CloseCode(4400, "A bad `hello`.", is_final=True),
    CloseCode(4401, "The ticket or the token is refused.", is_final=True),
    CloseCode(4403, "The role or the token was revoked.", is_final=True),
    CloseCode(4408, "No `hello`, no `tock`, or nothing was read for too long."),
    CloseCode(4429, "Too many requests."),
)
# After these a client comes back. The first ones no server of this engine sends: the connection was lost or ended without a
# code, or a proxy says that there is no server at the moment. After all others it would be refused again and again.
RETRIED_CODES: Final = frozenset({1005, 1006, 1013, 1014} | {each.code for each in CLOSE_CODES if not each.is_final})

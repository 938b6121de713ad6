"""Every exception that the engine raises to its host: what to do, and the facts as attributes. Models read a `Settlement`."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs

from engine.core.value_base import Value

ErrorCode = Literal[
    "key_rejected",
    "not_allowed",
    "no_credit",
    "rate_limited",
    "overloaded",
    "model_not_found",
    "option_rejected",
    "request_rejected",
    "media_rejected",
    "too_long",
    "filtered",
    "name_not_found",
    "connection_refused",
    "certificate_expired",
    "certificate_untrusted",
    "proxy_login",
    "connection_failed",
    "connection_lost",
    "not_an_api",
    "silent",
    "provider_failed",
    "step_limit",
    "token_budget",
    "cost_limit",
    "deadline",
    "internal",
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ErrorInfo(Value):
    """The facts of a failure. Empty or None: unknown, or it has none.

    Attributes:
        code: what failed.
        host: the provider, as in the names of its models.
        model: the model, `host/model`.
        http_status: the HTTP status of the response.
        request_id: the provider's id of the request, for its support.
        subject: what it is about: the rejected option, the address, the proxy, the date on which a certificate
            expired, the number of an internal error, or how much the next request would take of a limit that it exceeds.
        amount: how much there was: tokens, dollars, requests or seconds.
        limit: how much is allowed, in the same unit.
    """

    code: ErrorCode
    host: str = ""
    model: str = ""
    http_status: int | None = None
    request_id: str = ""
    subject: str = ""
    amount: float | None = None
    limit: float | None = None


class EngineError(Exception):
    """The base class: `except EngineError` catches everything that the engine itself raises."""


class ConfigError(EngineError):
    """A configured or passed value can't work: that of the parameter `field`; `nearest` may be meant. Empty: not known."""

    def __init__(self, message: str = "", *, field: str = "", nearest: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.nearest = nearest


class UnknownModel(ConfigError):
    """No provider has a model of that name."""


class MissingKey(ConfigError):
    """There is no key, or no other credential, for a model's host; `host` is its name, empty if it is not known."""

    def __init__(self, message: str, *, host: str = "") -> None:
        super().__init__(message)
        self.host = host


class ProviderError(EngineError):
    """A model's host failed, refused, or fell silent.

    Attributes:
        retryable: whether the same request may succeed a little later.
        status: the HTTP status where there was one.
        retry_after: seconds that the host asked to wait.
        reset_at: when a limit is lifted, in seconds since the epoch.
        info: what failed, as facts.
    """

    code: ClassVar[ErrorCode] = "provider_failed"

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        reset_at: float | None = None,
        info: ErrorInfo | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.reset_at = reset_at
        self.info: ErrorInfo = info or ErrorInfo(code=self.code, http_status=status)


class Overloaded(ProviderError):
    """The host is temporarily overloaded or broken."""

    code: ClassVar[ErrorCode] = "overloaded"


class RateLimited(ProviderError):
    """The host's limit on requests or tokens is reached: wait, or use another model.

    Retryable by default, but not if the limit is lifted only after hours, or is too small for this request at any time.
    """

    code: ClassVar[ErrorCode] = "rate_limited"

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        status: int | None = None,
        retry_after: float | None = None,
        reset_at: float | None = None,
        info: ErrorInfo | None = None,
    ) -> None:
        super().__init__(
            message, retryable=retryable, status=status, retry_after=retry_after, reset_at=reset_at, info=info
        )


class QuotaExhausted(ProviderError):
    """The account's credit or quota is used up: pay, or use another host. Waiting does not help."""

    code: ClassVar[ErrorCode] = "no_credit"


class ContextOverflow(ProviderError):
    """The request is larger than the model's window."""

    code: ClassVar[ErrorCode] = "too_long"


class MediaTooLarge(ProviderError):
    """An image or a document in the request is larger than the host accepts."""

    code: ClassVar[ErrorCode] = "media_rejected"


class AuthFailed(ProviderError):
    """The key is missing, wrong, or not authorised for that model."""

    code: ClassVar[ErrorCode] = "key_rejected"


class ContentFiltered(ProviderError):
    """The host's filter stopped the request or the answer."""

    code: ClassVar[ErrorCode] = "filtered"


class ModelNotFound(ProviderError):
    """The host has no such model, or the address is wrong: correct the model's name or the base URL."""

    code: ClassVar[ErrorCode] = "model_not_found"


class InvalidRequest(ProviderError):
    """The host rejected the request as invalid: see the message, and change an option, a tool or the input."""

    code: ClassVar[ErrorCode] = "request_rejected"


class SignatureRejected(InvalidRequest):
    """The host no longer accepts reasoning that it once signed; the request is retried without it."""


class ProviderProtocolError(ProviderError):
    """The host violated its own protocol."""


class ConnectionBroken(ProviderError):
    """The connection failed, or ended before the answer did."""

    code: ClassVar[ErrorCode] = "connection_failed"


class StreamTimeout(ProviderError):
    """The host exceeded a time limit.

    Attributes:
        kind: `"headers"`, `"idle"` (no bytes for that long) or `"total"`.
        seconds: the limit which was reached.
    """

    def __init__(self, kind: str, seconds: float) -> None:
        # A host that takes too long in all was slow, not silent.
        code: ErrorCode = "provider_failed" if kind == "total" else "silent"
        super().__init__(
            f"the model's host was silent: {kind} limit of {seconds:g} s reached",
            retryable=True,
            info=ErrorInfo(code=code, amount=seconds, limit=seconds),
        )
        self.kind = kind
        self.seconds = seconds


class ToolError(EngineError):
    """Raised *by* a tool, to give the model an error message as the result."""


class OutcomeUnknown(ToolError):
    """Raised by a tool that can't tell whether what it asked for has happened, such as a server that died meanwhile."""


class InvalidArguments(ToolError):
    """Arguments that don't fit the tool's class."""


class SessionError(EngineError):
    """A session can't do that now."""


class SessionBusy(SessionError):
    """A turn is running in this session already."""


class SessionClosed(SessionError):
    """The session was closed in this engine, by `close_session` or because its sub-agent has ended: open it again."""


class SessionNotFound(SessionError):
    """No such session in the store."""


class MessageNotFound(SessionError):
    """No such message in the session: it was never there, or a hook blocked it."""


class TurnNotEnded(SessionError):
    """`turn.result` was read before the turn had ended."""


class TurnParked(TurnNotEnded):
    """The turn waits for an answer in no engine: `session.resume()` resumes it, a new prompt ends it."""


class NothingParked(SessionError):
    """The session has no parked turn to resume."""


class CallNotFound(SessionError):
    """No call with that id is waiting for an external result: it was settled, cancelled, or never made."""


class TurnOver(SessionError):
    """The turn has ended or is ending, and accepts no more input."""


class EngineClosed(SessionError):
    """The engine was closed; open a new one."""


class WrongThread(SessionError):
    """Called outside the Trio run that opened the engine, for instance from another thread. Nothing was changed."""


class WrongTask(SessionError):
    """A block was not left by the task that entered it, as in an unclosed async generator. Its tasks have ended."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the block of {what} was not left by the task that entered it. If it is inside of an async generator, "
            "iterate with: async with contextlib.aclosing(generator()) as items: async for item in items"
        )


class CursorInUse(SessionError):
    """A turn has one cursor; use `session.subscribe()` for more."""


class RequestNotFound(SessionError):
    """No open question has that id: it was answered, withdrawn, or never asked."""


class AlreadyAnswered(RequestNotFound):
    """The question was answered before, by another client say; or it expired, or was withdrawn with its call.

    Attributes:
        answer: the answer that counts, or why there is none: as in the event that settled the question.
        by: the client that answered, as its host names it; empty: the host itself, a rule, or no one.
        seq: the number of that event.
    """

    def __init__(self, message: str, *, answer: str = "", by: str = "", seq: int = 0) -> None:
        super().__init__(message)
        self.answer = answer
        self.by = by
        self.seq = seq


class InputConflict(SessionError):
    """An id of an input or of a session was reused with different content."""


class InputNotFound(SessionError):
    """No input with that id waits: the model has it, it was removed, or it was never sent."""


class JournalCorrupt(SessionError):
    """Stored or exported events can't be read, or are not consecutive."""


class SubAgentRefused(SessionError):
    """A sub-agent can't be started or resumed: it would be nested too deep, or is not an idle child of the session."""


class SessionElsewhere(SessionError):
    """Another engine has the session open: watch it here, or prompt it there; once that engine is gone, open it again.

    Attributes:
        session_id: the session.
        host: the name of the machine on which that engine runs.
        pid: its process id there.
        until: when its lease expires unless renewed, in seconds since the epoch; 0: with its process, as nothing runs in it.
        url: the address of its control server, as far as a control server knows it.
    """

    url: str | None = None

    def __init__(self, session_id: str, *, host: str, pid: int, until: float) -> None:
        super().__init__(
            f"session {session_id} is open in another engine (process {pid} on {host}): watch it here, or prompt it there"
        )
        self.session_id = session_id
        self.host = host
        self.pid = pid
        self.until = until


class SnapshotError(EngineError):
    """A snapshot of the files could not be taken or read; the message says why. No file was changed."""


class NothingToUndo(SessionError):
    """There is no turn to undo, redo, compare or restore from."""


class UndoConflict(SessionError):
    """Files to restore have been changed by another program. Nothing was restored; `force` overwrites them.

    Attributes:
        paths: those files, relative to the working directory.
    """

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class UndoIncomplete(SessionError):
    """Restoring files failed or was cancelled half way; calling it again does the rest.

    Attributes:
        done: the paths that are restored.
        left: the other paths.
    """

    def __init__(self, message: str, *, done: tuple[str, ...], left: tuple[str, ...]) -> None:
        super().__init__(message)
        self.done = done
        self.left = left


class StoreError(EngineError):
    """The store could not write or read; `is_full`: the disk has no space left."""

    def __init__(self, message: str = "", *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


class SessionLost(StoreError):
    """Another engine has taken the session, or has continued it: nothing more of it is written here. Open it again."""


class StoreCorrupt(StoreError):
    """The store's file is damaged; `engine sessions repair` copies what is readable to a new one."""


class StoreMismatch(StoreError):
    """The file is another program's; or a newer engine's, if `is_newer`: use that one. It was not changed."""

    def __init__(self, message: str, *, is_newer: bool = False) -> None:
        super().__init__(message)
        self.is_newer = is_newer


class ServerOffline(EngineError):
    """No server answers, or the connection ended for good; a request may have been carried out all the same if it says so."""


class Unauthorized(EngineError):
    """The server refuses the token, or does not allow that to its role: get another token.

    Attributes:
        role: what the connection may do; empty: nothing.
        needed: the role that the request needs; empty: any.
    """

    def __init__(self, message: str, *, role: str = "", needed: str = "") -> None:
        super().__init__(message)
        self.role = role
        self.needed = needed


class Draining(EngineError):
    """The server is about to end, and begins nothing new: send the same prompt with the same key to its successor.

    Attributes:
        until: when it ends, in seconds since the epoch.
        successor: the address of another server; None: the same as its own, a moment later.
    """

    def __init__(self, message: str, *, until: float, successor: str | None = None) -> None:
        super().__init__(message)
        self.until = until
        self.successor = successor

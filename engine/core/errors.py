"""Every exception that the engine raises to its host, as one tree.

What the *model* should read is never an exception but a `Settlement`. What is
here is for the program that embeds the engine: each error says what to do, and
carries its facts as attributes.
"""

from __future__ import annotations


class EngineError(Exception):
    """The root: `except EngineError` catches all that the engine itself raises."""


class ConfigError(EngineError):
    """Something was configured or passed in that can't work."""


class UnknownModel(ConfigError):
    """No provider answers to that model name."""


class ProviderError(EngineError):
    """A model's host failed, refused, or fell silent.

    Attributes:
        retryable: whether the same request may succeed a little later.
        status: the HTTP status where there was one.
        retry_after: seconds that the host asked to wait.
        reset_at: when a limit is lifted, in seconds since the epoch.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        reset_at: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.reset_at = reset_at


class Overloaded(ProviderError):
    """The host is busy or broken for the moment."""


class RateLimited(ProviderError):
    """The host counts requests or tokens, and the count is used up: wait, or ask another model.

    Retryable by default. A limit that is lifted in hours only, or that rejects a
    request of this size whenever it is sent, is not.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        status: int | None = None,
        retry_after: float | None = None,
        reset_at: float | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable, status=status, retry_after=retry_after, reset_at=reset_at)


class QuotaExhausted(ProviderError):
    """The account's money or plan is used up: pay, or ask another host. Waiting does not help."""


class ContextOverflow(ProviderError):
    """The request is larger than the model's window."""


class MediaTooLarge(ProviderError):
    """An image or a document in the request is larger than the host takes."""


class AuthFailed(ProviderError):
    """The key is missing, wrong, or may not use that model."""


class ContentFiltered(ProviderError):
    """The host's filter stopped the request or the answer."""


class ModelNotFound(ProviderError):
    """The host has no such model, or nothing at that address: correct the model's name, or the base URL."""


class InvalidRequest(ProviderError):
    """The host finds something wrong with the request itself: see its text, and change an option, a tool or the input."""


class SignatureRejected(InvalidRequest):
    """The host no longer accepts reasoning that it once signed: it is sent again without."""


class ProviderProtocolError(ProviderError):
    """The host sent what its own protocol does not allow."""


class ConnectionBroken(ProviderError):
    """The connection failed, or ended before the answer did."""


class StreamTimeout(ProviderError):
    """The host took longer than it was given.

    Attributes:
        kind: `"headers"`, `"idle"` (no bytes for so long) or `"total"`.
        seconds: the limit which was reached.
    """

    def __init__(self, kind: str, seconds: float) -> None:
        super().__init__(f"the model's host was silent: {kind} limit of {seconds:g} s reached", retryable=True)
        self.kind = kind
        self.seconds = seconds


class ToolError(EngineError):
    """Raised *by* a tool to answer the model with a plain error text."""


class InvalidArguments(ToolError):
    """Arguments that don't fit the tool's class."""


class SessionError(EngineError):
    """A session can't do that now."""


class SessionBusy(SessionError):
    """A turn is running in this session already."""


class SessionNotFound(SessionError):
    """No such session in the store."""


class MessageNotFound(SessionError):
    """No such message in the session: it was never there, or a hook did not let it pass."""


class TurnNotEnded(SessionError):
    """`turn.result` was read before the turn had ended."""


class TurnParked(TurnNotEnded):
    """The turn waits for an answer, and no engine is at it: `session.resume()` goes on with it, a new prompt ends it."""


class NothingParked(SessionError):
    """The session has no turn that could be gone on with."""


class CallNotFound(SessionError):
    """No call with that id waits for a result from outside: it was settled, cancelled, or never asked for."""


class TurnOver(SessionError):
    """The turn has ended or is ending: it takes no more input."""


class EngineClosed(SessionError):
    """The engine was closed; open a new one."""


class WrongThread(SessionError):
    """Called outside of the Trio run that opened the engine, from another thread say. Nothing was changed."""


class WrongTask(SessionError):
    """A block was entered by one task and left by another, or not at all: by an async generator that was not closed.

    The tasks of the block have ended nevertheless.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the block of {what} was not left by the task that entered it. If it is inside of an async generator, "
            "iterate with: async with contextlib.aclosing(generator()) as items: async for item in items"
        )


class CursorInUse(SessionError):
    """A turn has one cursor; use `session.subscribe()` for more."""


class RequestNotFound(SessionError):
    """No open question has that id: it was answered, withdrawn, or never asked."""


class InputConflict(SessionError):
    """An input id was used again with another text."""


class JournalCorrupt(SessionError):
    """Events that are stored, or were exported, can't be read or don't follow one another."""


class SubAgentRefused(SessionError):
    """A sub-agent can't be started, or not resumed: it would be too deep, or is no idle child of the session."""


class SessionElsewhere(SessionError):
    """Another engine has the session open: watch it here, or prompt it there; once that engine is gone, open it again.

    Attributes:
        session_id: which session.
        host: the name of the machine on which that engine runs.
        pid: the number of its process there.
        until: when its hold expires unless it is renewed, in seconds since the epoch.
    """

    def __init__(self, session_id: str, *, host: str, pid: int, until: float) -> None:
        super().__init__(
            f"session {session_id} is open in another engine (process {pid} on {host}): watch it here, or prompt it there"
        )
        self.session_id = session_id
        self.host = host
        self.pid = pid
        self.until = until


class SnapshotError(EngineError):
    """A snapshot of the files could not be taken or read: what is wrong is in its text. No file was changed."""


class NothingToUndo(SessionError):
    """There is no turn that could be undone, redone, compared or restored from."""


class UndoConflict(SessionError):
    """Files to restore were changed by another program since. Nothing was restored; `force` overwrites them.

    Attributes:
        paths: which, relative to the working directory.
    """

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class UndoIncomplete(SessionError):
    """Putting files back failed, or was cancelled, half way: the same again does the rest.

    Attributes:
        done: the paths of those that are as they should be.
        left: the paths of the others.
    """

    def __init__(self, message: str, *, done: tuple[str, ...], left: tuple[str, ...]) -> None:
        super().__init__(message)
        self.done = done
        self.left = left


class StoreError(EngineError):
    """The store could not write or read."""


class StoreCorrupt(StoreError):
    """The store's file is damaged: what can be read of it can be exported into a new one."""


class StoreMismatch(StoreError):
    """The file is another program's, or a newer engine's. It was not changed.

    Attributes:
        is_newer: a newer engine has made it: use that one.
    """

    def __init__(self, message: str, *, is_newer: bool = False) -> None:
        super().__init__(message)
        self.is_newer = is_newer

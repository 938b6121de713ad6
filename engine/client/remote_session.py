"""`RemoteSession` and `RemoteTurn`: handles to a session of a server, and to one of its turns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, Literal, cast, final

import trio

from engine.client.link_owner import LinkOwner
from engine.client.send_input import send_input
from engine.client.session_stream import SessionStream
from engine.control.protocol import answer_methods as an
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol.watch_methods import SubscribeParams
from engine.control.protocol.wire_converter import Params
from engine.core.errors import AlreadyAnswered
from engine.core.events import TurnResult
from engine.core.ids import InputId, SessionId, TurnId
from engine.core.messages import MediaPart
from engine.journal.state import SessionState
from engine.session.answer_types import Answer, Recovery, permission_answer

# How long one request waits for the end of a turn.
_WAIT_SECONDS: Final = 30.0
# Between two looks at a turn that the server can't wait for: it is parked, or another engine has the session.
_LOOK_SECONDS: Final = 1.0


def new_key() -> str:
    """Return a key for one request, under which it can be repeated."""
    return secrets.token_hex(16)


@final
class RemoteSession:
    """A session of a server. Made by `Client.create_session` and `Client.session`, not by its constructor.

    Attributes:
        id: its identifier.
    """

    def __init__(self, client: LinkOwner, session_id: SessionId) -> None:
        """Make it."""
        self.id: SessionId = session_id
        self._client = client
        self._stream: SessionStream | None = None

    def __repr__(self) -> str:
        """Return its class and id."""
        return f"<RemoteSession {self.id}>"

    @property
    def state(self) -> SessionState | None:
        """Its state after the event that `watch` has yielded last: that of the server at that event.

        None: nothing is watched, or the watching began at a position of another client, and no `Resync` has come since.
        """
        return None if self._stream is None else self._stream.state

    async def head(self) -> se.SessionHead:
        """Return what is true of it now: what it does, its turn, its open questions, its queue. A checkpoint."""
        result = await self._client.send("session.get", se.SessionParams(session_id=self.id))
        return cast("se.SessionGetResult", result).head

    # -- input ---------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[MediaPart] = (),
        settings: se.TurnSettings | None = None,
        on_disconnect: Literal["continue", "cancel"] = "continue",
        linger: float = 10.0,
        key: str | None = None,
    ) -> RemoteTurn:
        """Start a turn, and return once the prompt is admitted. A checkpoint; if cancelled, it may be started.

        Args:
            text: the prompt.
            attachments: images and files, made by `engine.attach`.
            settings: for this turn.
            on_disconnect: "cancel": the turn is cancelled once this client is gone for *linger* seconds.
            linger: see there.
            key: the id of this input: the same prompt with the same key starts nothing twice; None: one is made.

        Raises `SessionBusy` if a turn is running, `TurnParked`, `Draining` and others.
        """
        params = tu.PromptParams(
            session_id=self.id,
            text=text,
            settings=settings,
            on_disconnect=on_disconnect,
            linger=linger,
            key=key or new_key(),
        )
        result = cast("tu.PromptResult", await send_input(self._client, "prompt", params, attachments))
        return RemoteTurn(self._client, self.id, result.turn_id, result.input_id)

    async def queue(self, text: str, *, attachments: Sequence[MediaPart] = (), key: str | None = None) -> InputId:
        """Add input for the next turn; return its id. A checkpoint; if cancelled, it may be added."""
        params = tu.QueueParams(session_id=self.id, text=text, key=key or new_key())
        return cast("tu.QueueResult", await send_input(self._client, "queue", params, attachments)).input_id

    async def resume(self, *, key: str | None = None) -> RemoteTurn:
        """Continue the parked turn. A checkpoint; if cancelled, it may continue. Raises `NothingParked`."""
        params = tu.ResumeParams(session_id=self.id, key=key or new_key())
        return self.turn(cast("tu.ResumeResult", await self._client.send("resume", params)).turn_id)

    def turn(self, turn_id: str) -> RemoteTurn:
        """Return a handle to one of its turns, also one that another client has started. Not a checkpoint."""
        return RemoteTurn(self._client, self.id, TurnId(turn_id))

    # -- answers -------------------------------------------------------------------------------

    async def reply(self, request_id: str, answer: Answer) -> None:
        """Answer a question for permission, of the session or its sub-agents. A checkpoint; if cancelled, it may be answered.

        Raises `AlreadyAnswered` if another client was first.
        """
        plain = permission_answer(answer)
        assert plain.kind == "once" or plain.kind == "always" or plain.kind == "reject"  # noqa: PLR1714  # for mypy
        params = an.PermissionReplyParams(
            session_id=self.id,
            request_id=request_id,
            answer=plain.kind,
            offer=plain.offer,
            scope=plain.scope,
            seconds=plain.seconds,
            feedback=plain.feedback,
        )
        await self._answer("permission.reply", params, (plain.kind,))

    async def answer(self, request_id: str, *answers: str) -> None:
        """Answer a tool's question, in words or by labels; with neither, decline. As `reply` else."""
        params = an.QuestionAnswerParams(session_id=self.id, request_id=request_id, answers=answers)
        await self._answer("question.answer", params, ("answered", "declined"))

    async def recover(self, request_id: str, how: Recovery, *, model: str | None = None) -> None:
        """Decide how to continue after a failed request to the model: see `Session.recover`. As `reply` else."""
        params = an.RecoveryAnswerParams(session_id=self.id, request_id=request_id, how=how, model=model)
        await self._answer("recovery.answer", params, (how,))

    async def _answer(self, method: str, params: Params, own: tuple[str, ...]) -> None:
        attempts: list[None] = []
        try:
            await self._client.send(method, params, attempts=attempts)
        except AlreadyAnswered as error:
            # Repeated after a lost connection: then it was this client that had answered.
            if len(attempts) == 1 or error.by != self._client.name or error.answer not in own:
                raise

    # -- watching ------------------------------------------------------------------------------

    def watch(
        self,
        after: str | None = None,
        *,
        from_start: bool = False,
        tree: bool = True,
        live: bool = True,
        interval: int = 33,
        elide: int = 0,
    ) -> SessionStream:
        """Return its events as a stream, to be entered and iterated. Not a checkpoint.

        It begins with a `Resync`, what is true now, or where *after* says.

        Args:
            after: the `position` of a stream, of this or another client.
            from_start: begin with the session's first event instead.
            tree: also the events of sub-agents.
            live: also pieces of text and progress.
            interval: the least time between two messages that hold only those, in milliseconds.
            elide: larger events than this come as `Elided`; 0: never.
        """
        params = SubscribeParams(
            session_id=self.id,
            # No position at all is one that can't be continued from: the answer is a snapshot.
            after=after if after is not None else None if from_start else "",
            at="start" if from_start else "now",
            tree=tree,
            live=live,
            interval=interval,
            elide=elide,
        )
        self._stream = SessionStream(self._client, params)
        return self._stream


@final
class RemoteTurn:
    """A turn of a session of a server.

    Attributes:
        id: its identifier.
        input_id: its prompt's; None: it was started elsewhere.
    """

    def __init__(
        self, client: LinkOwner, session_id: SessionId, turn_id: TurnId, input_id: InputId | None = None
    ) -> None:
        """Make it."""
        self.id: TurnId = turn_id
        self.input_id: InputId | None = input_id
        self._client = client
        self._session_id = session_id

    def __repr__(self) -> str:
        """Return its class and id."""
        return f"<RemoteTurn {self.id}>"

    async def wait(self) -> TurnResult:
        """Wait for the end and return the result. A checkpoint; cancelling the wait does not affect the turn.

        It survives lost connections and restarts of the server. Raises `TurnOver` if there never was such a turn.
        """
        params = tu.WaitParams(session_id=self._session_id, turn_id=self.id, timeout=_WAIT_SECONDS)
        while True:
            begun_at = trio.current_time()
            result = cast("tu.WaitResult", await self._client.send("wait", params))
            if result.result is not None:
                return result.result
            await trio.sleep_until(begun_at + _LOOK_SECONDS)

    async def cancel(self, reason: str = "") -> float | None:
        """Cancel it; return until when its calls may clean up, in seconds since the epoch. None: it is over already.

        A checkpoint: it returns at once, and `wait` at the end. If cancelled itself, the turn may be cancelled.
        Raises `TurnOver` if there never was such a turn.
        """
        params = tu.CancelParams(session_id=self._session_id, turn_id=self.id, reason=reason)
        return cast("tu.CancelResult", await self._client.send("cancel", params)).until

    async def steer(self, text: str, *, attachments: Sequence[MediaPart] = (), key: str | None = None) -> InputId:
        """Add a user message at the next step; return its id. A checkpoint; if cancelled, it may be added.

        Raises `TurnOver` if the turn is ending.
        """
        params = tu.SteerParams(session_id=self._session_id, turn_id=self.id, text=text, key=key or new_key())
        return cast("tu.InputResult", await send_input(self._client, "steer", params, attachments)).input_id

    async def skip_wait(self) -> bool:
        """Send a failed request again now; return whether there was one to be sent. A checkpoint."""
        params = tu.TurnParams(session_id=self._session_id, turn_id=self.id)
        return cast("tu.SkipWaitResult", await self._client.send("skip_wait", params)).sent

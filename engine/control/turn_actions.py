"""The methods of the protocol about turns and questions: what they do to an engine. No transport, no connection."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, cast, final

import attrs
import trio

from engine.control.engine_reads import EngineReads, Handler, SessionRecord, questions_of
from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.wire_converter import BadParams
from engine.control.uploads import Uploads
from engine.core.errors import StoreError, TurnOver, TurnParked
from engine.core.events import TurnEnded, TurnStarted
from engine.core.foreign_calls import call_foreign
from engine.core.ids import InputId, RequestId
from engine.core.messages import MediaPart
from engine.core.settings import Limits, Settings
from engine.journal.closing_events import CRASHED
from engine.journal.json_text import to_json_text
from engine.journal.lookup import find_answer
from engine.journal.state import Retry, SessionState
from engine.nursery.parkable import check_not_parked
from engine.session.answer_types import Always, Answer, Once, Reject
from engine.session.attachments import LARGEST, attachment
from engine.session.engine import engine_runtime
from engine.session.session import live_session
from engine.session.session_context import compaction_turn, messages_before
from engine.session.turn import start_turn

if TYPE_CHECKING:
    from engine.session.engine import Engine
    from engine.session.session import Session

_EFFECTS: Final[Mapping[str, Literal["allowed", "granted", "refused"]]] = {
    "once": "allowed",
    "always": "granted",
    "reject": "refused",
}
# Of text that waits in a session, as JSON: it is in each head and each snapshot, which must fit into a message.
_MOST_WAITING: Final = 4 << 20
# What the model reads when a person resumes a turn that a crash has ended: nothing is run again by itself.
_CONTINUE: Final = "Continue where you left off: the engine's process ended while you were working."


@final
class TurnActions:
    """Runs the methods about turns and questions."""

    def __init__(self, engine: Engine, reads: EngineReads, uploads: Uploads) -> None:
        """Change an open engine."""
        self._uploads = uploads
        self._engine = engine
        self._reads = reads
        self._runtime = engine_runtime(engine)

    def handlers(self, by: str) -> Mapping[str, Handler]:
        """Return the methods by name. *by* names the client, in events."""
        return {
            "prompt": cast("Handler", partial(self.prompt, by=by)),
            "queue": cast("Handler", partial(self.queue, by=by)),
            "queue.remove": cast("Handler", self.remove_input),
            "steer": cast("Handler", partial(self.steer, by=by)),
            "cancel": cast("Handler", partial(self.cancel, by=by)),
            "resume": cast("Handler", partial(self.resume, by=by)),
            "wait": cast("Handler", self.wait),
            "permission.reply": cast("Handler", partial(self.reply, by=by)),
            "question.answer": cast("Handler", partial(self.answer, by=by)),
            "recovery.answer": cast("Handler", partial(self.recover, by=by)),
            "skip_wait": cast("Handler", self.skip_wait),
            "compact": cast("Handler", self.compact),
            "call.settle": cast("Handler", self.settle),
        }

    # -- turns -------------------------------------------------------------------------------

    async def prompt(self, params: tu.PromptParams, by: str = "") -> tu.PromptResult:
        """Start a turn, or find the one that this prompt has started. A checkpoint.

        What follows from a lost connection (`on_disconnect`) is up to the connection: it knows when it is lost.
        """
        media = media_of(params.attachments, self._uploads)
        session = await self._engine.open_session(params.session_id)
        live = live_session(session)
        if not _seq_of(session, InputId(params.key)):
            # A new prompt would end a parked turn, and with it a question that nobody has seen.
            check_not_parked(live.journal.state, is_running=live.active is not None)
        settings = None
        if params.settings is not None:
            settings = settings_with(live.config.settings, params.settings)
        turn = self._engine.start_turn(
            session, params.text, attachments=media, settings=settings, input_id=params.key, by=by
        )
        input_id = InputId(params.key)
        # Otherwise the connection must know of the turn before anything else can happen to it.
        is_durable = params.on_disconnect == "continue" and await self._make_durable(session, input_id)
        return tu.PromptResult(turn_id=turn.id, input_id=input_id, seq=_seq_of(session, input_id), durable=is_durable)

    async def queue(self, params: tu.QueueParams, by: str = "") -> tu.QueueResult:
        """Queue input. A checkpoint."""
        media = media_of(params.attachments, self._uploads)
        session = await self._engine.open_session(params.session_id)
        _check_room(session, params)
        input_id = session.inputs.queue(params.text, attachments=media, input_id=params.key, by=by)
        waiting = [each.input_id for each in session.inputs.waiting if each.mode == "queue"]
        position = waiting.index(input_id) if input_id in waiting else 0
        is_durable = await self._make_durable(session, input_id)
        return tu.QueueResult(input_id=input_id, seq=_seq_of(session, input_id), position=position, durable=is_durable)

    async def remove_input(self, params: tu.QueueRemoveParams) -> tu.QueueRemoveResult:
        """Remove input that waits. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        return tu.QueueRemoveResult(removed=session.inputs.remove(params.input_id))

    async def steer(self, params: tu.SteerParams, by: str = "") -> tu.InputResult:
        """Send a message to the model in a running turn. A checkpoint."""
        media = media_of(params.attachments, self._uploads)
        session = await self._engine.open_session(params.session_id)
        _check_room(session, params)
        input_id = session.inputs.steer(
            params.text, turn_id=params.turn_id, attachments=media, input_id=params.key, by=by
        )
        is_durable = await self._make_durable(session, input_id)
        return tu.InputResult(input_id=input_id, seq=_seq_of(session, input_id), durable=is_durable)

    async def _make_durable(self, session: Session, input_id: InputId) -> bool:
        """Wait until input is in the store, so that an answer still holds after a crash; return whether it is.

        A store that fails or hangs does not refuse the input: the turn goes on, and its result says so, too. A checkpoint.
        """
        live = live_session(session)
        with trio.move_on_after(live.config.settings.durable_within), suppress(StoreError):
            await call_foreign("the store", live.deps.store.flushed, live.id, _seq_of(session, input_id))
            return live.journal.refused is None
        return False

    async def cancel(self, params: tu.CancelParams, by: str = "") -> tu.CancelResult:
        """Cancel a turn. A checkpoint."""
        record = await self._reads.record(params.session_id)
        if record.state.turn is not None and record.state.turn.turn_id == params.turn_id:
            # Also of a session that is not open here: its turn may be parked.
            session = await self._engine.open_session(params.session_id)
            session.cancel(params.turn_id, by=by)
            turn = session.state.turn
            if turn is not None and turn.turn_id == params.turn_id:
                return tu.CancelResult(state="ending", until=None if turn.ending is None else turn.ending.until)
            record = await self._reads.record(params.session_id)
        if _end_of(record, params.turn_id) is not None:
            return tu.CancelResult(state="over")
        raise TurnOver(f"turn {params.turn_id!r} does not run in session {params.session_id} here")

    async def resume(self, params: tu.ResumeParams, by: str = "") -> tu.ResumeResult:
        """Continue: with a parked turn, after a crash with a new one, or with queued input. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        state, input_id = session.state, InputId(params.key)
        if _seq_of(session, input_id) or _is_crashed(state):
            turn = self._engine.start_turn(session, _CONTINUE, input_id=input_id, by=by)
            await self._make_durable(session, input_id)
            return tu.ResumeResult(turn_id=turn.id, seq=_seq_of(session, input_id))
        seq = state.seq
        # What was queued waits after a turn that was cancelled.
        live = live_session(session)
        if live.active is None and live.input.next_queued() is not None:
            live.input.start_queued_turn()
            started = live_session(session).active
            if started is not None:
                return tu.ResumeResult(turn_id=started.journal.turn_id, seq=seq)
        return tu.ResumeResult(turn_id=self._engine.resume_turn(session).id, seq=seq)

    async def wait(self, params: tu.WaitParams) -> tu.WaitResult:
        """Wait for the end of a turn, if the session is open here; else only look. A checkpoint."""
        record = await self._reads.record(params.session_id)
        ended: object = _end_of(record, params.turn_id)
        if ended is None:
            if not any(each.turn_id == params.turn_id for each in record.of_type(TurnStarted)):
                raise TurnOver(f"session {params.session_id} never had a turn {params.turn_id!r}")
            if record.live is None:
                return tu.WaitResult(state="pending")
            session = await self._engine.open_session(params.session_id)
            cursor = session.subscribe(record.state.seq)
            with trio.move_on_after(params.timeout):
                async for event in cursor:
                    if _ends(event, params.turn_id):
                        ended = event
                        break
        if not isinstance(ended, TurnEnded):
            return tu.WaitResult(state="pending")
        return tu.WaitResult(state="over", result=ended.result)

    async def skip_wait(self, params: tu.TurnParams) -> tu.SkipWaitResult:
        """Send a failed request again now. A checkpoint."""
        record = await self._reads.record(params.session_id)
        if record.holder == "elsewhere":
            await self._engine.open_session(params.session_id)  # which says where
        run = None if record.live is None else record.live.active
        if run is None or run.journal.turn_id != params.turn_id:
            raise TurnOver(f"turn {params.turn_id!r} does not run in session {params.session_id} here")
        is_waiting = isinstance(record.state.status, Retry)
        run.state.skip_wait.set()
        return tu.SkipWaitResult(sent=is_waiting)

    async def compact(self, params: tu.CompactParams) -> tu.CompactResult:
        """Summarise history in a turn of its own, which the engine runs. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        live = live_session(session)
        start = 0 if params.since is None else await messages_before(live, params.since)
        turn = compaction_turn(live, params.instructions, start=start)
        run = start_turn(turn)
        assert run is not None  # it is a new one
        self._runtime.services.tasks.run_turn(run)
        return tu.CompactResult(turn_id=turn.id)

    async def settle(self, params: sv.CallSettleParams) -> se.SeqResult:
        """Deliver the result of a call. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        await session.settle(params.call_id, params.text, failed=params.failed, metadata=params.metadata)
        return se.SeqResult(seq=session.state.seq)

    # -- questions ---------------------------------------------------------------------------

    async def reply(self, params: an.PermissionReplyParams, by: str = "") -> an.PermissionReplyResult:
        """Answer a question for permission. A checkpoint."""
        answers: Mapping[str, Answer] = {
            "once": Once(),
            "always": Always(offer=params.offer, scope=params.scope, seconds=params.seconds),
            "reject": Reject(params.feedback),
        }
        answer = answers[params.answer]
        seq = await self._answered(params, lambda session: session.reply(params.request_id, answer, by=by))
        return an.PermissionReplyResult(seq=seq, effect=_EFFECTS[params.answer])

    async def answer(self, params: an.QuestionAnswerParams, by: str = "") -> se.SeqResult:
        """Answer a tool's question. A checkpoint."""
        seq = await self._answered(params, lambda session: session.answer(params.request_id, *params.answers, by=by))
        return se.SeqResult(seq=seq)

    async def recover(self, params: an.RecoveryAnswerParams, by: str = "") -> se.SeqResult:
        """Say how to go on after a failure. A checkpoint."""
        seq = await self._answered(
            params, lambda session: session.recover(params.request_id, params.how, model=params.model, by=by)
        )
        return se.SeqResult(seq=seq)

    async def _answered(self, params: an.RequestParams, answer: Callable[[Session], Awaitable[None]]) -> int:
        """Answer a question; return the number of the event. A checkpoint."""
        record = await self._reads.record(params.session_id)
        if record.live is None and record.is_parked:
            # Opening it would end a turn that a crash has cut off, and with it what is asked in it.
            _check_not_waiting(record, params.request_id)
        session = await self._engine.open_session(params.session_id)
        await answer(session)
        settled = find_answer(live_session(session).journal, RequestId(params.request_id))
        return 0 if settled is None or settled.seq is None else settled.seq


def _check_room(session: Session, params: tu.QueueParams | tu.SteerParams) -> None:
    """Raise `Refusal` if more text would wait in a session than its head and its snapshot have room for."""
    if _seq_of(session, InputId(params.key)):
        return
    texts = [params.text, *(each.message.text for each in session.inputs.waiting)]
    if sum(len(to_json_text(text)) for text in texts) > _MOST_WAITING:
        limit = f"{_MOST_WAITING >> 20} MB"
        raise Refusal("too_large", f"more than {limit} of text would wait in the session", limit=_MOST_WAITING)


def settings_with(base: Settings, change: se.TurnSettings) -> Settings:
    """Return *base* with what a client set."""
    names = attrs.asdict(change)
    limits = {name: names.pop(name) for name in ("steps", "tokens", "cost", "seconds")}
    changed = {name: value for name, value in names.items() if value is not None}
    own: Limits = attrs.evolve(base.limits, **{name: value for name, value in limits.items() if value is not None})
    return attrs.evolve(base, limits=own, **changed)


def media_of(attachments: Sequence[tu.Attachment], uploads: Uploads) -> tuple[MediaPart, ...]:
    """Return what a client attached. Raises `BadParams`, `ConfigError`, `Refusal`."""
    parts: list[MediaPart] = []
    left = LARGEST
    for number, each in enumerate(attachments):
        if each.data is None:
            data = uploads.data(each.upload or "")
        else:
            try:
                data = base64.b64decode(each.data, validate=True)
            except ValueError as error:
                raise BadParams(f"attachments[{number}].data", "expected base64") from error
        # Of all together, since an upload may be attached a hundred times; no host accepts more in one request.
        left -= len(data)
        if left < 0:
            raise Refusal("too_large", f"the attachments have more than {LARGEST >> 20} MB together", limit=LARGEST)
        parts.append(attachment(data, media_type=each.media_type, name=each.name))
    return tuple(parts)


def _seq_of(session: Session, input_id: InputId) -> int:
    """Return the number of the event that admitted an input."""
    admitted = live_session(session).journal.admitted(input_id)
    return 0 if admitted is None or admitted.seq is None else admitted.seq


def _check_not_waiting(record: SessionRecord, request_id: str) -> None:
    """Raise `Refusal` if a question is open in a turn that no engine runs: of the session, or of a sub-agent below it."""
    if any(question.request_id == request_id for question in questions_of(record)):
        assert record.state.turn is not None
        turn_id, root_id = record.state.turn.turn_id, record.events[0].path[0]
        message = (
            f"no engine runs turn {turn_id}: resume session {root_id} first; what still needs an answer is asked again"
        )
        raise Refusal("parked", message, error=TurnParked.__name__, turn_id=turn_id)


def _end_of(record: SessionRecord, turn_id: str) -> TurnEnded | None:
    """Return the end of a turn; None: it has not ended."""
    return next((event for event in record.of_type(TurnEnded) if event.turn_id == turn_id), None)


def _ends(event: object, turn_id: str) -> bool:
    return isinstance(event, TurnEnded) and event.turn_id == turn_id


def _is_crashed(state: SessionState) -> bool:
    """Return whether the last turn of a session was ended by a crash, and no turn started since."""
    last = state.last_result
    return state.turn is None and last is not None and (last.stop_reason, last.detail) == ("aborted", CRASHED)

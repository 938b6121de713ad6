"""A host's replies to a session or one of its turns: to open questions, and to calls whose results come from outside."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast, get_args

import attrs
import trio

from engine.core.errors import AlreadyAnswered, CallNotFound, ConfigError, EngineError, RequestNotFound, StoreError
from engine.core.events import QuestionAnswered
from engine.core.foreign_calls import call_foreign, reporting_blocks
from engine.core.ids import CallId, RequestId
from engine.core.permission_types import PersistentApprover
from engine.journal.lookup import find_answer
from engine.nursery.parkable import check_not_parked, waiting_calls
from engine.nursery.step_runner import ROUND
from engine.session.answer_types import Answer, Recovery, permission_answer, require_label, require_text
from engine.tools.call_values import ToolOutput

if TYPE_CHECKING:
    from engine.core.deferred import Deferred
    from engine.core.messages import Settlement
    from engine.core.protocols import Model
    from engine.nursery.running_turn import TurnRun
    from engine.session.live_session import LiveSession


# A call asks for its result a moment after its start is seen: a quick client may bring the result before that.
_LOOKS: Final = 100
_LOOK_SECONDS: Final = 0.01


async def reply(session: LiveSession, request_id: str, answer: Answer, by: str) -> None:
    """See `Session.reply`. Always a checkpoint."""
    session.check_not_closed()
    if not isinstance(cast("object", request_id), str):
        raise ConfigError(f"a request id is the str of a PermissionAsked event, not {request_id!r}")
    check_not_parked(session.journal.state, request_id, is_running=session.active is not None)
    # Answered before the grants file is written, so that the call goes on at once, and a cancel loses no answer.
    with _reporting_answers(session, request_id):
        session.questions.reply(RequestId(request_id), attrs.evolve(permission_answer(answer), by=require_label(by)))
    approver = session.deps.approver
    try:
        if isinstance(approver, PersistentApprover):
            with reporting_blocks(session.notice):
                await call_foreign("the approver", approver.save)
    except EngineError as error:
        # The answer counts nevertheless: the call goes on.
        session.notice("warning", "grant_not_saved", f"what was allowed ends with this engine: {error}")
    await trio.lowlevel.checkpoint()


async def answer(session: LiveSession, request_id: str, answers: tuple[str, ...], by: str) -> None:
    """See `Session.answer`. Always a checkpoint."""
    session.check_not_closed()
    texts = tuple(require_text(text, "an answer") for text in answers)
    # First: a parked question is not open in this engine, and `RequestNotFound` would send the host looking for a typo.
    check_not_parked(session.journal.state, request_id, is_running=session.active is not None)
    own_id = RequestId(require_text(request_id, "a request id"))
    with _reporting_answers(session, own_id):
        session.questions.answer(own_id, ("answered" if texts else "declined", texts), require_label(by))
    await trio.lowlevel.checkpoint()


async def recover(session: LiveSession, request_id: str, how: Recovery, *, model: str | Model | None, by: str) -> None:
    """See `Session.recover`. Always a checkpoint."""
    session.check_not_closed()
    if not isinstance(cast("object", request_id), str):
        raise ConfigError(f"a request id is the str of a RecoveryAsked event, not {request_id!r}")
    if how not in get_args(Recovery) or (how == "switch") != (model is not None):
        raise ConfigError(f"recover takes 'wait', 'stop', or 'switch' with a model, not {how!r} with {model!r}")
    label, models = require_label(by), session.engine.models
    resolved = None if model is None else models.models_of((model,), session.config.folder_config)[0]
    # Before the question is answered: after that, the loop sends a request with what it knows about the model.
    if resolved is not None:
        await models.learn((resolved,))
    with _reporting_answers(session, request_id):
        session.questions.recover(RequestId(request_id), (how, resolved), label)
    await trio.lowlevel.checkpoint()


@contextmanager
def _reporting_answers(session: LiveSession, request_id: str) -> Generator[None]:
    """Raise `AlreadyAnswered` instead of `RequestNotFound` for a question that is settled. Not a checkpoint."""
    try:
        yield
    except RequestNotFound:
        check_unanswered(session, RequestId(request_id))
        raise


def check_unanswered(session: LiveSession, request_id: RequestId) -> None:
    """Raise `AlreadyAnswered` if a question of the session or of its sub-agents is settled. Not a checkpoint."""
    settled = find_answer(session.journal, request_id)
    if settled is not None:
        answer = settled.outcome if isinstance(settled, QuestionAnswered) else settled.answer
        who = f" by {settled.by}" if settled.by else ""
        raise AlreadyAnswered(
            f"question {request_id!r} is settled{who}: {answer}", answer=answer, by=settled.by, seq=settled.seq or 0
        )


async def settle(session: LiveSession, call_id: object, text: object, *, failed: object, metadata: object) -> None:
    """See `Session.settle`. Always a checkpoint."""
    session.check_not_closed()
    if not all(isinstance(value, str) for value in (call_id, text, metadata)) or not isinstance(failed, bool):
        raise ConfigError(
            "session.settle takes the id of a call and a text, both str; metadata is a str, failed a bool"
        )
    own_id = CallId(cast("str", call_id))
    result = ToolOutput(text=cast("str", text), failed=failed, metadata=cast("str", metadata))
    found = await _expect_outside(session, own_id)
    if found is None:
        _check_call_not_parked(session, own_id)
    if found is None or not found[1].settle(result):
        raise CallNotFound(f"no call {call_id!r} waits for a result: it has one, was cancelled, or was never asked for")
    # Output of the hooks that follow is part of the result, so this may take as long as they do.
    settlement = await _until_settled(found[0], own_id)
    if settlement is None or settlement.status == "aborted":
        # The slot accepted it, but a cancel reached the call first.
        raise CallNotFound(
            f"call {call_id!r} was aborted as its result came: the record says so, and the result is lost"
        )
    if not await found[0].flush():
        raise StoreError(f"the result of call {call_id!r} is in the record, but the store has not kept it")
    await trio.lowlevel.checkpoint()


async def _expect_outside(session: LiveSession, call_id: CallId) -> tuple[TurnRun, Deferred[ToolOutput]] | None:
    """Return where the result of a call belongs. A checkpoint if the call has not asked for it yet: see `_LOOKS`."""
    # Counted, not timed: the call's task gets its turns, however slow the machine is.
    for _ in range(_LOOKS):
        run = session.active
        found = None if run is None else _find_outside(run, call_id)
        if run is None or found is not None or not _is_open(run, call_id):
            return found
        await trio.sleep(_LOOK_SECONDS)
    return None


def _is_open(run: TurnRun, call_id: CallId) -> bool:
    """Return whether a call of the turn, or of its sub-agents, has no result yet."""
    entry = None if run.step is None else run.step.ledger.find(call_id)
    return (entry is not None and not entry.is_settled) or any(_is_open(child, call_id) for child in run.children)


def _find_outside(run: TurnRun, call_id: CallId) -> tuple[TurnRun, Deferred[ToolOutput]] | None:
    """Return where the result of a call belongs: the turn, possibly a sub-agent's, and the slot."""
    if call_id in run.state.outside:
        return run, run.state.outside[call_id]
    return next((found for child in run.children if (found := _find_outside(child, call_id)) is not None), None)


def _check_call_not_parked(session: LiveSession, call_id: CallId) -> None:
    """Raise `TurnParked` if the call belongs to a turn that is, or is just being, parked."""
    state, run = session.journal.state, session.active
    if run is None and any(call.call_id == call_id for call in waiting_calls(state)):
        check_not_parked(state)
    if run is not None and run.ending.is_parked:
        # The engine is being closed: its tasks have let go of the call, and the next engine asks for it again.
        check_not_parked(state)


async def _until_settled(run: TurnRun, call_id: CallId) -> Settlement | None:
    """Wait until the call is settled, and return how. A checkpoint if it is not yet. Raises `TurnParked`."""
    step = run.step
    entry = None if step is None else step.ledger.find(call_id)
    while entry is not None and not entry.is_settled:
        # A turn that gets parked settles nothing any more, so waiting for the settlement alone could hang.
        if run.ending.over.is_set():
            check_not_parked(run.journal.log.state)
            break
        with trio.move_on_after(ROUND):
            await entry.settlement.wait()
    return entry.settlement.value if entry is not None and entry.is_settled else None

"""Answers to the open questions of a session, whether its host gives them to the session or to a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

import trio

from engine.core.errors import ConfigError
from engine.core.ids import RequestId
from engine.nursery.parking import check_not_parked
from engine.session.answers import Answer, Recovery, permission_answer, require_text

if TYPE_CHECKING:
    from engine.core.protocols import Model
    from engine.session.live_session import LiveSession


async def reply(session: LiveSession, request_id: str, answer: Answer) -> None:
    """See `Session.reply`. Always a checkpoint."""
    if not isinstance(cast("object", request_id), str):
        raise ConfigError(f"a request id is the str of a PermissionAsked event, not {request_id!r}")
    check_not_parked(session.journal.state, request_id, is_running=session.active is not None)
    session.questions.reply(RequestId(request_id), permission_answer(answer))
    failed = await session.engine.save_grants()
    if failed is not None:
        session.notice("warning", "grant_not_saved", f"what was allowed ends with this engine: {failed}")
    await trio.lowlevel.checkpoint()


async def answer(session: LiveSession, request_id: str, answers: tuple[str, ...]) -> None:
    """See `Session.answer`. Always a checkpoint."""
    texts = tuple(require_text(text, "an answer") for text in answers)
    check_not_parked(session.journal.state, request_id, is_running=session.active is not None)
    session.questions.say(
        RequestId(require_text(request_id, "a request id")), ("answered" if texts else "declined", texts)
    )
    await trio.lowlevel.checkpoint()


async def recover(session: LiveSession, request_id: str, how: Recovery, *, model: str | Model | None) -> None:
    """See `Session.recover`. Always a checkpoint."""
    if not isinstance(cast("object", request_id), str):
        raise ConfigError(f"a request id is the str of a RecoveryAsked event, not {request_id!r}")
    if how not in get_args(Recovery) or (how == "switch") != (model is not None):
        raise ConfigError(f"recover takes 'wait', 'stop', or 'switch' with a model, not {how!r} with {model!r}")
    models = session.engine.models
    resolved = None if model is None else models.models_of((model,))[0]
    if resolved is not None:
        await models.learn((resolved,))
    session.questions.recover(RequestId(request_id), (how, resolved))
    await trio.lowlevel.checkpoint()

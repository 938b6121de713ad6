"""`seed_events`: the first events of a session that starts with a history: a fork, or an import. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from engine.core.events import Durable, HistoryReplaced, SessionCreated, SessionTitled, SharedContext
from engine.core.ids import SessionId
from engine.core.messages import Message


def seed_events(
    session_id: SessionId,
    *,
    kind: Literal["fork", "import"],
    messages: Sequence[Message],
    context: SharedContext,
    model: str,
    at: float,
    agent: str = "",
    forked_from: SessionId | None = None,
    title: str = "",
    by: Literal["user", "model"] = "model",
) -> tuple[Durable, ...]:
    """Return the complete journal of a session that begins with *messages* from elsewhere.

    Args:
        session_id: its id.
        kind: where the messages come from.
        messages: the history.
        context: the shared context of its calls.
        model: the model that it goes on with.
        at: when it is created, in seconds since the epoch.
        agent: its agent.
        forked_from: the session that the messages come from.
        title: its title; empty: it has none.
        by: the author of the title.
    """
    # As one replacement and not as turns: none was run here, so there would be no steps and no usage to record.
    bare: list[Durable] = [SessionCreated(context=context, model=model, agent=agent, forked_from=forked_from)]
    if messages:
        bare.append(HistoryReplaced(kind=kind, messages=tuple(messages)))
    if title:
        bare.append(SessionTitled(title=title, by=by))
    return tuple(
        attrs.evolve(event, session_id=session_id, path=(session_id,), time=at, seq=seq)
        for seq, event in enumerate(bare, 1)
    )

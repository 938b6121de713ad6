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
    """Return the whole journal of a session that begins with *messages*, none of which was asked in it.

    Args:
        session_id: its id.
        kind: where the messages come from.
        messages: the history.
        context: what its calls begin with.
        model: the one that it would go on with.
        at: when it begins, in seconds since the epoch.
        agent: the agent that is selected for it.
        forked_from: the session whose messages these are.
        title: what it is called; empty: by what was asked first.
        by: whose words that is in.
    """
    bare: list[Durable] = [SessionCreated(context=context, model=model, agent=agent, forked_from=forked_from)]
    if messages:
        bare.append(HistoryReplaced(kind=kind, messages=tuple(messages)))
    if title:
        bare.append(SessionTitled(title=title, by=by))
    return tuple(
        attrs.evolve(event, session_id=session_id, path=(session_id,), time=at, seq=seq)
        for seq, event in enumerate(bare, 1)
    )

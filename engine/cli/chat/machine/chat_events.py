"""What a chat learns of its session."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from engine.core import events as ev
from engine.journal.state import Resync


@attrs.frozen
class ChatRemark:
    """A remark for the user that is no event of the session: about the connection, say."""

    text: str


@attrs.frozen
class ParkedTurn:
    """Whether the turn is open without an engine that runs it; if so, with a remark for the user."""

    is_parked: bool
    text: str = ""


ChatEvent: TypeAlias = ev.Durable | ev.Live | Resync | ChatRemark | ParkedTurn

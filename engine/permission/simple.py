"""Two approvers: ask about everything that changes something, or allow everything."""

from __future__ import annotations

import attrs

from engine.events import PermissionAsked
from engine.ids import SessionId
from engine.ports import Judgement, PermissionQuery


@attrs.define(eq=False)
class AskFirst:
    """Reading is allowed, everything else is asked about; "always" holds for its session.

    What "always" grants is the narrowest offer, else exactly the patterns that were
    asked for, else the permission as a whole where it has no patterns.
    """

    _granted: set[tuple[SessionId, str, str]] = attrs.field(factory=set[tuple[SessionId, str, str]], init=False)

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return "allow" for what reads only or was granted, else "ask"."""
        if query.read_only:
            return Judgement(verdict="allow", source="default: reading is allowed", is_default=True)
        wanted = query.patterns or ("*",)
        if all(self._is_granted(query, pattern) for pattern in wanted):
            return Judgement(verdict="allow", source="granted for this session")
        return Judgement(verdict="ask", source="default: what changes something is asked about", is_default=True)

    def grant(self, asked: PermissionAsked) -> None:
        """Remember an "always"."""
        for pattern in asked.offers[:1] or asked.patterns or ("*",):
            self._granted.add((asked.session_id, asked.permission, pattern))

    def _is_granted(self, query: PermissionQuery, pattern: str) -> bool:
        return any(
            (query.session_id, query.permission, granted) in self._granted
            for granted in (pattern, *query.offers[:1], "*")
        )


@attrs.frozen
class AllowAll:
    """Everything is allowed. For tests, demos, and hosts that have checks of their own."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return "allow"."""
        return Judgement(verdict="allow", source="everything is allowed")

    def grant(self, asked: PermissionAsked) -> None:
        """Do nothing: nobody asks."""

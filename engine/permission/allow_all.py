"""The simplest approver: everything is allowed."""

from __future__ import annotations

import attrs

from engine.core.permission_types import Allowance, Judgement, PermissionQuery


@attrs.frozen
class AllowAll:
    """Everything is allowed. For tests, demos, and hosts that have checks of their own."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return "allow"."""
        return Judgement(verdict="allow", source="everything is allowed")

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Do nothing: there is never a question."""

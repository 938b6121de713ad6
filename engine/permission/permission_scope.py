"""Whose rules bound a call: those of all sessions from the root down, without the bounds that have ended."""

from __future__ import annotations

from typing import Final

from trio.lowlevel import enable_ki_protection

from engine.core.events import APPROVAL, ContextChanged, SharedContext
from engine.core.ids import CallId
from engine.core.permission_types import PermissionScope
from engine.journal.log import Journal

# What `plan_exit` leaves in the shared context once the user has approved a plan.
_APPROVED: Final = (APPROVAL, '"build"')
_NO_CALL: Final = CallId("")


def active_scopes(chain: tuple[PermissionScope, ...], shared: SharedContext) -> tuple[PermissionScope, ...]:
    """Return the permission scopes still in force; the bounds of plan mode are dropped once the plan is approved.

    *shared* is the context of the session that the last scope of *chain* belongs to, and decides on that session's own
    bounds alone. Bounds of sessions above that have ended were left out when *chain* was made.
    """
    if shared.get(_APPROVED[0]) != _APPROVED[1]:
        return chain
    own = chain[-1].session_id
    return tuple(link for link in chain if not (link.is_bound and link.session_id == own))


@enable_ki_protection
def renew_bounds(journal: Journal) -> None:
    """Forget that a plan was approved: the host has chosen the agent again, so its bounds hold again. Not a checkpoint."""
    shared = journal.state.context
    if shared.get(_APPROVED[0]):
        journal.append(ContextChanged.of(_NO_CALL, shared, shared.without(_APPROVED[0])))

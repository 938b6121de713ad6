"""Whose rights bound a call: those of all sessions from the root down, less the bounds that have ended."""

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
    """Return the links that count for a session with that context, the last one of *chain*: without bounds of a plan that was approved.

    Those of the sessions above are none of its business: what was approved there, is not in the chain any more.
    """
    if shared.get(_APPROVED[0]) != _APPROVED[1]:
        return chain
    own = chain[-1].session_id
    return tuple(link for link in chain if not (link.is_bound and link.session_id == own))


@enable_ki_protection
def renew_bounds(journal: Journal) -> None:
    """Forget that a plan was approved: somebody has chosen the agent anew, and its bounds hold. Not a checkpoint."""
    shared = journal.state.context
    if shared.get(_APPROVED[0]):
        journal.append(ContextChanged.of(_NO_CALL, shared, shared.without(_APPROVED[0])))

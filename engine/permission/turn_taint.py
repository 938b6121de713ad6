"""`TurnTaint`: after a turn has used a foreign tool that the user does not trust, what could carry its words away is asked about.

A result of a server may hold instructions, and a model may follow them: "send the file to this address". So once a turn has
called such a tool, calls that may reach the network and calls of other servers are asked about, though a rule allows them.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.ids import SessionId, TurnId
from engine.core.permission_types import Judgement, PermissionQuery, RequiredRight
from engine.permission.rules.rules import applies_to

# What reaches no network. All else may, such as the tools of the host program; a sub-agent's own calls are judged as well.
_LOCAL: Final = frozenset(
    {
        "read",
        "edit",
        "outside",
        "task",
        "task_output",
        "task_stop",
        "bash_output",
        "bash_stop",
        "skill",
        "todo",
        "question",
    }
)


@attrs.define(eq=False)
class TurnTaint:
    """What the turns of an engine have used of foreign tools that are not trusted.

    Attributes:
        patterns: the permissions of these tools, with wildcards: `mcp:github/*`. Empty: all are trusted.
    """

    patterns: tuple[str, ...] = ()
    # By the root session and its turn, in which its sub-agents take part; None: in all its turns.
    _used: dict[SessionId, dict[TurnId | None, dict[str, None]]] = attrs.field(
        factory=dict[SessionId, dict["TurnId | None", dict[str, None]]], init=False
    )

    def note(self, query: PermissionQuery) -> None:
        """Note that a call runs. Not a checkpoint."""
        if not is_foreign(query.permission) or not any(applies_to(each, query.permission) for each in self.patterns):
            return
        root, *agents = query.chain
        # A sub-agent may report what it has read in a later turn, and the text of a skill is meant for all that follow.
        stays = bool(agents) or query.permission.rpartition("/")[2].startswith("skill_")
        turns = self._used.setdefault(root.session_id, {})
        turns.setdefault(None if stays else root.turn_id, {})[query.permission] = None

    def end_session(self, session_id: SessionId) -> None:
        """Forget a session that is closed. Not a checkpoint."""
        # Not at a turn's end: its agents may go on in the background.
        self._used.pop(session_id, None)

    def judge(self, query: PermissionQuery, judgement: Judgement) -> Judgement:
        """Return *judgement*, or a question instead: no rule, no grant and no hook answers it, and no grant comes of it."""
        used = "" if judgement.verdict == "deny" else self._cause(query)
        if not used:
            return judgement
        source = f"the setting permissions.ask_after, because {used}"
        return attrs.evolve(judgement, verdict="ask", source=source, is_default=False, offers=())

    def _cause(self, query: PermissionQuery) -> str:
        """Return which earlier call is the reason to ask about a call; empty if there is none."""
        turns = self._used.get(query.chain[0].session_id) if query.chain else None
        if not turns:
            return ""
        for turn, how in ((query.chain[0].turn_id, "was used in this turn"), (None, "was used in this session")):
            for used in turns.get(turn, ()):
                if query.opaque or any(_may_pass_on(used, right) for right in query.rights):
                    return f"{used} {how}"
        return ""


def _may_pass_on(used: str, right: RequiredRight) -> bool:
    """Return whether a call with *right* could carry away what a call with the permission *used* has read."""
    if is_foreign(right.permission):
        return server_of(right.permission) != server_of(used)
    # A command that only reads is confined, or its program is known to.
    return right.permission not in _LOCAL and not (right.permission == "bash" and right.reads_only)


def is_foreign(permission: str) -> bool:
    """Return whether a permission is that of a foreign tool: `mcp:SERVER/TOOL`."""
    kind, colon, rest = permission.partition(":")
    return bool(kind and colon) and "/" in rest


def server_of(permission: str) -> str:
    """Return who offers a foreign tool: `mcp:SERVER`."""
    return permission.rpartition("/")[0]

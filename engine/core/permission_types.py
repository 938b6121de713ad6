"""The values of permissions (rules, rights, questions, verdicts), and the port that judges calls, `Approver`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, get_args, runtime_checkable

import attrs

from engine.core.errors import ConfigError
from engine.core.events import GrantScope, Offer, Right, Verdict
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.lazy import regex
from engine.core.value_base import Value

ACTIONS: Final[tuple[Verdict, ...]] = get_args(Verdict)  # the stricter, the later
# Stands in a right's pattern for a part that cannot be known before the call runs.
UNKNOWN: Final = "\ufffc"

Confinement = Literal["", "reading", "sandboxed"]
CONFINEMENTS: Final[tuple[Confinement, ...]] = get_args(Confinement)  # for the more, the later

# Or the right of a foreign tool, `mcp:SERVER/TOOL`, with wildcards for several.
_NAME: Final = regex(r"[^\s:]{1,128}(?::read)?|[a-z]{1,16}:(?:\*|[^\s:/]{1,128}/[^\s:]{1,128})")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Rule(Value):
    """A rule. Raises `ConfigError` if it makes no sense.

    Attributes:
        permission: the name of the permission, or a wildcard for several.
        pattern: what it applies to: a path pattern or a wildcard.
        action: allow, ask or deny.
        override: whether it lifts a deny of a lower layer.
        origin: where it was written, for messages: `file:line`.
    """

    permission: str
    pattern: str
    action: Verdict
    override: bool = False
    origin: str = ""

    def __attrs_post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigError(f"a rule's action is allow, ask or deny, not {self.action!r}")
        if not _NAME.fullmatch(self.permission):
            raise ConfigError(f"{self.permission!r} is not the name of a permission, nor a wildcard for several")
        if not self.pattern.strip():
            raise ConfigError(f"a rule's pattern is empty: '*' matches everything that {self.permission} applies to")
        if UNKNOWN in self.pattern or "\0" in self.pattern:
            raise ConfigError(
                f"the pattern {self.pattern!r} matches nothing: it contains a character that no right contains"
            )
        if self.override and self.action == "deny":
            raise ConfigError("a deny needs no override: only denies of lower layers can be lifted")

    def __str__(self) -> str:
        return f"{self.action}{'!' if self.override else ''} {self.permission} {self.pattern}"

    @property
    def location(self) -> str:
        """Where it was written, in parentheses; empty if unknown."""
        return f" ({self.origin})" if self.origin else ""


@attrs.frozen(eq=False, repr=False)
class RequiredRight(Value):
    """A right that a call needs.

    Attributes:
        permission: the name of the permission.
        pattern: a path or a command; "*" for the permission as a whole.
        spellings: other names of the same thing; a rule that denies or asks about one of them applies as well.
        reads_only: whether using it changes nothing.
        follows: patterns of the rights that this one is a consequence of; where rules allow all of them, the
            defaults no longer ask about this one.
    """

    permission: str
    pattern: str
    spellings: tuple[str, ...] = ()
    reads_only: bool = attrs.field(default=False, kw_only=True)
    follows: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Judgement(Value):
    """The verdict on a call, and the rule that decided it.

    Attributes:
        verdict: allow, ask or deny.
        source: the rule, for messages.
        is_default: whether only the defaults decided it; a hook's "allow" may answer such an "ask".
        missing_rights: the rights that the user must allow, where the verdict is "ask".
        offers: the offers of the query that would allow the call; None: all of them.
        confinement: what it is allowed for only as long as a box confines it: "reading", because the defaults take it to
            change nothing, or "sandboxed", because a sandbox keeps it from changing what it should not; empty: neither.
    """

    verdict: Verdict
    source: str
    is_default: bool = False
    missing_rights: tuple[Right, ...] = ()
    offers: tuple[Offer, ...] | None = None
    confinement: Confinement = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionScope(Value):
    """The rules of one session in the chain from the root session to the calling one; all of them must allow a call.

    Attributes:
        session_id: the session.
        turn_id: its turn.
        rules: the rules of its agent.
        is_bound: whether these are plan-mode bounds on top of another scope of the session; they are dropped once the
            plan is approved.
        profile: the profile of the session's folder; that of the root session counts. Empty: the approver's own.
    """

    session_id: SessionId
    turn_id: TurnId
    rules: tuple[Rule, ...] = ()
    is_bound: bool = False
    profile: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionQuery(Value):
    """The rights that a parsed call needs.

    Attributes:
        chain: the sessions from the root down to the calling one.
        call_id: the call.
        cwd: the working directory; relative paths in patterns start there.
        tool: the tool's name.
        read_only: whether the tool declares that it changes nothing.
        permission: the permission that the call is mainly about.
        rights: all rights that it needs.
        offers: what "always" may allow, narrowest first.
        opaque: why its effects cannot be determined in advance; empty if they can.
        sandboxed: whether it runs in a sandbox.
        detail: what the user sees: the command, the change.
        metadata: for clients, as JSON text.
    """

    chain: tuple[PermissionScope, ...]
    call_id: CallId
    cwd: str
    tool: str
    read_only: bool
    permission: str
    rights: tuple[RequiredRight, ...]
    offers: tuple[Offer, ...] = ()
    opaque: str = ""
    sandboxed: bool = False
    detail: str = ""
    metadata: str = ""

    @property
    def session_id(self) -> SessionId:
        """The calling session."""
        return self.chain[-1].session_id

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that the main permission is needed for."""
        return tuple(right.pattern for right in self.rights if right.permission == self.permission)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Allowance(Value):
    """An "always": what the user allows for longer than one call.

    Attributes:
        rights: exactly these.
        scope: how far it reaches; a session's includes its sub-agents.
        seconds: the time limit; None: as long as the scope.
    """

    rights: tuple[Right, ...]
    scope: GrantScope
    seconds: float | None = None


class Approver(Protocol):
    """Decides what a call may do."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return the verdict on a call; pure and quick."""
        ...

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Remember that the user answered *query* with "always". Not a checkpoint."""
        ...


@runtime_checkable
class PersistentApprover(Approver, Protocol):
    """An approver that loads rules and grants before a session begins, and saves new grants."""

    async def prepare(self, cwd: str) -> None:
        """Load what applies to sessions in *cwd*. A checkpoint. Raises `EngineError`."""
        ...

    async def save(self) -> None:
        """Save the grants that outlive the engine. Raises `EngineError`; the grants still apply to this engine."""
        ...


@runtime_checkable
class HidingApprover(Approver, Protocol):
    """An approver that knows which permissions are denied entirely, so that their tools need not be offered."""

    def hides(self, chain: Sequence[PermissionScope], cwd: str, permission: str) -> bool:
        """Return whether the last session of *chain* is denied *permission* for every pattern. Quick."""
        ...


@runtime_checkable
class ProfileApprover(Approver, Protocol):
    """An approver that has profiles, and can use another one for a session."""

    def use_profile(self, session_id: SessionId, profile: str) -> None:
        """Judge what no rule matches by that profile, in a root session and its sub-agents; empty: by its own.

        Not a checkpoint. Raises `ConfigError`, and changes nothing, if it has no such profile, or that would lift a deny.
        """
        ...


@runtime_checkable
class ScopedApprover(Approver, Protocol):
    """An approver whose grants end with the turn or the session that they are for."""

    def end_turn(self, turn_id: TurnId) -> None:
        """Forget the grants for a turn that has ended. Not a checkpoint."""
        ...

    def end_session(self, session_id: SessionId) -> None:
        """Forget the grants for a session that is closed, and for its turns. Not a checkpoint."""
        ...


@runtime_checkable
class WatchingApprover(Approver, Protocol):
    """An approver that judges calls also by what has run before."""

    def note_use(self, query: PermissionQuery) -> None:
        """Note that a call which was permitted runs now. Not a checkpoint."""
        ...


class Opinion(Protocol):
    """A second opinion, from a model or a program, on calls about which the user would be asked."""

    async def __call__(self, query: PermissionQuery, judgement: Judgement) -> Verdict:
        """Return "allow" or "deny" to answer for the user, or "ask" to leave the decision to the user. A checkpoint.

        An exception, or no answer before the hooks' deadline, counts as "ask".
        """
        ...

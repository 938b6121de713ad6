"""Permissions as values: a rule, what a call needs, what is asked and answered; and the port that judges, `Approver`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, Protocol, get_args, runtime_checkable

import attrs

from engine.core.errors import ConfigError
from engine.core.events import GrantScope, Offer, Right, Verdict
from engine.core.ids import CallId, SessionId, TurnId

Action = Literal["allow", "ask", "deny"]

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)  # the stricter, the later
# Stands in a right's pattern for a part that cannot be known before the call runs.
UNKNOWN: Final = "\ufffc"

_NAME: Final = re.compile(r"[^\s:]{1,128}(?::read)?")


@attrs.frozen(kw_only=True)
class Rule:
    """A rule. Raises `ConfigError` if it makes no sense.

    Attributes:
        permission: the name of the right, or a wildcard for several.
        pattern: what it is for, as a path pattern or a wildcard.
        action: what to do.
        override: it lifts a deny of a lower layer.
        origin: where it stands, for people: `file:line`.
    """

    permission: str
    pattern: str
    action: Action
    override: bool = False
    origin: str = ""

    def __attrs_post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigError(f"a rule's action is allow, ask or deny, not {self.action!r}")
        if not _NAME.fullmatch(self.permission):
            raise ConfigError(f"{self.permission!r} is no name of a permission, nor a wildcard for several")
        if not self.pattern.strip():
            raise ConfigError(f"a rule's pattern is empty: '*' means whatever {self.permission} is wanted for")
        if UNKNOWN in self.pattern or "\0" in self.pattern:
            raise ConfigError(f"the pattern {self.pattern!r} can match nothing: it holds a character that nothing has")
        if self.override and self.action == "deny":
            raise ConfigError("a deny needs no override: nothing is above it that it could lift")

    def __str__(self) -> str:
        return f"{self.action}{'!' if self.override else ''} {self.permission} {self.pattern}"

    @property
    def place(self) -> str:
        """Where it stands, in brackets; empty if that is not told."""
        return f" ({self.origin})" if self.origin else ""


@attrs.frozen
class RequiredRight:
    """A right that a call needs.

    Attributes:
        permission: its name.
        pattern: what for: a path, a command; "*" for the permission as a whole.
        spellings: other names of the same thing: a rule that forbids one of them, or asks, holds as well.
        reads_only: it changes nothing.
        follows: the rights, by their patterns, that this one is a consequence of: where rules allow all of them,
            nothing but a rule asks about this one.
    """

    permission: str
    pattern: str
    spellings: tuple[str, ...] = ()
    reads_only: bool = attrs.field(default=False, kw_only=True)
    follows: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen(kw_only=True)
class Judgement:
    """What the rules say of a call, and which rule said it.

    Attributes:
        verdict: go on, ask, or no.
        source: the rule, for people.
        is_default: no rule said it, it is what holds where there is none: a hook's "allow" may answer it.
        missing_rights: those that somebody has to allow, where the verdict is "ask".
        offers: those of the query's offers that would have answered it; None: all of them.
    """

    verdict: Verdict
    source: str
    is_default: bool = False
    missing_rights: tuple[Right, ...] = ()
    offers: tuple[Offer, ...] | None = None


@attrs.frozen(kw_only=True)
class PermissionScope:
    """A session in the chain from the root to the one that asks: what is done there must be allowed to all of them.

    Attributes:
        session_id: the session.
        turn_id: its turn.
        rules: those of its agent.
        is_bound: the rules are no more than bounds, beside another link of the session: they end when a plan was approved.
    """

    session_id: SessionId
    turn_id: TurnId
    rules: tuple[Rule, ...] = ()
    is_bound: bool = False


@attrs.frozen(kw_only=True)
class PermissionQuery:
    """The rights that a parsed call needs.

    Attributes:
        chain: the sessions from the root down to the one that asks.
        call_id: the call.
        cwd: the working directory; patterns which are paths are relative to it.
        tool: the tool's name.
        read_only: the tool says that it changes nothing.
        permission: the kind of right that the call is about.
        rights: all that it needs, the others too.
        offers: what "always" may allow, narrowest first.
        opaque: why nobody can tell what else it would do.
        sandboxed: it is done in a sandbox.
        detail: for a person.
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
        """The session that asks."""
        return self.chain[-1].session_id

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the permission is needed for."""
        return tuple(right.pattern for right in self.rights if right.permission == self.permission)


@attrs.frozen(kw_only=True)
class Allowance:
    """What somebody has allowed for longer than one call.

    Attributes:
        rights: exactly these.
        scope: how far it reaches. A session's holds for its sub-agents as well.
        seconds: how long at most; None: as long as the scope.
    """

    rights: tuple[Right, ...]
    scope: GrantScope
    seconds: float | None = None


class Approver(Protocol):
    """The rules."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say; pure and quick."""
        ...

    def grant(self, query: PermissionQuery, allowed: Allowance) -> None:
        """Somebody answered "always" to what *query* needs: remember it. Not a checkpoint."""
        ...


@runtime_checkable
class PersistentApprover(Approver, Protocol):
    """An approver with something to read before a session begins, and to write when somebody has allowed something."""

    async def prepare(self, cwd: str) -> None:
        """Get ready for sessions that work in *cwd*. A checkpoint. Raises `EngineError`."""
        ...

    async def save(self) -> None:
        """Write what is to outlive the engine. Raises `EngineError`; what was allowed holds all the same."""
        ...


@runtime_checkable
class HidingApprover(Approver, Protocol):
    """An approver that can tell of a right whether it is denied whatever it is for."""

    def hides(self, chain: Sequence[PermissionScope], cwd: str, permission: str) -> bool:
        """Tell whether the last session of *chain* can never have that right: a tool that needs it is not offered. Quick."""
        ...


class Opinion(Protocol):
    """A second opinion on what the rules would ask a person about: a model, a program."""

    async def __call__(self, query: PermissionQuery, judgement: Judgement) -> Verdict:
        """Return "allow" or "deny" to answer in the person's place, "ask" to let the person answer. A checkpoint.

        What it raises, and silence beyond the hooks' deadline, count as "ask".
        """
        ...

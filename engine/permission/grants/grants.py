"""Grants: what the user's "always" allows, for a turn, a session or a project, until it is revoked or expires.

A grant answers what the rules would ask about; what they deny stays denied, so it is looked up
only for an "ask". Its pattern is a rule's pattern and must match a right whatever its unknown
parts are; the other spellings of a right do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.events import GrantScope
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import UNKNOWN, PermissionScope, RequiredRight
from engine.core.value_base import Value
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.rule_index import CommandIndex, PathIndex
from engine.permission.rules.rules import PATH_PERMISSIONS, base_permission
from engine.permission.rules.wildcard import Wildcard

GRANT_SCOPES: Final[tuple[GrantScope, ...]] = get_args(GrantScope)
# Per project and permission; a cache, so it may be dropped as a whole.
_MAX_GRANT_LISTS: Final = 1_000


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GrantOrigin(Value):
    """How a grant came about.

    Attributes:
        session_id: the session whose call was asked about.
        call_id: that call.
        tool: its tool.
        granted: when, in seconds since the epoch.
        by: who answered "always".
    """

    session_id: SessionId
    call_id: CallId
    tool: str
    granted: float
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Grant(Value):
    """A right allowed for longer than one call. Raises `ConfigError` if it is invalid.

    Attributes:
        id: its identifier.
        permission: the permission.
        pattern: what it covers, as in a rule.
        scope: where it applies.
        project: the folder of the project that it applies to, absolute and real.
        session_id: the session that it applies to, with those below it; None for the scope "project".
        turn_id: the turn that it applies to; None unless the scope is "turn".
        until: when it ends, in seconds since the epoch; None: with its scope.
        origin: how it came about.
    """

    id: str
    permission: str
    pattern: str
    scope: GrantScope
    project: str
    session_id: SessionId | None = None
    turn_id: TurnId | None = None
    until: float | None = None
    origin: GrantOrigin

    def __attrs_post_init__(self) -> None:
        if self.scope not in GRANT_SCOPES:
            raise ConfigError(f"a grant's scope is turn, session or project, not {self.scope!r}")
        if not self.id or not self.permission or not self.pattern.strip():
            raise ConfigError("a grant has an id, a permission and a pattern")
        if UNKNOWN in self.pattern:
            raise ConfigError(f"the grant of {self.pattern!r} would cover nothing: a part of it is unknown")
        if not self.project.startswith("/"):
            raise ConfigError(f"a grant's project is an absolute path, not {self.project!r}")
        self._check_scope("session", self.session_id, is_needed=self.scope != "project")
        self._check_scope("turn", self.turn_id, is_needed=self.scope == "turn")
        if self.until is not None and not math.isfinite(self.until):
            raise ConfigError(f"a grant ends at a time, not at {self.until!r}")

    def _check_scope(self, kind: str, identifier: str | None, *, is_needed: bool) -> None:
        if (identifier is not None) != is_needed:
            raise ConfigError(f"a grant for a {self.scope} names {'its' if is_needed else 'no'} {kind}")

    def is_expired(self, now: float) -> bool:
        """Return whether it has expired."""
        return self.until is not None and not now < self.until

    def is_valid_for(self, chain: Collection[PermissionScope], now: float) -> bool:
        """Return whether it applies now to the sessions and turns of *chain*."""
        return (
            (self.session_id is None or any(scope.session_id == self.session_id for scope in chain))
            and (self.turn_id is None or any(scope.turn_id == self.turn_id for scope in chain))
            and not self.is_expired(now)
        )

    def __str__(self) -> str:
        return f"{self.permission} {self.pattern} (for this {self.scope})"


@attrs.frozen(eq=False, repr=False)
class _CompiledGrant:
    grant: Grant
    pattern: Wildcard | PathPattern


@attrs.frozen(eq=False, repr=False)
class _GrantList:
    """The grants of one permission in one project, in the order in which they were added."""

    compiled: Sequence[_CompiledGrant]
    index: CommandIndex | PathIndex


@attrs.define(eq=False, repr=False)
class Grants:
    """All grants of an engine.

    Attributes:
        home: the user's home folder, absolute and real.
    """

    home: str
    _compiled: dict[str, _CompiledGrant] = attrs.field(init=False, factory=dict[str, _CompiledGrant])
    # A cache, by project and permission; cleared when a grant is added or dropped.
    _grant_lists: dict[tuple[str, str], _GrantList] = attrs.field(init=False, factory=dict[tuple[str, str], _GrantList])

    def add(self, grant: Grant) -> None:
        """Add a grant. Raises `ConfigError` if its pattern matches nothing, or its id exists already."""
        self.add_all([grant])

    def add_all(self, grants: Iterable[Grant]) -> None:
        """Add several grants, or none of them. Raises `ConfigError` as `add` does."""
        ready: dict[str, _CompiledGrant] = {}
        for grant in grants:
            if grant.id in self._compiled or grant.id in ready:
                raise ConfigError(f"there is a grant {grant.id} already")
            ready[grant.id] = self._compile(grant)
        self._compiled.update(ready)
        self._grant_lists.clear()

    def replace_project_grants(self, grants: Iterable[Grant]) -> None:
        """Replace all grants for projects by *grants*, the content of their file. Raises `ConfigError`, and changes nothing."""
        fresh = {grant.id: self._compile(grant) for grant in grants}
        if any(compiled.grant.scope != "project" for compiled in fresh.values()):
            raise ConfigError("only grants for a project are stored in the file")
        others = {name: compiled for name, compiled in self._compiled.items() if compiled.grant.scope != "project"}
        self._compiled = fresh | others
        self._grant_lists.clear()

    def current(self, now: float) -> tuple[Grant, ...]:
        """Return the grants that have not expired, oldest first."""
        compiled = (compiled.grant for compiled in self._compiled.values())
        return tuple(
            sorted((grant for grant in compiled if not grant.is_expired(now)), key=lambda one: one.origin.granted)
        )

    def of_session(self, path: Collection[SessionId], project: str, now: float) -> tuple[Grant, ...]:
        """Return the grants that apply to a session of a project, oldest first; *path*: the session and those above it."""
        return tuple(
            grant for grant in self.current(now) if grant.project == project and grant.session_id in {None, *path}
        )

    def revoke(self, name: str) -> Grant:
        """Remove a grant and return it. Raises `ConfigError` if there is none with that id."""
        compiled = self._compiled.pop(name, None)
        if compiled is None:
            raise ConfigError(f"there is no grant {name!r}: it was revoked, has expired, or never existed")
        self._grant_lists.clear()
        return compiled.grant

    def end_turn(self, turn_id: TurnId) -> None:
        """Drop the grants for a turn."""
        self._drop(lambda grant: grant.turn_id == turn_id)

    def drop_other_turns(self, session_id: SessionId, turn_id: TurnId) -> None:
        """Drop the grants for other turns of a session: it has one turn at a time, so those have ended."""
        self._drop(lambda grant: grant.session_id == session_id and grant.turn_id not in {None, turn_id})

    def end_session(self, session_id: SessionId) -> None:
        """Drop the grants for a session and its turns."""
        self._drop(lambda grant: grant.session_id == session_id)

    def drop_expired(self, now: float) -> None:
        """Drop the grants that have expired; they no longer count anyway."""
        self._drop(lambda grant: grant.is_expired(now))

    def find(self, right: RequiredRight, chain: Collection[PermissionScope], project: str, now: float) -> Grant | None:
        """Return a grant that covers *right* for a session; None if there is none.

        Args:
            right: the right; its other spellings do not count.
            chain: the session and those above it, each with its turn.
            project: the session's project: its folder, absolute and real.
            now: the time, in seconds since the epoch.
        """
        for permission in dict.fromkeys((right.permission, base_permission(right.permission))):
            book = self._grant_list(project, permission)
            # The candidates come latest first; the oldest grant that covers the right is the one to name.
            for number in reversed(book.index.candidates(right.pattern)):
                compiled = book.compiled[number]
                if compiled.grant.is_valid_for(chain, now) and compiled.pattern.matches(right.pattern):
                    return compiled.grant
        return None

    def _grant_list(self, project: str, permission: str) -> _GrantList:
        grant_list = self._grant_lists.get((project, permission))
        if grant_list is None:
            compiled = [
                one
                for one in self._compiled.values()
                if (one.grant.project, one.grant.permission) == (project, permission)
            ]
            if base_permission(permission) in PATH_PERMISSIONS:
                paths = [one.pattern for one in compiled if isinstance(one.pattern, PathPattern)]
                grant_list = _GrantList(compiled, PathIndex(paths, project))
            else:
                grant_list = _GrantList(
                    compiled, CommandIndex([one.pattern for one in compiled if isinstance(one.pattern, Wildcard)])
                )
            if len(self._grant_lists) >= _MAX_GRANT_LISTS:
                self._grant_lists.clear()
            self._grant_lists[project, permission] = grant_list
        return grant_list

    def _compile(self, grant: Grant) -> _CompiledGrant:
        if base_permission(grant.permission) in PATH_PERMISSIONS:
            return _CompiledGrant(grant, PathPattern(grant.pattern, grant.project, self.home))
        return _CompiledGrant(grant, Wildcard(grant.pattern))

    def _drop(self, is_over: Callable[[Grant], bool]) -> None:
        names = [name for name, compiled in self._compiled.items() if is_over(compiled.grant)]
        for name in names:
            del self._compiled[name]
        if names:  # every turn that ends comes here, and few have grants
            self._grant_lists.clear()

"""What somebody's "always" has given: for a turn, a session, or a project, until it is revoked or over.

A grant answers what the rules would ask about; what they deny stays denied, so whoever
judges looks here only for an "ask". Its pattern is one of a rule's, and must match
whatever the unknown words of a right are; its other spellings give it nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import UNKNOWN, PermissionScope, RequiredRight
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.rule_index import CommandIndex, PathIndex
from engine.permission.rules.rules import PATH_PERMISSIONS, base_of
from engine.permission.rules.wildcard import Wildcard

Scope = Literal["turn", "session", "project"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_MAX_BOOKS: Final = 1_000


@attrs.frozen(kw_only=True)
class Origin:
    """How a grant came about.

    Attributes:
        session_id: the session whose call asked.
        call_id: that call.
        tool: its tool.
        granted: when, in seconds since the epoch.
        by: who said "always".
    """

    session_id: SessionId
    call_id: CallId
    tool: str
    granted: float
    by: str = ""


@attrs.frozen(kw_only=True)
class Grant:
    """A right that was given for longer than one call. Raises `ConfigError` if it makes no sense.

    Attributes:
        id: its name.
        permission: the name of the right.
        pattern: what it is for, as a rule's.
        scope: how long, at most.
        project: the project that it holds in: its folder, absolute and real.
        session_id: the session that it holds in, and in those below it; None with the scope "project".
        turn_id: the turn that it holds in; None with any other scope than "turn".
        until: when it ends, in seconds since the epoch; None: with its scope.
        origin: how it came about.
    """

    id: str
    permission: str
    pattern: str
    scope: Scope
    project: str
    session_id: SessionId | None = None
    turn_id: TurnId | None = None
    until: float | None = None
    origin: Origin

    def __attrs_post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise ConfigError(f"a grant's scope is turn, session or project, not {self.scope!r}")
        if not self.id or not self.permission or not self.pattern.strip():
            raise ConfigError("a grant has an id, a permission and a pattern")
        if UNKNOWN in self.pattern:
            raise ConfigError(f"the grant of {self.pattern!r} would cover nothing: a part of it is not known")
        if not self.project.startswith("/"):
            raise ConfigError(f"a grant's project is an absolute path, not {self.project!r}")
        if (self.session_id is None) != (self.scope == "project"):
            raise ConfigError(f"a grant for a {self.scope} names {'no' if self.session_id else 'its'} session")
        if (self.turn_id is None) != (self.scope != "turn"):
            raise ConfigError(f"a grant for a {self.scope} names {'no' if self.turn_id else 'its'} turn")
        if self.until is not None and not math.isfinite(self.until):
            raise ConfigError(f"a grant ends at a time, not at {self.until!r}")

    def is_over(self, now: float) -> bool:
        """Tell whether its time is up."""
        return self.until is not None and not now < self.until

    def is_valid_for(self, chain: Collection[PermissionScope], now: float) -> bool:
        """Tell whether it holds now in the sessions and turns of *chain*."""
        return (
            (self.session_id is None or any(scope.session_id == self.session_id for scope in chain))
            and (self.turn_id is None or any(scope.turn_id == self.turn_id for scope in chain))
            and not self.is_over(now)
        )

    def __str__(self) -> str:
        return f"{self.permission} {self.pattern} (for this {self.scope})"


@attrs.frozen(eq=False)
class _Held:
    grant: Grant
    pattern: Wildcard | PathPattern


@attrs.frozen(eq=False)
class _Book:
    """The grants of one right in one project, in the order in which they came."""

    held: Sequence[_Held]
    index: CommandIndex | PathIndex


@attrs.define(eq=False)
class Grants:
    """All grants that an engine knows of.

    Attributes:
        home: the user's home folder, absolute and real.
    """

    home: str
    _held: dict[str, _Held] = attrs.field(init=False, factory=dict[str, _Held])
    # Made when somebody asks, and forgotten when something changes: by project and permission.
    _books: dict[tuple[str, str], _Book] = attrs.field(init=False, factory=dict[tuple[str, str], _Book])

    def add(self, grant: Grant) -> None:
        """Remember a grant. Raises `ConfigError` if its pattern can match nothing, or its id is taken."""
        self.add_all([grant])

    def add_all(self, grants: Iterable[Grant]) -> None:
        """Remember several grants, or none of them. Raises `ConfigError` as `add` does."""
        ready: dict[str, _Held] = {}
        for grant in grants:
            if grant.id in self._held or grant.id in ready:
                raise ConfigError(f"there is a grant {grant.id} already")
            ready[grant.id] = self._ready(grant)
        self._held.update(ready)
        self._books.clear()

    def keep(self, grants: Iterable[Grant]) -> None:
        """Put *grants* in the place of all those for projects: what their file holds now. Raises `ConfigError`, and changes nothing."""
        fresh = {grant.id: self._ready(grant) for grant in grants}
        if any(held.grant.scope != "project" for held in fresh.values()):
            raise ConfigError("only grants for a project are kept")
        others = {name: held for name, held in self._held.items() if held.grant.scope != "project"}
        self._held = fresh | others
        self._books.clear()

    def current(self, now: float) -> tuple[Grant, ...]:
        """Return the grants whose time is not up, in the order in which they were given."""
        held = (held.grant for held in self._held.values())
        return tuple(sorted((grant for grant in held if not grant.is_over(now)), key=lambda one: one.origin.granted))

    def revoke(self, name: str) -> Grant:
        """Take a grant back, and return it. Raises `ConfigError` if there is none of that id."""
        held = self._held.pop(name, None)
        if held is None:
            raise ConfigError(f"there is no grant {name!r}: it was revoked, is over, or was never given")
        self._books.clear()
        return held.grant

    def end_turn(self, turn_id: TurnId) -> None:
        """Drop what was given for a turn."""
        self._drop(held.grant.id for held in list(self._held.values()) if held.grant.turn_id == turn_id)

    def end_other_turns(self, session_id: SessionId, turn_id: TurnId) -> None:
        """Drop what was given for other turns of a session: it has one at a time, so they are over."""
        self._drop(
            held.grant.id
            for held in list(self._held.values())
            if held.grant.session_id == session_id and held.grant.turn_id not in {None, turn_id}
        )

    def end_session(self, session_id: SessionId) -> None:
        """Drop what was given for a session, or a turn of it."""
        self._drop(held.grant.id for held in list(self._held.values()) if held.grant.session_id == session_id)

    def drop_over(self, now: float) -> None:
        """Forget the grants whose time is up; they have counted for nothing since."""
        self._drop(held.grant.id for held in list(self._held.values()) if held.grant.is_over(now))

    def find(self, right: RequiredRight, chain: Collection[PermissionScope], project: str, now: float) -> Grant | None:
        """Return a grant that covers *right* for a session; None if there is none.

        Args:
            right: the right; its other spellings do not count.
            chain: the session and those above it, each with its turn.
            project: the session's project: its folder, absolute and real.
            now: the time, in seconds since the epoch.
        """
        for permission in dict.fromkeys((right.permission, base_of(right.permission))):
            book = self._book(project, permission)
            for number in reversed(book.index.candidates(right.pattern)):
                held = book.held[number]
                if held.grant.is_valid_for(chain, now) and held.pattern.matches(right.pattern):
                    return held.grant
        return None

    def _book(self, project: str, permission: str) -> _Book:
        found = self._books.get((project, permission))
        if found is None:
            held = [
                one for one in self._held.values() if (one.grant.project, one.grant.permission) == (project, permission)
            ]
            if base_of(permission) in PATH_PERMISSIONS:
                paths = [one.pattern for one in held if isinstance(one.pattern, PathPattern)]
                found = _Book(held, PathIndex(paths, project))
            else:
                found = _Book(held, CommandIndex([one.pattern for one in held if isinstance(one.pattern, Wildcard)]))
            if len(self._books) >= _MAX_BOOKS:
                self._books.clear()
            self._books[project, permission] = found
        return found

    def _ready(self, grant: Grant) -> _Held:
        if base_of(grant.permission) in PATH_PERMISSIONS:
            return _Held(grant, PathPattern(grant.pattern, grant.project, self.home))
        return _Held(grant, Wildcard(grant.pattern))

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._held.pop(name, None)
        self._books.clear()

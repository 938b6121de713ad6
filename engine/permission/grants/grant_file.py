"""The file of grants for projects, which outlive the engine. Its methods block, so they run in a thread that is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError
from engine.core.ids import CallId, SessionId
from engine.core.value_base import Value
from engine.permission.grants.grants import Grant, GrantOrigin
from engine.permission.grants.state_file import StateFile

NAME: Final = "grants.json"
_TEXTS: Final = ("id", "permission", "pattern", "project")
_TEXTS_OF_ORIGIN: Final = ("session_id", "call_id", "tool", "by")


@attrs.frozen(eq=False, repr=False)
class GrantFile(Value):
    """Stores grants. Its methods raise `ConfigError` for an invalid file, `StoreError` for one that can't be used."""

    path: Path

    def load(self) -> tuple[Grant, ...]:
        """Return all stored grants."""
        return tuple(self._grants(self._file.read()))

    def add(self, grant: Grant, now: float) -> tuple[Grant, ...]:
        """Store one more, drop expired ones, and return all."""
        return self.add_all([grant], now)

    def add_all(self, grants: Sequence[Grant], now: float) -> tuple[Grant, ...]:
        """Store several more, all of them or none, drop expired ones, and return all."""
        for grant in grants:
            if grant.scope != "project":
                raise ConfigError(f"a grant for a {grant.scope} is not stored")

        def add_to(entries: Sequence[object]) -> Sequence[object]:
            kept = {each.id: each for each in self._grants(entries) if not each.is_expired(now)}
            for grant in grants:
                if grant.id in kept:
                    raise ConfigError(f"there is a grant {grant.id} already")
                kept[grant.id] = grant
            return [_encode(each) for each in kept.values()]

        return tuple(self._grants(self._file.update(add_to)))

    def revoke(self, name: str) -> tuple[Grant, ...]:
        """Remove the grant with that id, and return the others."""

        def remove_from(entries: Sequence[object]) -> Sequence[object]:
            grants = self._grants(entries)
            kept = [_encode(grant) for grant in grants if grant.id != name]
            if len(kept) == len(grants):
                raise ConfigError(f"there is no grant {name!r} in {self.path}")
            return kept

        return tuple(self._grants(self._file.update(remove_from)))

    @property
    def _file(self) -> StateFile:
        return StateFile(self.path, "grants")

    def _grants(self, entries: Sequence[object]) -> list[Grant]:
        grants: dict[str, Grant] = {}
        for number, entry in enumerate(entries, 1):
            try:
                grant = _decode(entry)
            except ConfigError as error:
                raise ConfigError(
                    f"{self.path} is invalid, so it is ignored: its grant {number}: {error}. Repair it, or move it away."
                ) from error
            if grant.id in grants:
                raise ConfigError(f"{self.path}: there are two grants {grant.id}, so it is ignored")
            grants[grant.id] = grant
        return list(grants.values())


def _encode(grant: Grant) -> dict[str, object]:
    return {
        **{name: getattr(grant, name) for name in (*_TEXTS, "until")},
        "origin": attrs.asdict(grant.origin),
    }


def _decode(entry: object) -> Grant:
    values = _require_keys(entry, {*_TEXTS, "until", "origin"})
    origin = _require_keys(values["origin"], {*_TEXTS_OF_ORIGIN, "granted"})
    name, permission, pattern, project = (_text(values, name) for name in _TEXTS)
    session, call, tool, by = (_text(origin, name) for name in _TEXTS_OF_ORIGIN)
    granted = _number(origin, "granted")
    return Grant(
        id=name,
        permission=permission,
        pattern=pattern,
        scope="project",
        project=project,
        until=None if values["until"] is None else _number(values, "until"),
        origin=GrantOrigin(session_id=SessionId(session), call_id=CallId(call), tool=tool, granted=granted, by=by),
    )


def _require_keys(value: object, names: set[str]) -> dict[str, object]:
    """Return an object with exactly these keys: another one may be a limit that this engine does not know."""
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if members.keys() != names:
        raise ConfigError(f"it must have {', '.join(sorted(names))}, and nothing else")
    return members


def _text(values: dict[str, object], name: str) -> str:
    value = values[name]
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a text")
    return value


def _number(values: dict[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a number")
    return value

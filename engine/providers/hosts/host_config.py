"""The available hosts: the table, with the user's overrides and additions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import attrs

from engine.config.config import Config, HostConfig, QuirkValue, suggest_names
from engine.core.errors import ConfigError
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.wire.quirks import Quirks

_SETS = frozenset(name for name, value in attrs.asdict(Quirks(), recurse=False).items() if isinstance(value, frozenset))


def hosts_of(config: Config) -> Mapping[str, Host]:
    """Return all hosts by name. Raises `ConfigError` for an invalid one."""
    return {**BY_NAME, **{name: _apply_overrides(name, overrides) for name, overrides in config.hosts.items()}}


def host_named(name: str, config: Config) -> Host | None:
    """Return the host *name*, or None. Raises `ConfigError` for an invalid one."""
    if name in config.hosts:
        return _apply_overrides(name, config.hosts[name])
    return BY_NAME.get(name)


def _apply_overrides(name: str, overrides: HostConfig) -> Host:
    base = _base(name, overrides)
    changes: dict[str, Any] = {"name": name, "quirks": _quirks(name, base.quirks, overrides.quirks)}
    changes |= {
        field: value
        for field in ("title", "auth", "path", "silence")
        if (value := getattr(overrides, field)) is not None
    }
    if overrides.local is not None:
        changes["is_local"] = overrides.local
    if overrides.parallel is not None:
        # 0 means no limit.
        changes["parallel"] = overrides.parallel or None
    if overrides.key is not None:
        changes |= {
            "key_variables": (overrides.key,) if overrides.key else (),
            "token_variables": (),
            "key_optional": False,
        }
        changes |= _auth(base, overrides)
    if overrides.key_command:
        changes["key_command"] = overrides.key_command
        changes |= _auth(base, overrides)
    if overrides.local and "empty_content" not in overrides.quirks:
        # Most servers that users run are wrappers around llama.cpp, whose chat templates fail on null.
        changes["quirks"] = attrs.evolve(changes["quirks"], empty_content=True)
    return attrs.evolve(base, headers={**base.headers, **overrides.headers}, **changes)


def _base(name: str, overrides: HostConfig) -> Host:
    """Return the host that *overrides* apply to."""
    base = BY_NAME.get(overrides.like or name)
    if base is None and overrides.like:
        raise ConfigError(
            f"host {name}: `like` names no host {overrides.like!r}: {suggest_names(overrides.like, BY_NAME)}"
        )
    if base is None:
        if not overrides.wire or not overrides.base_url:
            raise ConfigError(f"host {name} needs `base_url` and either `wire` or `like`")
        return Host(name=name, title=name, wire=overrides.wire, auth="none", prices="-", example="model")
    if overrides.wire is not None and overrides.wire != base.wire:
        # Paths and quirks of one wire format make no sense in another.
        base = attrs.evolve(base, wire=overrides.wire, path="", quirks=Quirks())
    if overrides.like and overrides.like != name:
        # The other host's variables do not apply to this one.
        base = attrs.evolve(base, like=base.name, title=name, base_variables=(), note="")
    return base


def _auth(base: Host, overrides: HostConfig) -> dict[str, Any]:
    if not overrides.key and not overrides.key_command:
        return {"auth": "none"}
    return {"auth": "bearer"} if overrides.auth is None and base.auth == "none" else {}


def _quirks(host: str, base: Quirks, overrides: Mapping[str, QuirkValue]) -> Quirks:
    changes: dict[str, Any] = {name: parse_quirk(name, value, f"host {host}") for name, value in overrides.items()}
    return attrs.evolve(base, **changes)


def parse_quirk(name: str, value: QuirkValue, setting: str) -> object:
    """Convert *value* to the type of the quirk *name*. Raises `ConfigError` if it is invalid."""
    fields = attrs.fields_dict(Quirks)
    if name not in fields:
        raise ConfigError(f"{setting}: unknown quirk {name!r}: {suggest_names(name, fields)}")
    default, allowed = fields[name].default, _allowed_words(name)
    converted = value if not isinstance(value, tuple) else (frozenset(value) if name in _SETS else value)
    fits = _has_type_of(converted, default, name)
    if fits and allowed:
        fits = all(
            word in allowed for word in (converted if isinstance(converted, (tuple, frozenset)) else (converted,))
        )
    if not fits:
        what = f"one of {', '.join(repr(word) for word in allowed)}" if allowed else f"like {default!r}"
        raise ConfigError(f"{setting}: quirk {name} must be {what}, not {value!r}")
    return converted


def _has_type_of(value: object, default: object, name: str) -> bool:
    # Their default is None, which says nothing about their type.
    if name.startswith("default_"):
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    return type(value) is type(default)


def _allowed_words(name: str) -> tuple[str, ...]:
    """Return the literals that a quirk allows; empty if it allows any value of its type."""
    hint: object = _quirk_types()[name]
    while hint is not None:
        words = get_args(hint)
        if words and all(isinstance(word, str) for word in words):
            return words
        hint = next((word for word in words if get_args(word)), None)
    return ()


@cache
def _quirk_types() -> Mapping[str, object]:
    return get_type_hints(Quirks)

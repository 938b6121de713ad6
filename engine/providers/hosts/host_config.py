"""The hosts that are known here: those of the table, and what the user says of them and adds to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import attrs

from engine.config.config import Config, HostConfig, QuirkValue, known
from engine.core.errors import ConfigError
from engine.providers.hosts.host import Host
from engine.providers.hosts.table import BY_NAME
from engine.providers.wire.quirks import Quirks

_SETS = frozenset(name for name, value in attrs.asdict(Quirks(), recurse=False).items() if isinstance(value, frozenset))


def hosts_of(config: Config) -> Mapping[str, Host]:
    """Return all hosts by name. Raises `ConfigError` for one that can't be."""
    return {**BY_NAME, **{name: _configured(name, said) for name, said in config.hosts.items()}}


def host_named(name: str, config: Config) -> Host | None:
    """Return one host; None if there is none of that name. Raises `ConfigError` for one that can't be."""
    if name in config.hosts:
        return _configured(name, config.hosts[name])
    return BY_NAME.get(name)


def _configured(name: str, said: HostConfig) -> Host:
    base = _base(name, said)
    changes: dict[str, Any] = {"name": name, "quirks": _quirks(name, base.quirks, said.quirks)}
    changes |= {field: value for field in ("title", "auth", "path") if (value := getattr(said, field)) is not None}
    if said.local is not None:
        changes["is_local"] = said.local
    if said.parallel is not None:
        changes["parallel"] = said.parallel or None
    if said.key is not None:
        changes |= {"key_variables": (said.key,) if said.key else (), "token_variables": (), "key_optional": False}
        changes |= _auth(base, said)
    return attrs.evolve(base, headers={**base.headers, **said.headers}, **changes)


def _base(name: str, said: HostConfig) -> Host:
    """Return what a host is like before what is said of it."""
    base = BY_NAME.get(said.like or name)
    if base is None and said.like:
        raise ConfigError(f"host {name}: there is no host {said.like!r} to be like: {known(said.like, BY_NAME)}")
    if base is None:
        if not said.wire or not said.base_url:
            raise ConfigError(f"host {name} needs a base_url, and a wire or the name of a host that it is like")
        return Host(name=name, title=name, wire=said.wire, auth="none", prices="-", example="model")
    if said.wire is not None and said.wire != base.wire:
        # The paths and quirks of one format mean nothing in another.
        base = attrs.evolve(base, wire=said.wire, path="", quirks=Quirks())
    if said.like and said.like != name:
        # What the environment says of the address of the other is not meant for this one.
        base = attrs.evolve(base, like=base.name, title=name, base_variables=(), note="")
    return base


def _auth(base: Host, said: HostConfig) -> dict[str, Any]:
    if not said.key:
        return {"auth": "none"}
    return {"auth": "bearer"} if said.auth is None and base.auth == "none" else {}


def _quirks(host: str, base: Quirks, said: Mapping[str, QuirkValue]) -> Quirks:
    changes: dict[str, Any] = {name: quirk(name, value, f"host {host}") for name, value in said.items()}
    return attrs.evolve(base, **changes)


def quirk(name: str, value: QuirkValue, whose: str) -> object:
    """Return *value* as the quirk *name* has it; raise `ConfigError` if it can't have it."""
    fields = attrs.fields_dict(Quirks)
    if name not in fields:
        raise ConfigError(f"{whose}: there is no quirk {name!r}: {known(name, fields)}")
    usual, words = fields[name].default, _words(name)
    given = value if not isinstance(value, tuple) else (frozenset(value) if name in _SETS else value)
    fits = _fits(given, usual, name)
    if fits and words:
        fits = all(word in words for word in (given if isinstance(given, (tuple, frozenset)) else (given,)))
    if not fits:
        what = f"one of {', '.join(repr(word) for word in words)}" if words else f"like {usual!r}"
        raise ConfigError(f"{whose}: quirk {name} must be {what}, not {value!r}")
    return given


def _fits(given: object, usual: object, name: str) -> bool:
    if name.startswith("default_"):
        return given is None or (isinstance(given, (int, float)) and not isinstance(given, bool))
    return type(given) is type(usual)


def _words(name: str) -> tuple[str, ...]:
    """Return the words that a quirk may be, or be a set of; none: any."""
    hint: object = _hints()[name]
    while hint is not None:
        words = get_args(hint)
        if words and all(isinstance(word, str) for word in words):
            return words
        hint = next((word for word in words if get_args(word)), None)
    return ()


@cache
def _hints() -> Mapping[str, object]:
    return get_type_hints(Quirks)

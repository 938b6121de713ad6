"""Selects the authentication for a host: variables of the environment, stored keys, a command; clouds have their own ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal

import attrs

from engine.core.errors import ConfigError, MissingKey
from engine.core.value_base import Value
from engine.providers.auth.auth import Auth, ExtraHeadersAuth, KeyAuth, NoAuth
from engine.providers.auth.auth_file import stored_key
from engine.providers.auth.key_text import require_key
from engine.providers.hosts.host import Host

Source = Literal["variable", "auth file", "keyring", "key command", "cloud", "none"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Credential(Value):
    """Where the credential of a host comes from.

    Attributes:
        source: the kind of place; "cloud": AWS's or Google's own credentials; "none": the host needs no key.
        name: the variable, the file or the program; empty for others.
        key: the key; empty if it is not known before a request: of a keyring, a command or a cloud.
        added: when it was stored, in seconds since 1970; None: not known.
    """

    source: Source
    name: str = ""
    key: str = attrs.field(default="", repr=False)
    added: float | None = None


def auth_of(host: Host, env: Mapping[str, str], auth_file: str = "") -> Auth:
    """Return the authentication for *host*. It reads the file. Raises `ConfigError` if the key is missing or invalid.

    Args:
        host: the host.
        env: the environment.
        auth_file: the file with stored keys; empty: none is used.
    """
    hidden = {name: _secret(value[1:], env) for name, value in host.headers.items() if value.startswith("$")}
    auth = _key_auth(host, env, auth_file)
    return ExtraHeadersAuth(auth, hidden) if hidden else auth


def credential_of(host: Host, env: Mapping[str, str], auth_file: str = "") -> Credential:
    """Return where the credential of *host* comes from, in the order of `auth_of`. It reads the file.

    Raises `MissingKey` if there is none, `ConfigError` if one is invalid. Asks no keyring, and runs no command.
    """
    if host.auth == "none":
        return Credential(source="none")
    for variable in key_variables(host):
        if key := _value(variable, env):
            return Credential(source="variable", name=variable, key=key)
    if stored := stored_key(auth_file, host.name):
        if stored.is_in_keyring:
            return Credential(source="keyring", added=stored.added)
        key = require_key(stored.key, f"the key of {host.name} in {auth_file}")
        return Credential(source="auth file", name=auth_file, key=key, added=stored.added)
    if host.key_command:
        return Credential(source="key command", name=host.key_command[0])
    if host.key_optional:
        return Credential(source="none")
    if host.auth in {"google", "aws"}:
        return Credential(source="cloud")
    variables = " or ".join(key_variables(host))
    raise MissingKey(
        f"no key for {host.name}: set the environment variable {variables}"
        if variables
        else f"no key for {host.name}\nNext: engine auth add {host.name}",
        host=host.name,
    )


def _key_auth(host: Host, env: Mapping[str, str], auth_file: str) -> Auth:
    credential = credential_of(host, env, auth_file)
    # An API key of a cloud is a bearer token; its signatures use other credentials.
    is_bearer = host.auth in {"bearer", "aws", "google"} or credential.name in host.token_variables
    header, scheme = ("authorization", "Bearer") if is_bearer else (host.auth, "")
    match credential.source:
        case "none":
            return NoAuth()
        case "cloud":
            return _google(env) if host.auth == "google" else _aws(host, env)
        case "variable" | "auth file":
            return KeyAuth(header, credential.key, scheme)
        case "keyring" | "key command":
            # Imported here: most keys are in variables.
            from engine.providers.auth.fetched_key import FetchedKeyAuth

            return FetchedKeyAuth(host.name, header, scheme, fetch_of(host, credential))


def fetch_of(host: Host, credential: Credential) -> Callable[[str], Awaitable[str]]:
    """Return what fetches a key of a keyring or a command; it gets the key that was refused last, or an empty text."""
    from engine.providers.auth.fetched_key import key_of_command, key_of_keyring

    if credential.source == "keyring":
        return partial(key_of_keyring, host.name)
    return partial(key_of_command, host.name, host.key_command)


def _google(env: Mapping[str, str]) -> Auth:
    from engine.providers.auth.google import google_auth

    return google_auth(env)


def _aws(host: Host, env: Mapping[str, str]) -> Auth:
    from engine.providers.auth.aws_credentials import aws_auth

    # The two are separate services with separate permissions.
    return aws_auth(env, "bedrock-mantle" if "bedrock-mantle" in host.base_url else "bedrock")


def with_region(host: Host, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return *env* with the region of AWS's configuration files, for a host at AWS."""
    if host.auth != "aws":
        return env
    from engine.providers.auth.aws_credentials import REGION_VARIABLES, region_of

    region = region_of(env)
    return {**env, REGION_VARIABLES[0]: region} if region else env


def key_variables(host: Host) -> tuple[str, ...]:
    """Return the environment variables for the key, the usual one first."""
    return (*host.key_variables, *host.token_variables)


def public_headers(host: Host) -> Mapping[str, str]:
    """Return the headers of *host* that are not secret."""
    return {name: value for name, value in host.headers.items() if not value.startswith("$")}


def _value(variable: str, env: Mapping[str, str]) -> str:
    return require_key(env.get(variable, ""), variable)


def _secret(variable: str, env: Mapping[str, str]) -> str:
    value = _value(variable, env)
    if not value:
        raise ConfigError(f"the environment variable {variable} is not set, but a configured header uses it")
    return value

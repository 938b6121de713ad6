"""Selects the authentication for a host from the environment."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.errors import ConfigError, MissingKey
from engine.providers.auth.auth import Auth, ExtraHeadersAuth, KeyAuth, NoAuth
from engine.providers.hosts.host import Host


def auth_of(host: Host, env: Mapping[str, str]) -> Auth:
    """Return the authentication for *host*. Raises `ConfigError` if the key is missing or invalid."""
    hidden = {name: _secret(value[1:], env) for name, value in host.headers.items() if value.startswith("$")}
    auth = _key_auth(host, env)
    return ExtraHeadersAuth(auth, hidden) if hidden else auth


def _key_auth(host: Host, env: Mapping[str, str]) -> Auth:
    if host.auth == "none":
        return NoAuth()
    for variable in host.key_variables:
        if key := _value(variable, env):
            # An API key of a cloud is a bearer token; its signatures use other credentials.
            is_bearer = host.auth in {"bearer", "aws", "google"}
            return KeyAuth("authorization", key, "Bearer") if is_bearer else KeyAuth(host.auth, key)
    for variable in host.token_variables:
        if token := _value(variable, env):
            return KeyAuth("authorization", token, "Bearer")
    if host.key_optional:
        return NoAuth()
    if host.auth == "google":
        return _google(env)
    if host.auth == "aws":
        return _aws(host, env)
    raise MissingKey(f"no key for {host.name}: set the environment variable {' or '.join(key_variables(host))}")


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
    value = env.get(variable, "").strip()
    # It becomes a header: the HTTP library would quote an invalid one in its error.
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        raise ConfigError(f"{variable} contains a character that no key has: set it again, on one line")
    return value


def _secret(variable: str, env: Mapping[str, str]) -> str:
    value = _value(variable, env)
    if not value:
        raise ConfigError(f"the environment variable {variable} is not set, but a configured header uses it")
    return value

"""Base URLs: the table's own, or one from the environment or the configuration.

Users write addresses in the form that another client wants: with or without the version at the end, with the whole
path of a request, without `http://`. All recognisable forms are accepted. An address may contain a password, so errors
never show the address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from engine.config.host_values import WireName
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.providers.hosts.host import Host

# Prefixes of the wire formats' own paths, which a base URL must not repeat.
_VERSIONS: Mapping[WireName, tuple[str, ...]] = {
    "anthropic": ("/v1",),
    "gemini": ("/v1beta", "/v1"),
    "cohere": ("/v2", "/v1"),
}
_REQUEST_PATHS = ("/chat/completions", "/responses", "/messages", "/chat")
_PLACEHOLDER = regex(r"\{([^{}]+)\}")
_MODEL = "{model}"
_PATH_PART = regex(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_HOST_PART = regex(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# Servers listen on these; clients connect to loopback.
_WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  # replaced, never bound


def base_url_of(host: Host, env: Mapping[str, str], configured: str | None = None) -> str:
    """Return the base URL of *host*, without a trailing slash. Raises `ConfigError` if it is unset or invalid.

    Args:
        host: the host.
        env: the environment, which overrides the table.
        configured: the configured URL, which overrides both.
    """
    if configured:
        return normalize_url(configured, f"base_url of host {host.name}", host)
    for variable in host.base_variables:
        if url := env.get(variable, "").strip():
            return normalize_url(url, variable, host)
    return _own_url(host, env)


def path_of(host: Host, env: Mapping[str, str]) -> str:
    """Return the request path, which may hold `{model}`; empty: the wire format's default."""
    return _fill_template(host.path, host, env, _PATH_PART)


def missing_variables(host: Host, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables of which one must be set to know the host's address; empty if it is known."""
    if not any(env.get(variable, "").strip() for variable in host.base_variables):
        if not host.base_url:
            return host.base_variables
        if variables := _unset(host.base_url, env):
            return (*host.base_variables, *variables)
    return _unset(host.path, env)


def _unset(template: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of the first placeholder in *template* that is unset."""
    for place in _PLACEHOLDER.finditer(template):
        variables = tuple(place[1].split("|"))
        if place[0] != _MODEL and not any(env.get(variable, "").strip() for variable in variables):
            return variables
    return ()


def _own_url(host: Host, env: Mapping[str, str]) -> str:
    if missing := missing_variables(host, env):
        raise ConfigError(
            f"the address of {host.title} is not set: set the environment variable {' or '.join(missing)}"
        )
    if place := _PLACEHOLDER.search(host.base_url):
        _, value = _placeholder_value(place, env)
        if value in host.regional_urls:
            return host.regional_urls[value]
    return _fill_template(host.base_url, host, env, _HOST_PART)


def _fill_template(template: str, host: Host, env: Mapping[str, str], allowed: re.Pattern[str]) -> str:
    if missing := _unset(template, env):
        raise ConfigError(
            f"the address of {host.title} is not set: set the environment variable {' or '.join(missing)}"
        )

    def fill(place: re.Match[str]) -> str:
        if place[0] == _MODEL:
            return _MODEL
        variable, text = _placeholder_value(place, env)
        # Azure's resource is often set to its whole URL.
        text = text.removeprefix("https://").rstrip("/")
        # The template continues with the rest of the host name; nothing else may change the host.
        text = text.removesuffix(template[place.end() :].partition("/")[0] or " ")
        if not allowed.fullmatch(text):
            raise ConfigError(f"{variable} holds characters that an address cannot contain")
        return text

    return _PLACEHOLDER.sub(fill, template)


def _placeholder_value(place: re.Match[str], env: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that fills *place*, and its value."""
    variable = next(name for name in place[1].split("|") if env.get(name, "").strip())
    return variable, env[variable].strip()


def normalize_url(url: str, setting: str, host: Host) -> str:
    """Normalize *url* for requests to *host*. Raises a `ConfigError` that names *setting* but not its value."""
    url = url.strip()
    # `OLLAMA_HOST=127.0.0.1:11434` is the form of Ollama itself.
    is_short = "://" not in url and host.is_local
    if is_short:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good, parts = False, SplitResult("", "", "", "", "")
    if not is_good or not _is_printable(url):
        raise ConfigError(f"{setting} is not a valid URL: it must look like {_example(host)}")
    if parts.query or parts.fragment:
        raise ConfigError(f"{setting} must not contain '?' or '#': it must look like {_example(host)}")
    if host.is_local:
        parts = _complete_local(parts, host, is_short=is_short)
    return parts._replace(path=_path(parts.path.rstrip("/"), host)).geturl()


def _path(path: str, host: Host) -> str:
    for ending in _REQUEST_PATHS:
        path = path.removesuffix(ending)
    # The wire format adds its own.
    for version in _VERSIONS.get(host.wire, ()):
        if path.endswith(version):
            return path.removesuffix(version)
    return path or host.base_path or urlsplit(_PLACEHOLDER.sub("x", host.base_url)).path


def _complete_local(parts: SplitResult, host: Host, *, is_short: bool) -> SplitResult:
    """Complete the address of a local server, which may be abbreviated as in `OLLAMA_HOST`."""
    name = parts.hostname or ""
    if name in _WILDCARD_ADDRESSES:
        port = f":{parts.port}" if parts.port else ""
        parts = parts._replace(netloc=f"{_WILDCARD_ADDRESSES[name]}{port}")
    usual = urlsplit(host.base_url).port
    if is_short and parts.port is None and usual:
        parts = parts._replace(netloc=f"{parts.netloc}:{usual}")
    return parts


def _example(host: Host) -> str:
    return _PLACEHOLDER.sub("example", host.base_url) or f"https://models.example{host.base_path}"


def _is_printable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value

"""MCP servers as they are configured. Values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import attrs

from engine.config.formatter_config import is_time
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.value_base import Value

# In seconds.
CALL_TIMEOUT: Final = 300.0
CALL_LIMIT: Final = 3_600.0
REQUIRED_WAIT: Final = 5.0
IDLE_TIMEOUT: Final = 600.0

_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = regex(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

# Who named a server: the user's own file, a file of the project's, a plugin, or the program that opened the engine.
McpOrigin = Literal["user", "project", "plugin", "host"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpToolLimits(Value):
    """The limits of one tool's calls; None: those of its server.

    Attributes:
        call_timeout: seconds without any sign of life; progress renews it.
        call_limit: seconds in all.
    """

    call_timeout: float | None = attrs.field(default=None, validator=attrs.validators.optional(is_time))
    call_limit: float | None = attrs.field(default=None, validator=attrs.validators.optional(is_time))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpServer(Value):
    """An MCP server: a program that we start, or a URL.

    Attributes:
        command: the program and its arguments; empty: it has a URL.
        env: variables that the program gets besides HOME, LOGNAME, PATH, SHELL, TERM and USER. `${VAR}` in a value is
            replaced at its start.
        folder: the folder it runs in; empty: the one that the engine runs in.
        url: of a server that speaks streamable HTTP.
        headers: sent with each request; `${VAR}` in a value is replaced at its start.
        call_timeout: seconds that a call may take without any sign of life; progress renews it.
        call_limit: seconds that a call may take in all.
        tools: limits of single tools, by the name that the server gives them.
        oauth: log in with OAuth where the server demands it; `engine mcp login` does.
        origin: who named it.
        skills: addresses of skills that the server has and does not list.
        per_session: each session has a process of its own, in the session's folder; sub-agents share that of their session.
        idle_timeout: seconds without a call and without a turn after which such a process ends; the next call starts it again.
    """

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    call_timeout: float = attrs.field(default=CALL_TIMEOUT, validator=is_time)
    call_limit: float = attrs.field(default=CALL_LIMIT, validator=is_time)
    tools: Mapping[str, McpToolLimits] = attrs.field(factory=dict[str, McpToolLimits])
    oauth: bool = True
    origin: McpOrigin = "user"
    skills: tuple[str, ...] = ()
    per_session: bool = False
    idle_timeout: float = attrs.field(default=IDLE_TIMEOUT, validator=is_time)

    def __attrs_post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ConfigError("a server has either a command or a url")
        if self.url:
            self._check_url()
        else:
            self._check_command()

    def _check_command(self) -> None:
        if not self.command[0] or any("\0" in part for part in self.command):
            raise ConfigError("command must begin with the name of a program, and hold no NUL")
        if self.headers:
            raise ConfigError("headers are for servers with a url")
        if self.per_session and self.folder:
            raise ConfigError("a server per session runs in the session's folder, and has none of its own")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise ConfigError(f"env.{name} has an invalid name or value")

    def _check_url(self) -> None:
        _check_address(self.url)
        if self.env or self.folder or self.per_session:
            raise ConfigError("env, folder and per_session are for servers with a command")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
                raise ConfigError(f"header {name!r} has an invalid name or value")

    @property
    def fingerprint(self) -> str:
        """Identify what is started or connected to; a change of any part of it is a change of the server.

        The values of variables and headers are not part of it: they may hold secrets, which change without notice. In
        another person's file they hold none of the user's, but may name one: `${OPENAI_API_KEY}`.
        """
        parts: list[object] = [self.command, sorted(self.env), self.folder, self.url, sorted(self.headers)]
        if self.is_foreign:
            parts += [sorted(self.env.items()), sorted(self.headers.items())]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()

    @property
    def is_foreign(self) -> bool:
        """Whether a file of another author names it: then nothing of it starts before the user has approved it."""
        return self.origin in {"project", "plugin"}

    def details(self) -> list[str]:
        """Return what another person's file says of it, as lines for people: also which of the user's variables it would get."""
        # Imported here: most engines have no servers of others.
        import shlex

        if self.url:
            return [f"url: {self.url}", *(f"header: {name}: {value}" for name, value in self.headers.items())]
        return [
            f"command: {shlex.join(self.command)}",
            f"folder: {self.folder or '.'}",
            *(f"variable: {name}={value}" for name, value in self.env.items()),
        ]

    def limits_of(self, tool: str) -> tuple[float, float]:
        """Return the timeout and the limit of calls of a tool."""
        limits = self.tools.get(tool, McpToolLimits())
        return limits.call_timeout or self.call_timeout, limits.call_limit or self.call_limit

    def __str__(self) -> str:
        """Return what it is, for people."""
        return self.url or " ".join(self.command)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpConfig(Value):
    """The MCP servers of an engine.

    Attributes:
        servers: by name.
        required: the names of those that a session's first turn waits for.
        required_wait: how many seconds it waits for them at most.
    """

    servers: Mapping[str, McpServer] = attrs.field(factory=dict[str, McpServer])
    required: tuple[str, ...] = ()
    required_wait: float = attrs.field(default=REQUIRED_WAIT, validator=is_time)

    def __attrs_post_init__(self) -> None:
        for name in self.servers:
            check_server_name(name)
        for name in self.required:
            if name not in self.servers:
                raise ConfigError(f"required names no configured server: {name!r}")


def check_server_name(name: str) -> None:
    """Raise `ConfigError` if no MCP server can have that name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"the name of an MCP server has at most 64 letters, digits, '.', '-' and '_', unlike {name!r}"
        )


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"url is no URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ConfigError(f"url must begin with https:// or http:// and name a host, unlike {url!r}")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("url holds a user's name or password; use headers with a ${VARIABLE}")

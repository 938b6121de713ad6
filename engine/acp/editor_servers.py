"""The MCP servers that an editor passes with a session: they start with it and end with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

import attrs

from engine.acp.client_params import ClientParams, read_client_params
from engine.config.mcp_config import McpConfig, McpServer
from engine.control.protocol.wire_converter import BadParams
from engine.core.errors import ConfigError
from engine.core.schema import Json
from engine.tools.tool_source import ToolSource

_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@attrs.frozen(kw_only=True)
class _NameAndValue(ClientParams):
    name: str
    value: str


@attrs.frozen(kw_only=True)
class _EditorServer(ClientParams):
    """A server in the protocol's form: one with a URL has a type."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[_NameAndValue, ...] = ()
    url: str = ""
    headers: tuple[_NameAndValue, ...] = ()


def server_sources(servers: Iterable[object], cwd: str) -> tuple[ToolSource, ...]:
    """Return the source of the tools of these servers; none for no servers. Raises `BadParams`."""
    config: dict[str, McpServer] = {}
    for index, value in enumerate(servers):
        path = f"mcpServers[{index}]"
        if not isinstance(value, dict):
            raise BadParams(path, "expected an object")
        try:
            server = read_client_params(cast("dict[str, Json]", value), _EditorServer)
            config[_unused_name(server.name, config)] = _server(server, cwd)
        except BadParams as error:
            raise BadParams(f"{path}.{error.path}".removesuffix("."), error.problem) from error
        except ConfigError as error:
            raise BadParams(path, str(error)) from error
    if not config:
        return ()
    # Imported here: it brings what an editor without servers does not need.
    from engine.mcp.mcp_servers import McpServers

    # The first prompt waits for them, but not long: who has them in the editor expects their tools there.
    return (McpServers(McpConfig(servers=config, required=tuple(config))),)


def _server(server: _EditorServer, cwd: str) -> McpServer:
    match server.type:
        case "stdio":
            variables = {each.name: each.value for each in server.env}
            return McpServer(command=(server.command, *server.args), env=variables, folder=cwd, origin="host")
        case "http":
            headers = {each.name: each.value for each in server.headers}
            return McpServer(url=server.url, headers=headers, origin="host")
        case _:
            raise BadParams("type", "expected stdio or http")


def _unused_name(name: str, others: dict[str, McpServer]) -> str:
    """Return the editor's name for a server, as ours are spelled; two servers may have the same."""
    plain = _UNUSABLE.sub("_", name).strip("_.-")[:48] or "server"
    number = sum(other == plain or other.startswith(f"{plain}-") for other in others)
    return f"{plain}-{number + 1}" if number else plain

"""`.mcp.json` of a project: MCP servers in the form that other programs share, as a source of our configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, cast

import attrs

from engine.config.mcp_config import check_server_name
from engine.core.errors import ConfigError, InvalidArguments
from engine.core.value_base import Value
from engine.permission.rules.project_file import read_project_file
from engine.settings_file.document import ConfigDocument
from engine.settings_file.tables import McpServerTable, make_mcp_server

NAME: Final = ".mcp.json"
_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpJson(Value):
    """The file, read.

    Attributes:
        document: its servers; None: it names none that can be used.
        ignored: the names of the others, with reasons; an empty name is the whole file.
        path: where it is.
    """

    document: ConfigDocument | None = None
    ignored: tuple[tuple[str, str], ...] = ()
    path: str = ""


def read_mcp_json(root: str) -> McpJson:
    """Return the servers of the project in *root*. It blocks. A mistake in the file costs only what it is about."""
    path = str(PurePosixPath(root, NAME))
    try:
        text = read_project_file(path)
        listed = None if text is None else _servers(text)
    except ConfigError as error:
        return McpJson(ignored=(("", str(error)),), path=path)
    if listed is None:
        return McpJson(path=path)
    servers: dict[str, object] = {}
    ignored: list[tuple[str, str]] = []
    for name, value in listed.items():
        try:
            servers[name] = server_table(name, value, root)
        except ConfigError as error:
            ignored.append((name, str(error)))
    document = ConfigDocument("project", path, {"mcp": {"servers": servers}}) if servers else None
    return McpJson(document=document, ignored=tuple(ignored), path=path)


def _servers(text: str) -> Mapping[str, object]:
    """Return the entries of the file. Raises `ConfigError`."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from error
    listed = cast("dict[str, object]", document).get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise ConfigError("it has no object 'mcpServers'")
    return cast("dict[str, object]", listed)


def server_table(name: str, value: object, root: str) -> dict[str, object]:
    """Return the entry of a server as a table of our configuration. Raises `ConfigError` if it can't be one."""
    check_server_name(name)
    # Imported here: most projects have no such file.
    from engine.core.arguments import structure

    if not isinstance(value, dict):
        raise ConfigError("it is no object")
    entry = cast("dict[str, object]", value)
    kind = entry.get("type", "http" if "url" in entry else "stdio")
    if kind not in {*_HTTP, "stdio"}:
        raise ConfigError(f"its type is {kind!r}; stdio and http are supported")
    table = dict(_fields(entry, kind in _HTTP))
    if kind not in _HTTP:
        table["folder"] = root
    try:
        make_mcp_server(structure(McpServerTable, table), "project")
    except InvalidArguments as error:
        raise ConfigError(str(error)) from error
    return table


def _fields(entry: Mapping[str, object], is_http: bool) -> Iterator[tuple[str, object]]:  # noqa: FBT001  # private
    for name in ("url", "headers") if is_http else ("command", "args", "env"):
        if entry.get(name) is not None:
            yield name, entry[name]

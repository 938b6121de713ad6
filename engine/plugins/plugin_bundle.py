"""One plugin's folder, read: our manifest `plugin.toml`, or the widespread `.claude-plugin/plugin.json`. It starts nothing.

What can't be used here is listed, and costs nothing else of the plugin. All of it blocks.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.config.plugin_config import PluginFolders
from engine.core.errors import ConfigError
from engine.permission.rules.project_file import read_project_file
from engine.plugins.plugin import check_plugin_name
from engine.settings_file.document import ConfigDocument
from engine.settings_file.mcp_json import server_table
from engine.tools.claude_hooks.load import ABSENT, check_hooks

OURS: Final = "plugin.toml"
THEIRS: Final = ".claude-plugin/plugin.json"
# Replaced in what servers and hooks run; hooks get them as variables, too.
ROOTS: Final = ("ENGINE_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT")
_MAX_BYTES: Final = 1_000_000
_FOLDERS: Final = ("skills", "commands", "agents")
_USED: Final = frozenset({"name", "version", "description", *_FOLDERS, "hooks"})
# What is about the plugin, and changes nothing.
_ABOUT: Final = frozenset({"$schema", "author", "homepage", "repository", "license", "keywords", "displayName"})
_OTHER_FILES: Final = ("tool", "tools", "output-styles", "themes", "monitors", ".lsp.json", "settings.json")

Json = Mapping[str, object]


@attrs.frozen(kw_only=True)
class Bundle:
    """A plugin.

    Attributes:
        plugin: its name and its folders.
        version: as its manifest has it.
        description: as its manifest has it, in one line.
        servers: its MCP servers as tables of the configuration, by their full names.
        hooks: its hooks, as the configuration has them.
        ignored: what of it can't be used here, and why.
    """

    plugin: PluginFolders
    version: str = ""
    description: str = ""
    servers: Json = attrs.field(factory=dict[str, object])
    hooks: Json = attrs.field(factory=dict[str, object])
    ignored: tuple[str, ...] = ()

    @property
    def document(self) -> ConfigDocument:
        """Its part of the configuration."""
        return ConfigDocument(
            "plugin", f"the plugin {self.plugin.name}", {"mcp": {"servers": self.servers}, "hooks": self.hooks}
        )


def read_bundle(folder: Path) -> Bundle:
    """Return the plugin in *folder*, a real path. Raises `ConfigError` if it is none."""
    is_ours = (folder / OURS).exists()
    try:
        manifest = _toml(folder / OURS) if is_ours else _json(folder / THEIRS)
        if manifest is None:
            raise ConfigError(f"{folder} is no plugin: it has neither {OURS} nor {THEIRS}")
        return _Reader(folder, manifest, is_ours).bundle()
    except RecursionError as error:
        raise ConfigError(f"{folder}: a file of the plugin is nested too deeply") from error


def _toml(path: Path) -> Json:
    try:
        return tomllib.loads(_text(path) or "")
    except ValueError as error:
        raise ConfigError(f"{path} is no valid TOML: {error}") from error


def _json(path: Path) -> Json | None:
    text = _text(path)
    try:
        value: object = None if text is None else json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is no valid JSON: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{path} must hold an object")
    return cast("Json | None", value)


def _text(path: Path) -> str | None:
    text = read_project_file(str(path))
    if text is not None and len(text) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES:,} characters")
    return text


@attrs.define
class _Reader:
    """Reads a plugin, and collects what can't be used."""

    folder: Path
    manifest: Json
    is_ours: bool
    ignored: list[str] = attrs.field(factory=list[str], init=False)

    def bundle(self) -> Bundle:
        """Return the plugin. Raises `ConfigError`."""
        name = check_plugin_name(self.manifest.get("name"))
        keys = _USED | ({"mcp"} if self.is_ours else {"mcpServers", *_ABOUT})
        self.ignored += [f"{key} of the manifest" for key in self.manifest if key not in keys]
        self.ignored += [each for each in _OTHER_FILES if (self.folder / each).exists()]
        folders = {kind: tuple(self._folders(kind)) for kind in _FOLDERS}
        return Bundle(
            plugin=PluginFolders(name=name, folder=str(self.folder), **folders),
            version=self._word("version"),
            description=self._word("description"),
            servers=dict(self._servers(name)),
            hooks=self._hooks(),
            ignored=tuple(self.ignored),
        )

    def _word(self, key: str) -> str:
        value = self.manifest.get(key, "")
        return " ".join(value.split())[:500] if isinstance(value, str) else ""

    def _folders(self, kind: str) -> Iterator[str]:
        """Yield the folders of a kind: the usual one, and those that the manifest names."""
        named = _list(self.manifest.get(kind))
        for one in dict.fromkeys([kind, *named]):
            path = self._inside(one)
            if path is not None and path.is_dir():
                yield str(path)
            elif path is not None and one in named:
                self.ignored.append(f"{kind} {one!r}: it is no folder of the plugin")

    def _inside(self, name: object) -> Path | None:
        """Return a path of the plugin; None if it leads elsewhere."""
        path = Path(os.path.realpath(self.folder / str(name))) if isinstance(name, str) and "\0" not in name else None
        if path is None or not path.is_relative_to(self.folder):
            self.ignored.append(f"{name!r}: it is no path inside of the plugin")
            return None
        return path

    def _parts(self, key: str, usual: str) -> Iterator[Json]:
        """Yield the objects that a key of the manifest holds or names, and the usual file."""
        for one in dict.fromkeys([usual]) if key not in self.manifest else [usual, *_list(self.manifest[key])]:
            if isinstance(one, dict):
                yield cast("Json", one)
                continue
            path = self._inside(one)
            try:
                part = None if path is None else _json(path)
            except ConfigError as error:
                self.ignored.append(str(error))
                continue
            if part is not None:
                yield part
            elif path is not None and one != usual:
                self.ignored.append(f"{key} {one!r}: it is no file of the plugin")

    def _servers(self, plugin: str) -> Iterator[tuple[str, object]]:
        if self.is_ours:
            parts: Iterator[Json] = iter([_table(_table(self.manifest.get("mcp")).get("servers"))])
        else:
            parts = self._parts("mcpServers", ".mcp.json")
        for part in parts:
            # Both forms are common.
            for name, value in _table(part.get("mcpServers", part)).items():
                own_name = f"{plugin}_{name}"
                try:
                    yield own_name, server_table(own_name, _expanded(value, self.folder), str(self.folder))
                except ConfigError as error:
                    self.ignored.append(f"MCP server {name}: {error}")

    def _hooks(self) -> Json:
        if self.is_ours:
            parts: Iterator[Json] = iter([_table(self.manifest.get("hooks"))])
        else:
            parts = self._parts("hooks", "hooks/hooks.json")
        hooks: dict[str, list[object]] = {}
        for part in parts:
            for event, groups in _table(part.get("hooks", part)).items():
                kept = [self._group(event, group) for group in _list(groups)]
                try:
                    check_hooks({event: kept})
                except ConfigError as error:
                    self.ignored.append(f"hooks of {event}: {error}")
                    continue
                if event in ABSENT:
                    self.ignored.append(f"hooks of {event}: there is no such event here")
                else:
                    hooks.setdefault(event, []).extend(kept)
        return hooks

    def _group(self, event: str, group: object) -> object:
        """Return a group of hooks with its commands only, which know where the plugin is."""
        if not isinstance(group, dict):
            return group  # `check_hooks` says what is wrong with it
        values = cast("dict[str, object]", group)
        kept: list[object] = []
        for hook in _list(values.get("hooks")):
            kind = _table(hook).get("type")
            if isinstance(kind, str) and kind != "command":
                self.ignored.append(f"a hook of {event}: its type is {kind!r}")
            elif not isinstance(hook, dict):
                kept.append(hook)
            else:
                own = cast("dict[str, object]", hook)
                # A shell replaces them by itself, and quotes as the author has written it.
                args = {} if "args" not in own else cast("dict[str, object]", _expanded(own, self.folder))
                kept.append({**own, **args, "env": dict.fromkeys(ROOTS, str(self.folder))})
        return {**values, "hooks": kept}


def _expanded(value: object, folder: Path) -> object:
    """Return a value in whose texts the plugin's folder is filled in."""
    if isinstance(value, str):
        for root in ROOTS:
            value = value.replace(f"${{{root}}}", str(folder))
        return value
    if isinstance(value, list):
        return [_expanded(one, folder) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _expanded(one, folder) for name, one in cast("dict[str, object]", value).items()}
    return value


def _table(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[object]:
    """Return the items of a list; of anything else, itself as the only one."""
    if value is None:
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]

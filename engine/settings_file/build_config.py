"""From merged sources to a `Config`; errors say which line of which file is wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar, cast

import attrs

from engine.config.chat_config import ChatConfig
from engine.config.config import CompactionConfig, Config, Defaults
from engine.config.instruction_config import Instructions
from engine.config.mcp_config import McpConfig, McpOrigin, McpServer
from engine.config.plugin_config import PluginOptions
from engine.config.rule_layers import RuleLayers
from engine.config.sandbox_config import SECRETS, BackendSetting, Sandbox
from engine.config.store_config import StoreConfig
from engine.config.telemetry_config import TelemetryConfig
from engine.core.arguments import structure
from engine.core.errors import ConfigError, InvalidArguments
from engine.core.lazy import regex
from engine.core.permission_types import Rule
from engine.core.value_base import Value
from engine.permission.rules.rule_file import Permissions, read_permissions
from engine.providers.hosts.host_config import host_named
from engine.settings_file.config_keys import Key, format_key, leaves, quote_part, value_at
from engine.settings_file.document import ConfigDocument, Kind
from engine.settings_file.merge import MergedConfig
from engine.settings_file.tables import (
    AgentTable,
    EnvironmentTable,
    HostTable,
    InstructionsTable,
    LanguageServerTable,
    McpTable,
    ModelTable,
    PluginsTable,
    ProgramTable,
    SandboxTable,
    SkillsTable,
    make_agent,
    make_host,
    make_language_server,
    make_mcp_server,
    make_model,
    make_program,
)

T = TypeVar("T", bound=attrs.AttrsInstance)
V = TypeVar("V")

_FIELD: Final = regex(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")
_QUOTED: Final = regex(r"(?<!\w)'([^']*)'")


def build_config(merged: MergedConfig) -> Config:
    """Return the configuration. Raises `ConfigError`."""
    reader = _Reader(merged)
    rules = _rules(merged)
    config = reader.made(
        (),
        lambda: Config(
            hosts=dict(reader.tables("hosts", HostTable, make_host)),
            models=dict(reader.tables("models", ModelTable, make_model)),
            agents=dict(reader.tables("agents", AgentTable, make_agent)),
            defaults=reader.table(("defaults",), Defaults),
            compaction=reader.table(("compaction",), CompactionConfig),
            hooks=_hooks(reader),
            formatters=dict(reader.tables("formatters", ProgramTable, make_program)),
            checkers=dict(reader.tables("checkers", ProgramTable, make_program)),
            language_servers=dict(reader.tables("language_servers", LanguageServerTable, make_language_server)),
            profile=_profile(merged),
            rules=rules["user"],
            rule_layers=_rule_layers(merged, rules),
            sandbox=_sandbox(reader),
            mcp=_mcp(reader),
            programs=_programs(reader),
            instructions=_instructions(reader),
            skills=reader.table(("skills",), SkillsTable).folders,
            plugin_options=_plugin_options(reader),
            pass_env=reader.table(("environment",), EnvironmentTable).pass_env,
            chat=reader.table(("chat",), ChatConfig),
            telemetry=reader.table(("telemetry",), TelemetryConfig),
            store=reader.table(("store",), StoreConfig),
            keys=_keys(reader),
            source=_source(merged),
        ),
    )
    for name in config.hosts:
        reader.made(("hosts", name), partial(host_named, name, config))
    return config


def _source(merged: MergedConfig) -> str:
    """Return the user's file; without one, the strongest source that is a file."""
    files = [one for one in merged.documents if one.text or one.kind == "user"]
    return next((one.source for one in reversed(files) if one.kind == "user"), files[-1].source if files else "")


def _rules(merged: MergedConfig) -> Mapping[Kind, tuple[Rule, ...]]:
    """Return the rules of each kind of source. Those of a project are not here: the policy reads them for each session."""
    rules: dict[Kind, tuple[Rule, ...]] = {
        "system": (),
        "user": (),
        "profile file": (),
        "command line": (),
        "required": (),
    }
    for document in merged.documents:
        permissions = _permissions(document)
        if document.kind in rules:
            rules[document.kind] += permissions.rules
        if document.kind == "required" and any(rule.action == "allow" for rule in permissions.rules):
            raise ConfigError(
                f"{document.location(('permissions', 'rules'))}: these rules are limits: they deny or ask"
            )
    return rules


def _permissions(document: ConfigDocument) -> Permissions:
    if "permissions" not in document.values:
        return Permissions()
    source = document.source if document.text else document.location(("permissions", "profile"))
    return read_permissions(document.values["permissions"], document.text, source)


def _profile(merged: MergedConfig) -> str | None:
    profile = cast("dict[str, object]", merged.values.get("permissions", {})).get("profile")
    return None if profile is None else str(profile)


def _rule_layers(merged: MergedConfig, rules: Mapping[Kind, tuple[Rule, ...]]) -> RuleLayers:
    required = [one for one in merged.documents if one.kind == "required"]
    fixed = {format_key(key) for one in required for key, _ in leaves(one.values) if key[0] != "permissions"}
    widest = [_permissions(one).profile for one in required]
    return RuleLayers(
        system=rules["system"],
        profile_file=rules["profile file"],
        command_line=rules["command line"],
        required=rules["required"],
        widest_profile=next(filter(None, widest), ""),
        fixed=frozenset(fixed),
        # Of all sources: no file takes back what another one wants to be asked about.
        ask_after=tuple(each for document in merged.documents for each in _permissions(document).ask_after),
    )


def _hooks(reader: _Reader) -> Mapping[str, object]:
    """Return the section with hooks, validated. Raises `ConfigError`."""
    if "hooks" not in reader.merged.values:
        return {}
    hooks = reader.merged.values["hooks"]
    # Imported here: most configurations have none.
    from engine.tools.claude_hooks.load import check_hooks

    reader.made(("hooks",), lambda: check_hooks({"hooks": hooks}))
    return cast("Mapping[str, object]", hooks)


def _sandbox(reader: _Reader) -> Sandbox | None:
    """Return the sandbox for commands. Raises `ConfigError`."""
    if "sandbox" not in reader.merged.values:
        return None
    table = reader.table(("sandbox",), SandboxTable)
    hidden = SECRETS if table.hidden is None else table.hidden
    return reader.made(
        ("sandbox",),
        lambda: Sandbox(
            backend=cast("BackendSetting", table.backend), network=table.network, writable=table.writable, hidden=hidden
        ),
    )


def _programs(reader: _Reader) -> Mapping[str, object] | None:
    """Return the tables of programs, validated. Raises `ConfigError`."""
    tables = reader.merged.values.get("programs")
    if tables is None:
        return None
    if not isinstance(tables, dict):
        raise ConfigError(f"{reader.merged.location(('programs',))}: programs must contain tables: [programs.NAME]")
    # Imported here: the table holds some 700 programs, and most configurations add none.
    from engine.permission.programs.program_registry import extend_registry

    programs = cast("dict[str, object]", tables)
    reader.made(("programs",), lambda: extend_registry(programs))
    return programs


def _keys(reader: _Reader) -> Mapping[str, object]:
    """Return the keys of the chat, validated. Raises `ConfigError`."""
    if "keys" not in reader.merged.values:
        return {}
    # Imported here: most configurations change none.
    from engine.config.chat_keys import bind_keys

    keys = reader.merged.values["keys"]
    if not isinstance(keys, dict):
        raise ConfigError(f"{reader.merged.location(('keys',))}: keys must be a table: [keys]")
    changes = cast("dict[str, object]", keys)
    reader.made(("keys",), lambda: bind_keys(changes))
    return changes


def _mcp(reader: _Reader) -> McpConfig:
    """Return the MCP servers. Raises `ConfigError`."""
    table = reader.table(("mcp",), McpTable)
    servers: dict[str, McpServer] = {}
    for name, server in table.servers.items():
        key = ("mcp", "servers", name)
        # A name is either the user's or the project's: see `project_config`.
        kinds = {document.kind for document, _ in reader.merged.contributions(key)}
        origin: McpOrigin = "user" if kinds - {"project", "plugin"} else "plugin" if "plugin" in kinds else "project"
        if server.enabled:
            servers[name] = reader.made(key, partial(make_mcp_server, server, origin))
    required = tuple(name for name in table.required if name in servers or name not in table.servers)
    return reader.made(
        ("mcp",), lambda: McpConfig(servers=servers, required=required, required_wait=table.required_wait)
    )


def _plugin_options(reader: _Reader) -> PluginOptions:
    """Return what the user says about plugins. Raises `ConfigError`."""
    table = reader.table(("plugins",), PluginsTable)
    return PluginOptions(
        disabled=table.disabled, override=table.override, isolated=table.isolated, settings=table.settings
    )


def _instructions(reader: _Reader) -> Instructions:
    """Return which files hold instructions. Raises `ConfigError`."""
    table = reader.table(("instructions",), InstructionsTable)
    return reader.made(("instructions",), lambda: Instructions(**attrs.asdict(table, recurse=False)))


@attrs.frozen(eq=False, repr=False)
class _Reader(Value):
    """Reads tables; its errors name the file, the line and the section."""

    merged: MergedConfig

    def tables(self, section: str, shape: type[T], make: Callable[[T], V]) -> Iterator[tuple[str, V]]:
        """Convert each table of a section; yield the results by name."""
        tables = self.merged.values.get(section, {})
        if not isinstance(tables, dict):
            raise ConfigError(f"{self.merged.location((section,))}: {section} must contain tables: [{section}.NAME]")
        for name in cast("dict[str, object]", tables):
            table = self.table((section, name), shape)
            yield name, self.made((section, name), partial(make, table))

    def table(self, key: Key, shape: type[T]) -> T:
        """Convert a table to *shape*."""
        value: object = self.merged.values
        for part in key:
            value = cast("dict[str, object]", value).get(part, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{self._place(key)}: must be a table, not {type(value).__name__}")
        values = cast("dict[str, object]", value)
        for below, leaf in leaves(values, key):
            if any(isinstance(each, (dt.date, dt.time)) for each in _items(leaf)):
                name = format_key(below[len(key) :])
                raise ConfigError(f"{self._place(key, below)}: {name}: contains a date or time; quote it if it is text")
        if not values and all(field.default is not attrs.NOTHING for field in attrs.fields(shape)):
            return shape()  # the usual case, in which nothing needs to be made for reading
        try:
            return structure(shape, values)
        except InvalidArguments as error:
            # TOML has no null, which the schema of an optional field allows.
            lines = str(error).replace(" or null", "").splitlines()
            raise ConfigError(
                "\n".join(f"{self._place(key, self._field(key, line))}: {line}" for line in lines)
            ) from error

    def made(self, key: Key, make: Callable[[], V]) -> V:
        """Return what *make* returns; add the place to its errors."""
        try:
            return make()
        except ConfigError as error:
            places = [document.source for document in self.merged.documents]
            if any(str(error).startswith((f"{place}:", f"{place},")) for place in places):
                raise
            field = self._field(key, str(error))
            section = key or field[:1]
            where = self._place(section, field) if section else (_source(self.merged) or "the configuration")
            raise ConfigError(f"{where}: {error}") from error

    def _place(self, section: Key, key: Key = ()) -> str:
        shown = ".".join([section[0], *map(quote_part, section[1:])])
        return f"{self.merged.location(key or section)}, [{shown}]"

    def _field(self, section: Key, message: str) -> Key:
        """Return the key that a message is about.

        It is the one that the message begins with, or the one whose name or value it quotes last; else the section.
        """
        for prefix in section[:1]:
            message = message.removeprefix(f"{prefix}.").removeprefix(f"{prefix}: ")
        match = _FIELD.match(message)
        parts = match[0].split(".") if match else []
        keys = [(*section, *parts[:end]) for end in range(len(parts), 0, -1)]
        found = [key for key in keys if self.merged.contributions(key)]
        found += [key for quoted in _QUOTED.findall(message)[-1:] for key in self._keys_of(section, quoted)]
        return found[0] if found else section

    def _keys_of(self, section: Key, text: str) -> Iterator[Key]:
        """Yield the keys of a section that have the name or the value *text*."""
        values = value_at(self.merged.values, section)
        for key, value in leaves(cast("dict[str, object]", values) if isinstance(values, dict) else {}, section):
            if text in key:
                yield key[: key.index(text) + 1]
            elif text in _items(value):
                yield key


def _items(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _items(each)
    else:
        yield value

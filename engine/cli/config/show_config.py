"""`engine config list, explain, get, check, path`: what the configuration is, and where each part of it comes from."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.config_flags import config_sources, config_warnings
from engine.cli.terminal.exit_codes import ADVICE, DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.agent_config import AgentConfig
from engine.config.chat_config import ChatConfig
from engine.config.config import CompactionConfig, Config, Defaults, HostConfig, ModelConfig
from engine.config.formatter_config import FileProgram
from engine.config.instruction_config import Instructions
from engine.config.language_server_config import LanguageServer
from engine.config.mcp_config import McpConfig, McpServer
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.permission.rules.project_file import project_files
from engine.settings_file.config_file import REQUIRED_FILE, SYSTEM_FILE, user_file
from engine.settings_file.config_keys import VERSION_KEY, Key, default_of, format_key, is_additive, leaves, value_at
from engine.settings_file.config_sources import PROFILES, ConfigSources, LoadedConfig, load_sources, require_key
from engine.settings_file.document import ConfigDocument, Kind, read_document
from engine.settings_file.merge import MergedConfig

# Whose docstrings say what the keys of a section do.
_DOCUMENTED: Final[dict[str, tuple[type, ...]]] = {
    "hosts": (HostConfig,),
    "models": (ModelConfig, ModelOptions),
    "agents": (AgentConfig, ModelOptions),
    "defaults": (Defaults,),
    "compaction": (CompactionConfig,),
    "permissions": (Config,),
    "environment": (Config,),
    "formatters": (FileProgram,),
    "checkers": (FileProgram,),
    "language_servers": (LanguageServer,),
    "sandbox": (Sandbox,),
    "instructions": (Instructions,),
    "mcp": (McpConfig, McpServer),
    "chat": (ChatConfig,),
}


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return _run("list", arguments, _list)


def explain_main(arguments: list[str]) -> int:
    """Run `explain`; return the exit code."""
    return _run("explain", arguments, _explain)


def get_main(arguments: list[str]) -> int:
    """Run `get`; return the exit code."""
    return _run("get", arguments, _get)


def check_main(arguments: list[str]) -> int:
    """Run `check`; return the exit code."""
    return _run("check", arguments, _check)


def path_main(arguments: list[str]) -> int:
    """Run `path`; return the exit code."""
    return _run("path", arguments, _path)


def _run(name: str, arguments: Sequence[str], show: Callable[[argparse.Namespace], int]) -> int:
    return run_command("config", lambda: show(parse_arguments(f"config {name}", arguments)))


def _load(args: argparse.Namespace) -> LoadedConfig:
    """Return the sources; what is wrong with them is reported now. Raises `ConfigError`."""
    loaded = load_sources(config_sources(args))
    loaded.config()
    for line in config_warnings(loaded):
        print_error(escape_control_chars(line))
    return loaded


def toml_value(value: object) -> str:
    """Return a value as it is written in a file, on one line."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "not set"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{format_key((name,))} = {toml_value(each)}' for name, each in cast('dict[str, object]', value).items())} }}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, int, float)) else str(value)


def _settings(merged: MergedConfig) -> Iterator[Key]:
    """Yield the keys whose value differs from the default."""
    for key, value in leaves(merged.values):
        default = default_of(key)
        if key != (VERSION_KEY,) and value != (
            list(cast("tuple[object, ...]", default)) if isinstance(default, tuple) else default
        ):
            yield key


def _list(args: argparse.Namespace) -> int:
    merged = _load(args).merged
    if args.json:
        document = [_as_json(merged, key) for key in _settings(merged)]
        return print_text(f"{json.dumps(document, indent=2, default=str)}\n")
    lines: list[str] = []
    for key in _settings(merged):
        lines += [f"{format_key(key)} = {toml_value(value_at(merged.values, key))}", *_origins(merged, key)]
    if not lines:
        lines.append("Everything has its default.\nNext: engine config set KEY VALUE")
    return print_text("".join(f"{escape_control_chars(line)}\n" for text in lines for line in text.split("\n")))


def _origins(merged: MergedConfig, key: Key) -> Iterator[str]:
    """Yield lines that say where a value comes from, and what it overrides."""
    for number, (document, value) in enumerate(merged.contributions(key)):
        where = document.location(key)
        if number == 0:
            yield f"    from {where}"
        elif is_additive(key):
            yield f"    and {where}"
        else:
            yield f"    overrides {toml_value(value)} from {where}"


def _as_json(merged: MergedConfig, key: Key) -> dict[str, object]:
    settings = merged.contributions(key)
    return {
        "key": format_key(key),
        "value": value_at(merged.values, key),
        "source": settings[0][0].location(key) if settings else None,
        "overrides": [{"value": value, "source": document.location(key)} for document, value in settings[1:]],
    }


def _explain(args: argparse.Namespace) -> int:
    key = require_key(args.key)
    merged = _load(args).merged
    value, default = value_at(merged.values, key), default_of(key)
    lines = [f"{format_key(key)} = {toml_value(default if value is None else value)}"]
    lines += list(_origins(merged, key)) or ["    the default"]
    if value is not None:
        lines.append(f"    default: {toml_value(default)}")
    if text := describe_key(key):
        lines.append(f"    meaning: {text}")
    return print_text("".join(f"{escape_control_chars(line)}\n" for line in lines))


def describe_key(key: Key) -> str:
    """Return what a key does; empty if nothing describes it."""
    name = key[-1] if len(key) > 1 else ""
    for kind in _DOCUMENTED.get("".join(key[:1]), ()):
        text = inspect.getdoc(kind) or ""
        match = re.search(rf"^    {re.escape(name)}: (.*?)(?=^    \S|\Z)", text, re.MULTILINE | re.DOTALL)
        if match:
            return " ".join(match[1].split())
    return ""


def _get(args: argparse.Namespace) -> int:
    key = require_key(args.key)
    value = value_at(_load(args).merged.values, key)
    value = default_of(key) if value is None else value
    if args.json:
        return print_text(f"{json.dumps(value, default=str)}\n") or (FAILED if value is None else DONE)
    if value is None:
        print_error(f"engine config: {format_key(key)} is not set\nNext: engine config explain {format_key(key)}")
        return FAILED
    return print_text(f"{escape_control_chars(value) if isinstance(value, str) else toml_value(value)}\n")


def _files(sources: ConfigSources, root: str) -> list[tuple[Kind, Path]]:
    """Return the files that count, if they exist, the strongest first."""
    user = user_file(sources.path, sources.env)[0]
    own = list(project_files(str(sources.cwd), root)) if root else []
    files: list[tuple[Kind, Path]] = [("required", sources.system / REQUIRED_FILE)]
    if sources.profile_file:
        files.append(("profile file", user.parent / PROFILES / f"{sources.profile_file}.toml"))
    files.extend(("project", Path(path)) for path in reversed(own))
    files.extend((("user", user), ("system", sources.system / SYSTEM_FILE)))
    return files


def _path(args: argparse.Namespace) -> int:
    sources, root, trusted = _places(args)
    lines: list[str] = []
    for kind, path in _files(sources, root):
        state = "" if path.is_file() else "  (missing)"
        if kind == "project" and not state and not trusted:
            state = "  (project not trusted: only rules that deny or ask count)"
        lines.append(f"{kind:<12}  {escape_control_chars(str(path))}{state}\n")
    return print_text("".join(lines))


def _places(args: argparse.Namespace) -> tuple[ConfigSources, str, bool]:
    """Return the sources, the project's folder, and whether it is trusted."""
    from engine.permission.project_root import find_project_root

    sources = config_sources(args)
    root = find_project_root(str(sources.cwd), home=str(sources.files.home))
    return sources, root, bool(root) and (sources.trusts or sources.files.trust.is_trusted(root))


def _print_problem(error: ConfigError, sources: ConfigSources) -> None:
    lines = [escape_control_chars(line) for line in str(error).splitlines()]
    if not any(line.startswith(ADVICE) for line in lines):
        is_users = str(error).startswith(str(user_file(sources.path, sources.env)[0]))
        lines.append(f"{ADVICE}{'engine config edit' if is_users else 'correct the file'}")
    print_error("engine config: " + "\n".join(lines))


def _check(args: argparse.Namespace) -> int:
    sources, root, _ = _places(args)
    failed = False
    for kind, path in _files(sources, root):
        try:
            document: ConfigDocument | None = read_document(path, kind)
        except ConfigError as error:
            failed = True
            _print_problem(error, sources)
            continue
        if document is not None:
            print_text(f"{escape_control_chars(str(path))}: readable\n")
    if failed:
        return FAILED
    try:
        loaded = load_sources(sources)
        loaded.config()
    except ConfigError as error:
        _print_problem(error, sources)
        return FAILED
    for line in config_warnings(loaded):
        print_error(escape_control_chars(line))
    return print_text(f"The configuration of {escape_control_chars(os.fspath(sources.cwd or ''))} is valid.\n")

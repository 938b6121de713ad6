"""`engine mcp add, list, remove`: the servers of the configuration. Nothing is started."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.config.change_config import ConfigTarget
from engine.cli.flags.config_flags import load_user_config
from engine.cli.terminal.exit_codes import run_command
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars, two_columns
from engine.config.config import suggest_names
from engine.config.mcp_config import McpServer
from engine.core.errors import ConfigError
from engine.mcp.approvals import Approvals, withheld_tools
from engine.mcp.server_memory import ServerMemory
from engine.settings_file.config_file import load_config
from engine.settings_file.document import VERSION
from engine.settings_file.edit_file import with_value, without_value

_SECTION: Final = ("mcp", "servers")
_NAMED_BY: Final = {"project": "the project", "plugin": "a plugin"}


def add_main(arguments: list[str]) -> int:
    """Run `add`; return the exit code."""
    return run_command("mcp", lambda: _add(_parse_add(arguments)))


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return _run("list", arguments, _list)


def remove_main(arguments: list[str]) -> int:
    """Run `remove`; return the exit code."""
    return _run("remove", arguments, _remove)


def _run(name: str, arguments: Sequence[str], work: Callable[[argparse.Namespace], int]) -> int:
    return run_command("mcp", lambda: work(parse_arguments(f"mcp {name}", arguments)))


def require_server(args: argparse.Namespace) -> McpServer:
    """Return the server that is named. It blocks. Raises `ConfigError`."""
    servers = load_user_config(args).mcp.servers
    server = servers.get(args.name)
    if server is None:
        raise ConfigError(
            f"unknown MCP server {args.name!r}: {suggest_names(args.name, servers)}\nNext: engine mcp list"
        )
    return server


def _parse_add(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of `add`; what follows `--` is the command, whatever it looks like. Raises `ConfigError`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    args = parse_arguments("mcp add", arguments[:end])
    args.command = [*(args.command or ()), *arguments[end + 1 :]]
    return args


def _add(args: argparse.Namespace) -> int:
    if bool(args.command) == bool(args.url):
        raise ConfigError("name either a program or a --url\nNext: engine mcp add --help")
    table: dict[str, object] = {"url": args.url} if args.url else {"command": args.command[0]}
    if args.command[1:]:
        table["args"] = list(args.command[1:])
    if args.env:
        table["env"] = dict(_pair("--env", text, default=True) for text in args.env)
    if args.header:
        table["headers"] = dict(_pair("--header", text, default=False) for text in args.header)
    target = ConfigTarget(args)
    if args.name in load_config(target.path if target.path.exists() else None, target.sources.env).mcp.servers:
        raise ConfigError(f"there is an MCP server {args.name!r} already\nNext: engine mcp remove {args.name}")
    key = (*_SECTION, args.name)
    text = with_value(target.read() or f"version = {VERSION}\n", key, table)
    target.check(text, key)
    target.write(text)
    name = escape_control_chars(args.name)
    return print_text(f"{name} is added to {target.name}\nNext: engine mcp approve {name}\n")


def _pair(flag: str, text: str, *, default: bool) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign and not default:
        raise ConfigError(f"{flag} takes NAME=VALUE, not {text!r}\nNext: engine mcp add --help")
    return name.strip(), value.strip() if sign else f"${{{name.strip()}}}"


def _remove(args: argparse.Namespace) -> int:
    target = ConfigTarget(args)
    servers = load_config(target.path if target.path.exists() else None, target.sources.env).mcp.servers
    server = servers.get(args.name)
    try:
        text = without_value(target.read(), (*_SECTION, args.name))
    except ConfigError as error:
        raise ConfigError(f"{target.path} has no MCP server {args.name!r}\nNext: engine mcp list") from error
    target.write(text)
    if server is not None:
        Approvals.of_user().withdraw(args.name, server)
        ServerMemory.of_user().forget(server.fingerprint)
        if server.url and sum(each.url == server.url for each in servers.values()) == 1:
            _remove_login(server.url)
    return print_text(f"{escape_control_chars(args.name)} is removed from {target.name}\n")


def _remove_login(url: str) -> None:
    # Imported here: it brings the SDK. Without it, there was no login.
    with suppress(ModuleNotFoundError):
        from engine.mcp.oauth import LoginFile

        LoginFile.of_user().remove(url)


def _list(args: argparse.Namespace) -> int:
    servers = load_user_config(args).mcp.servers
    facts = [_facts(name, server) for name, server in servers.items()]
    if args.json:
        return print_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if not facts:
        return print_text("No MCP servers are configured.\nNext: engine mcp add NAME -- COMMAND\n")
    rows = [(escape_control_chars(str(one["name"])), escape_control_chars(_line(one))) for one in facts]
    return print_text(f"{two_columns(rows)}\n")


def _facts(name: str, server: McpServer) -> dict[str, object]:
    approved = Approvals.of_user().load(name, server)
    remembered = ServerMemory.of_user().load(server.fingerprint)
    withheld = withheld_tools(approved, remembered.listed.tools)
    return {
        "name": name,
        "origin": server.origin,
        "command": list(server.command),
        "url": server.url,
        "era": "" if remembered.era is None else remembered.era.kind,
        "approved": sorted(approved.tools),
        "withheld": [one.tool.name for one in withheld],
        "refused": [{"name": tool, "reason": reason} for tool, reason in remembered.listed.refused],
    }


def _line(facts: dict[str, object]) -> str:
    what = facts["url"] or " ".join(map(str, _texts(facts["command"])))
    approved, withheld = len(_texts(facts["approved"])), len(_texts(facts["withheld"]))
    parts = [f"{approved} tool{'s' * (approved > 1)} approved" if approved else "no tools approved"]
    if withheld:
        parts.append(f"{withheld} wait for approval")
    if refused := len(_texts(facts["refused"])):
        parts.append(f"{refused} can't be used")
    origin = f", named by {_NAMED_BY[str(facts['origin'])]}" if facts["origin"] in _NAMED_BY else ""
    return f"{what} ({', '.join(parts)}{origin})"


def _texts(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []

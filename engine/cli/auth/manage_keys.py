"""`engine auth add, remove, import`: change the stored keys."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config, suggest_names
from engine.core.errors import ConfigError
from engine.providers.auth.auth_file import AuthFile
from engine.providers.auth.fetched_key import delete_from_keyring, write_keyring
from engine.providers.auth.key_text import require_key
from engine.providers.auth.key_variables import key_variables
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.settings_file.config_file import load_config

_MAX_KEY: Final = 65_536
# Shorter keys are not shown at all: four characters would be much of them.
_SHORTEST_SHOWN: Final = 12
_SHELL_FILES: Final = (
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".config/fish/config.fish",
    ".env",
)
_ASSIGNMENT: Final = re.compile(
    r"""^\s*(?:export\s+|set\s+(?:-\w+\s+)+)?(?P<name>[A-Z_][A-Z0-9_]*)(?:=|\s+)(?P<value>'[^']*'|"[^"$`\\]*"|[^\s'"$`\\;#]+)\s*(?:[;#].*)?$"""
)


def add_main(arguments: list[str]) -> int:
    """Run `add`; return the exit code."""
    return run_command("auth", lambda: _add(_parse_add(arguments)))


def remove_main(arguments: list[str]) -> int:
    """Run `remove`; return the exit code."""
    return _run("remove", arguments, _remove)


def import_main(arguments: list[str]) -> int:
    """Run `import`; return the exit code."""
    return _run("import", arguments, _import)


def _run(name: str, arguments: Sequence[str], change: Callable[[argparse.Namespace], int]) -> int:
    return run_command("auth", lambda: change(parse_arguments(f"auth {name}", arguments)))


def _parse_add(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of `add`; a key among them is not repeated in the error. Raises `ConfigError`."""
    try:
        return parse_arguments("auth add", arguments)
    except ConfigError as error:
        if not str(error).startswith("too many arguments"):
            raise
        raise ConfigError("a key is not an argument: other users could see it\nNext: engine auth add HOST") from None


def require_host(name: str, config: Config) -> Host:
    """Return the host *name*. Raises `ConfigError` if there is none, or if it takes no key."""
    hosts = hosts_of(config)
    if name not in hosts:
        raise ConfigError(f"unknown provider {name!r}: {suggest_names(name, hosts)}\nNext: engine auth list")
    if hosts[name].auth == "none":
        raise ConfigError(f"{name} takes no key\nNext: engine config set hosts.{name}.auth bearer")
    return hosts[name]


def last_characters(key: str) -> str:
    """Return what of a key is shown: its last four characters, if it is long enough."""
    return f"ends {key[-4:]}" if len(key) >= _SHORTEST_SHOWN else "too short to show"


def _add(args: argparse.Namespace) -> int:
    config = load_config(args.config, os.environ)
    host = require_host(args.host, config)
    file = AuthFile(Path(config.auth_file))
    file.keys()  # an unusable file is reported before the key is typed
    key = require_key(_read_key(host), "what you entered")
    if not key:
        raise ConfigError(f"no key was entered\nNext: engine auth add {host.name}")
    if args.keyring:
        write_keyring(host.name, key)
    file.add(host.name, "" if args.keyring else key)
    place = "the keyring" if args.keyring else file.path
    print_text(f"Stored the key of {host.name} ({last_characters(key)}) in {escape_control_chars(str(place))}\n")
    for variable in key_variables(host):
        if os.environ.get(variable, "").strip():
            print_error(f"{variable} is set, and counts before the stored key.")
    return DONE


def _read_key(host: Host) -> str:
    """Return the key from the terminal, where it is not shown, or a line of standard input."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return getpass.getpass(f"Key of {host.title} (not shown): ")
    return sys.stdin.readline(_MAX_KEY)


def _remove(args: argparse.Namespace) -> int:
    config = load_config(args.config, os.environ)
    file = AuthFile(Path(config.auth_file))
    stored = file.keys().get(args.host)
    if stored is not None and stored.is_in_keyring:
        delete_from_keyring(args.host)
    file.remove(args.host)
    return print_text(f"Removed the stored key of {escape_control_chars(args.host)}\n")


# -- import -----------------------------------------------------------------------------------------


@attrs.frozen
class _ShellKey:
    """A key in a file of the shell."""

    host: str
    variable: str
    location: str
    key: str = attrs.field(repr=False)


def _import(args: argparse.Namespace) -> int:
    config = load_config(args.config, os.environ)
    hosts = {name: require_host(name, config) for name in args.hosts} or hosts_of(config)
    keys = {each.host: each for each in _shell_keys(hosts)}
    if not keys:
        return print_text("No keys in your shell's files.\n")
    file = AuthFile(Path(config.auth_file))
    for each in keys.values():
        if args.copy:
            file.add(each.host, each.key)
        where = f"{'from' if args.copy else 'in'} {each.location} ({last_characters(each.key)})"
        print_text(
            escape_control_chars(f"{'Stored ' if args.copy else ''}{each.variable} for {each.host} {where}") + "\n"
        )
    if not args.copy:
        print_error("Next: engine auth import --copy")
    return DONE


def _shell_keys(hosts: Mapping[str, Host]) -> Iterator[_ShellKey]:
    """Yield the keys in the shell's files; values that only the shell can work out are left out."""
    # Of hosts that share a variable, the first is the one of its maker.
    owners = {name: host.name for host in reversed(tuple(hosts.values())) for name in host.key_variables}
    for file in _SHELL_FILES:
        path = Path("~", file).expanduser()
        try:
            lines = path.read_text("utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            match = _ASSIGNMENT.match(line)
            if match is None or match["name"] not in owners:
                continue
            key = require_key(match["value"].strip("'\""), f"{match['name']} in {path}:{number}")
            if key:
                yield _ShellKey(owners[match["name"]], match["name"], f"{path}:{number}", key)

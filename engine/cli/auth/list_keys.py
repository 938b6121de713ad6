"""`engine auth list, test`: which keys are used, and whether their providers accept them."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from typing import Final

import trio

from engine.cli.auth.manage_keys import last_characters, require_host
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.errors import ConfigError, MissingKey, ProviderError
from engine.providers.auth.key_variables import Credential, credential_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.providers.list_call import call_list, has_list
from engine.providers.registry import unusable_reason
from engine.settings_file.config_file import load_config

_SECONDS: Final = 10.0
_DAY: Final = 86_400


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return run_command("auth", lambda: _list(parse_arguments("auth list", arguments)))


def test_main(arguments: list[str]) -> int:
    """Run `test`; return the exit code."""
    return run_command("auth", lambda: _test(parse_arguments("auth test", arguments)))


def credentials(env: Mapping[str, str], config: Config) -> dict[str, Credential | ConfigError]:
    """Return the hosts with a credential, and where it comes from, or why it can't be used. It reads files."""
    every: dict[str, Credential | ConfigError] = {}
    for name, host in hosts_of(config).items():
        try:
            credential = credential_of(host, env, config.auth_file)
        except MissingKey:
            continue
        except ConfigError as error:
            every[name] = error
            continue
        is_cloud = credential.source == "cloud"
        if credential.source != "none" and not (is_cloud and unusable_reason(host, env, config)):
            every[name] = credential
    return every


def place_of(credential: Credential) -> str:
    """Return where a key comes from, for people."""
    match credential.source:
        case "variable":
            return f"${credential.name}"
        case "auth file" | "key command":
            return f"{credential.source} {credential.name}"
        case "cloud":
            return "the cloud's own credentials"
        case source:
            return source


def _age(credential: Credential) -> str:
    if credential.added is None:
        return ""
    days = int((time.time() - credential.added) // _DAY)
    return "added today" if days < 1 else f"added {days} day{'s' * (days > 1)} ago"


def _list(args: argparse.Namespace) -> int:
    config = load_config(args.config, os.environ)
    every = credentials(os.environ, config)
    if args.json:
        return print_text(f"{json.dumps([_document(name, each) for name, each in every.items()], indent=2)}\n")
    if not every:
        return print_text("No keys.\nNext: engine auth add HOST\n")
    rows: list[tuple[str, str]] = []
    # A file that can't be read is the same problem of every provider.
    problems: dict[str, list[str]] = {}
    for name, each in every.items():
        if isinstance(each, ConfigError):
            problems.setdefault(str(each).splitlines()[0], []).append(name)
        else:
            notes = (place_of(each), last_characters(each.key) if each.key else "", _age(each))
            rows.append((name, "  ".join(filter(None, notes))))
    for problem, names in problems.items():
        rows.append((names[0] if len(names) == 1 else f"{len(names)} providers", problem))
    width = max(len(name) for name, _ in rows)
    return print_text("".join(f"{name:<{width}}  {escape_control_chars(text)}\n" for name, text in rows))


def _document(name: str, each: Credential | ConfigError) -> dict[str, object]:
    if isinstance(each, ConfigError):
        return {"host": name, "error": str(each)}
    ending = each.key[-4:] if last_characters(each.key).startswith("ends") else None
    return {"host": name, "source": each.source, "name": each.name or None, "ends": ending, "added": each.added}


def _test(args: argparse.Namespace) -> int:
    config = load_config(args.config, os.environ)
    if args.host is not None:
        host = require_host(args.host, config)
        hosts = {host.name: host}
        credential_of(host, os.environ, config.auth_file)
    else:
        hosts = {name: hosts_of(config)[name] for name in credentials(os.environ, config)}
    if not hosts:
        raise MissingKey("no provider has a key\nNext: engine auth add HOST")
    results = trio.run(_test_all, hosts, config)
    for name in hosts:
        works, text = results[name]
        if works:
            print_text(f"{escape_control_chars(text)}\n")
        else:
            print_error(escape_control_chars(text))
    return DONE if all(works for works, _ in results.values()) else FAILED


async def _test_all(hosts: Mapping[str, Host], config: Config) -> dict[str, tuple[bool, str]]:
    results: dict[str, tuple[bool, str]] = {}

    async def test(host: Host) -> None:
        results[host.name] = await test_key(host, os.environ, config)

    async with trio.open_nursery() as nursery:
        for host in hosts.values():
            nursery.start_soon(test, host)
    return results


async def test_key(host: Host, env: Mapping[str, str], config: Config) -> tuple[bool, str]:
    """Return whether the provider accepts the key, as far as a free request tells, and a sentence. A checkpoint."""
    try:
        credential = credential_of(host, env, config.auth_file)
        which = f"the key from {place_of(credential)}{f' ({last_characters(credential.key)})' * bool(credential.key)}"
        if not has_list(host):
            await trio.lowlevel.checkpoint()
            return True, f"{host.name}: {which} was not tested: the provider has no free request"
        call = await call_list(host, env, config, seconds=_SECONDS)
        if call.is_rejected:
            return (
                False,
                f"{host.name}: the provider rejected {which} ({call.status})\nNext: engine auth add {host.name}",
            )
        if not call.is_accepted:
            return call.status in {404, 405}, f"{host.name}: {which} was not tested: status {call.status}"
        # A list that needs no key says nothing about it.
        if (await call_list(host, env, config, seconds=_SECONDS, with_key=False)).is_accepted:
            return True, f"{host.name}: the provider answers, but its list needs no key: {which} was not tested"
    except ConfigError as error:
        return False, f"{host.name}: {error}"
    except ProviderError as error:
        # Imported here: most keys are accepted.
        from engine.cli.problems.raised import lines_of_error

        return False, f"{host.name}: " + "\n".join(lines_of_error(error, Surroundings(env=env, config=config)))
    return True, f"{host.name}: the provider accepts {which}"

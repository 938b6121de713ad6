"""`engine doctor`: all checks at the same time, within five seconds."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from engine.cli.auth.list_keys import credentials
from engine.cli.auth.manage_keys import require_host
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.cli.doctor.config_checks import check_config, check_credentials, check_state, check_store
from engine.cli.doctor.installation import ONLINE_SECONDS, check_newest
from engine.cli.doctor.machine_checks import (
    check_clipboard,
    check_git,
    check_installation,
    check_language_servers,
    check_limits,
    check_ripgrep,
    check_sandbox,
    check_terminal,
)
from engine.cli.doctor.provider_checks import check_provider
from engine.cli.doctor.width_check import check_width
from engine.cli.flags.config_flags import config_sources
from engine.cli.flags.store_flags import resolve_store
from engine.cli.terminal.colours import Colour, Palette, has_colour
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.threads import to_thread
from engine.permission.user_policy import UserFiles
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.session.validation import secrets_of

# Of the five seconds, the rest is for starting and for the end.
_SECONDS: Final = 4.2
_COLOURS: Final[Mapping[str, Colour]] = {"ok": "green", "warn": "yellow", "fail": "red"}

Check = Callable[[], Awaitable[CheckResults]]


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_command("doctor", lambda: _examine(parse_arguments("doctor", arguments)))


def _examine(args: argparse.Namespace) -> int:
    findings, loaded, config = check_config(config_sources(args))
    hosts = _hosts(args.host, config, is_valid=loaded is not None)
    checks = _checks(hosts, config, resolve_store(args))
    if args.online:
        checks = {**checks, "newest": check_newest}
    seconds = ONLINE_SECONDS if args.online else _SECONDS
    findings = [*check_installation(), *findings, *trio.run(run_checks, checks, seconds)]
    # Alone with the terminal: the others have ended.
    findings += [] if args.json else check_width()
    code = FAILED if any(each.state == "fail" for each in findings) else DONE
    if args.json:
        print_text(f"{json.dumps([attrs.asdict(each) for each in findings], indent=2)}\n")
    else:
        print_text(_as_text(findings))
    if args.bundle:
        # Imported here: few reports are sent.
        from engine.cli.doctor.bundle import write_bundle

        path = write_bundle(findings, loaded, secrets_of(config))
        print_error(f"Wrote {escape_control_chars(str(path))}. Read it before you send it.")
    return code


def _hosts(name: str | None, config: Config, *, is_valid: bool) -> dict[str, Host]:
    """Return the providers to check: one, or all for which there is a key."""
    if name is not None:
        if not is_valid:
            return {}
        return {name: require_host(name, config)}
    every = hosts_of(config)
    return {
        each: every[each] for each, one in credentials(os.environ, config).items() if not isinstance(one, ConfigError)
    }


def _checks(hosts: Mapping[str, Host], config: Config, place: str) -> dict[str, Check]:
    """Return the checks by name, in the order of the report."""

    def in_thread(check: Callable[[], CheckResults]) -> Check:
        return partial(to_thread, check)

    return {
        "keys": in_thread(partial(check_credentials, os.environ, config)),
        **{f"provider {name}": partial(check_provider, host, os.environ, config) for name, host in hosts.items()},
        "store": in_thread(partial(check_store, place, config.store)),
        "state": in_thread(partial(check_state, UserFiles.default().folder)),
        "git": check_git,
        "rg": check_ripgrep,
        "sandbox": partial(check_sandbox, config),
        "language servers": in_thread(partial(check_language_servers, config)),
        "terminal": in_thread(partial(check_terminal, os.environ)),
        "clipboard": in_thread(partial(check_clipboard, os.environ)),
        "limits": in_thread(check_limits),
    }


async def run_checks(checks: Mapping[str, Check], seconds: float = _SECONDS) -> CheckResults:
    """Run all checks at the same time; one that takes longer is a warning. A checkpoint; if cancelled, all are ended."""
    results: dict[str, CheckResults] = {
        name: [CheckResult(name, "warn", f"not finished after {seconds:g} s", "engine doctor")] for name in checks
    }

    async def run(name: str, check: Check) -> None:
        results[name] = await check()

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for name, check in checks.items():
                nursery.start_soon(run, name, check)
    return [finding for each in results.values() for finding in each]


def _as_text(findings: Sequence[CheckResult]) -> str:
    palette = Palette(has_colour("auto", os.environ, is_terminal=sys.stdout is not None and sys.stdout.isatty()))
    width = max(len(each.name) for each in findings)
    lines: list[str] = []
    for each in findings:
        state = palette.paint(f"{each.state:<4}", _COLOURS[each.state])
        lines.append(f"{state}  {each.name:<{width}}  {escape_control_chars(each.text)}\n")
        if each.next and each.state != "ok":
            lines.append(f"      {'':<{width}}  Next: {escape_control_chars(each.next)}\n")
    return "".join(lines)

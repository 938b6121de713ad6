"""`engine models`: which providers can be used here, why not the others, and their models' limits and prices."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

import attrs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.completion_names import keep_names
from engine.cli.flags.config_flags import load_user_config
from engine.cli.models_text import HostReport, as_json, as_text
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import stdout_width, symbols_for
from engine.config.config import Config, suggest_names
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelInfo
from engine.providers.auth.auth import split_password
from engine.providers.auth.key_variables import auth_of, public_headers
from engine.providers.hosts.base_url import base_url_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.providers.models.catalog import info_of, list_models, list_other_models
from engine.providers.registry import unusable_reason

# A server on this machine answers at once, or it is not running.
_TIMEOUT: Final = 0.5


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_command("models", lambda: _print_hosts(parse_arguments("models", arguments)))


def _print_hosts(args: argparse.Namespace) -> int:
    config = load_user_config(args)
    reports = trio.run(report_hosts, os.environ, config, args.host)
    if args.host is None:
        usable = (info for report in reports if not report.why_not for info in report.models)
        keep_names("models", ((info.name, "") for info in usable))
    if args.json:
        text = as_json(reports)
    else:
        text = as_text(
            reports,
            stdout_width(),
            symbols_for(_encoding()),
            is_one=args.host is not None,
            is_all=args.all,
            can_run_files=find_spec("xllamacpp") is not None,
        )
    is_unusable = args.host is not None and bool(reports[0].why_not)
    return print_text(text) or (FAILED if is_unusable else DONE)


def _encoding() -> str:
    return "utf-8" if sys.stdout is None else sys.stdout.encoding


async def report_hosts(env: Mapping[str, str], config: Config, only: str | None) -> list[HostReport]:
    """Return a report of each host, or of *only* one. A checkpoint; if cancelled, nothing is left.

    Raises `ConfigError` if there is no such host.
    """
    hosts = hosts_of(config)
    if only is not None and only not in hosts:
        raise ConfigError(f"unknown provider {only!r}: {suggest_names(only, hosts)}\nNext: engine models")
    selected: Iterable[Host] = hosts.values() if only is None else (hosts[only],)
    # Hosts of the user's configuration come first.
    ordered = sorted(selected, key=lambda host: host.name not in config.hosts)
    reports = {host.name: _report(host, env, config) for host in ordered}
    async with trio.open_nursery() as nursery:
        for host in ordered:
            # Remote hosts are not contacted: a listing must not cost requests or reveal keys.
            if host.is_local and not reports[host.name].why_not:
                nursery.start_soon(_probe, host, env, config, reports, only is not None)
        await trio.lowlevel.checkpoint()
    return list(reports.values())


def _report(host: Host, env: Mapping[str, str], config: Config) -> HostReport:
    return HostReport(
        host=host,
        why_not=unusable_reason(host, env, config),
        models=tuple(list_models(host, config)),
        others=list_other_models(host),
        is_configured=host.name in config.hosts,
    )


async def _probe(
    host: Host,
    env: Mapping[str, str],
    config: Config,
    reports: dict[str, HostReport],
    is_thorough: bool,  # noqa: FBT001  # a task's arguments have no names
) -> None:
    """Ask a local server for its models, and put them into *reports*. A checkpoint."""
    # Imported here: these load the HTTP library.
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.local.probe import list_models, probe_limits

    host_config = config.hosts.get(host.name)
    address = base_url_of(host, env, None if host_config is None else host_config.base_url)
    address, auth = split_password(address, auth_of(host, env, config.auth_file))
    endpoint = Endpoint(base_url=address, auth=auth, headers=public_headers(host))
    names = await list_models(endpoint, _TIMEOUT)
    if names is None:
        advice = f"; {host.note}" if host.note else ""
        reports[host.name] = attrs.evolve(reports[host.name], why_not=f"no server answers at {endpoint.host}{advice}")
        return
    infos = {info.name: info for info in (info_of(f"{host.name}/{name}", host, config) for name in names)}
    # Models with known or configured limits replace those that the server only names.
    infos |= {info.name: info for info in reports[host.name].models}

    async def ask_for(info: ModelInfo) -> None:
        infos[info.name] = await probe_limits(endpoint, host.limits_api, info.name.partition("/")[2], info)

    async with trio.open_nursery() as nursery:
        for info in infos.values():
            # One request per model: too many for the list of all hosts.
            if is_thorough and not info.is_known:
                nursery.start_soon(ask_for, info)
        await trio.lowlevel.checkpoint()
    reports[host.name] = attrs.evolve(reports[host.name], models=tuple(infos.values()))

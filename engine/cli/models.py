"""`engine models`: which hosts can be used here, why not the others, and what their models hold and cost."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

import attrs
import trio

from engine.cli import say
from engine.cli.models_text import as_json, as_text
from engine.cli.output import complain
from engine.cli.terminal_text import symbols_for
from engine.config.config import Config, known
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelInfo
from engine.providers.auth.auth import split_password
from engine.providers.auth.environment import auth_of, public_headers
from engine.providers.hosts.base_url import base_url_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.providers.models.catalog import info_of, list_models
from engine.providers.registry import unusable_reason
from engine.settings_file.config_file import load_config

UNUSABLE: Final = 1
USAGE_ERROR: Final = 2
# A server on this machine answers at once, or is not there.
_PATIENCE: Final = 0.5
_PIPE_WIDTH: Final = 100


@attrs.frozen(kw_only=True)
class Report:
    """What is to be said of a host.

    Attributes:
        host: the host.
        why_not: why it can't be used here; empty: it can.
        models: what is known to be there.
        is_configured: the user's configuration speaks of it.
    """

    host: Host
    why_not: str = ""
    models: tuple[ModelInfo, ...] = ()
    is_configured: bool = False


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    try:
        given = _parser().parse_args(arguments)
        config = load_config(given.config, os.environ)
        reports = trio.run(look_around, os.environ, config, given.host)
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except ConfigError as error:
        complain(f"engine models: {error}")
        return USAGE_ERROR
    if given.json:
        told = as_json(reports)
    else:
        told = as_text(
            reports,
            _width(),
            symbols_for(_encoding()),
            is_one=given.host is not None,
            is_all=given.all,
            can_run_files=find_spec("xllamacpp") is not None,
        )
    failed = say(told)
    return failed or (UNUSABLE if given.host is not None and reports[0].why_not else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="engine models",
        allow_abbrev=False,
        description="List the hosts of models that can be used here, what their models hold and cost, "
        "and what the other hosts lack.",
        epilog="Keys are taken from the environment; they are not tried, and nothing is sent anywhere but to servers "
        "of your own. Exit codes: 0 listed, 1 HOST can't be used here, 2 wrong usage.",
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="say all about one host")
    parser.add_argument(
        "--all", action="store_true", help="list every known model, of hosts that can't be used here too"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as one JSON document")
    parser.add_argument("--config", metavar="FILE", help="the configuration to read instead of your own")
    return parser


def _width() -> int:
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if is_terminal else _PIPE_WIDTH


def _encoding() -> str:
    return "utf-8" if sys.stdout is None else sys.stdout.encoding


async def look_around(env: Mapping[str, str], config: Config, only: str | None) -> list[Report]:
    """Return a report of each host, or of *only* one. A checkpoint; if cancelled, nothing is left.

    Raises `ConfigError` if there is no such host.
    """
    hosts = hosts_of(config)
    if only is not None and only not in hosts:
        raise ConfigError(f"there is no host {only!r}: {known(only, hosts)}")
    chosen: Iterable[Host] = hosts.values() if only is None else (hosts[only],)
    # What the user speaks of goes first.
    ordered = sorted(chosen, key=lambda host: host.name not in config.hosts)
    reports = {host.name: _report(host, env, config) for host in ordered}
    async with trio.open_nursery() as nursery:
        for host in ordered:
            if host.is_local and not reports[host.name].why_not:
                nursery.start_soon(_ask, host, env, config, reports, only is not None)
        await trio.lowlevel.checkpoint()
    return list(reports.values())


def _report(host: Host, env: Mapping[str, str], config: Config) -> Report:
    return Report(
        host=host,
        why_not=unusable_reason(host, env, config),
        models=tuple(list_models(host, config)),
        is_configured=host.name in config.hosts,
    )


async def _ask(
    host: Host,
    env: Mapping[str, str],
    config: Config,
    reports: dict[str, Report],
    is_thorough: bool,  # noqa: FBT001  # a task's arguments have no names
) -> None:
    """Ask a server of the user's own what it has, and put it into *reports*. A checkpoint."""
    # Imported here: they bring the HTTP library.
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.local.probe import list_models, probe_limits

    said = config.hosts.get(host.name)
    address = base_url_of(host, env, None if said is None else said.base_url)
    address, auth = split_password(address, auth_of(host, env))
    endpoint = Endpoint(base_url=address, auth=auth, headers=public_headers(host))
    names = await list_models(endpoint, _PATIENCE)
    if names is None:
        advice = f"; {host.note}" if host.note else ""
        reports[host.name] = attrs.evolve(reports[host.name], why_not=f"nobody answers at {endpoint.host}{advice}")
        return
    infos = {info.name: info for info in (info_of(f"{host.name}/{name}", host, config) for name in names)}
    infos |= {info.name: info for info in reports[host.name].models}

    async def ask_for(info: ModelInfo) -> None:
        infos[info.name] = await probe_limits(endpoint, host.limits_api, info.name.partition("/")[2], info)

    async with trio.open_nursery() as nursery:
        for info in infos.values():
            if is_thorough and not info.is_known:
                nursery.start_soon(ask_for, info)
        await trio.lowlevel.checkpoint()
    reports[host.name] = attrs.evolve(reports[host.name], models=tuple(infos.values()))

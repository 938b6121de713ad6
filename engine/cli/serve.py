"""`engine serve`: sessions for clients that connect over a WebSocket, HTTP or a Unix socket, or that have started it."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from contextlib import suppress
from typing import Final

import attrs

from engine.cli.command_table.find_command import find_spec, parse_arguments
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.config_flags import split_continue
from engine.cli.flags.model_flags import model_choice
from engine.cli.flags.permission_flags import permission_choice
from engine.cli.flags.store_flags import resolve_store
from engine.cli.folder_settings import FolderSettings
from engine.cli.problems.raised import lines_of_error
from engine.cli.problems.surroundings import Surroundings
from engine.cli.server_process import ServeCommand, run_server
from engine.cli.terminal.exit_codes import run_command
from engine.control.listen import HttpAdapter, ServeOptions
from engine.control.service.audit_log import write_audit
from engine.control.service.server_discovery import server_folder, store_label
from engine.control.service.service_manager import ServiceManager
from engine.control.service.tls_files import TlsFiles
from engine.core.errors import ConfigError
from engine.process.own_environment import hide_own_secrets
from engine.process.subreaper import become_subreaper
from engine.session.validation import secrets_of

# What a server on its standard streams does not have.
_OF_SOCKETS: Final = (
    "port",
    "listen",
    "tls_cert",
    "tls_key",
    "insecure_plain",
    "public_url",
    "open",
    "require_new",
    "takeover",
    "exit_idle",
    "max_memory",
    "notify",
    "opencode",
)
_MOST_FILES: Final = 65_536


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    around = Surroundings(env=os.environ, command="serve")

    def run() -> int:
        nonlocal around
        # Before anything starts a process: these variables are for this one.
        manager = ServiceManager.take(os.environ)
        command = _parse(arguments, manager)
        config = command.model.config
        around = attrs.evolve(around, config=config, place=command.place)
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        hide_own_secrets(secrets_of(config))
        become_subreaper()
        _allow_many_files()
        tools = default_tools(config.sandbox, knowledge_for(config), command.layers, command.cwd, config.all_agents)
        return run_server(command, tools)

    return run_command("serve", run, explain=lambda error: lines_of_error(error, around))


def _parse(arguments: list[str], manager: ServiceManager) -> ServeCommand:
    """Parse *arguments*. It blocks. Raises `SystemExit`, `ConfigError`, `StoreError`."""
    args = parse_arguments("serve", split_continue(arguments))
    if args.stdio:
        _check_stdio(args, manager)
    permissions = permission_choice(args)
    folders = FolderSettings(args, permissions)
    config = folders.config(args.cwd)
    place = resolve_store(args)
    serving = None if args.stdio else _options(args, manager, place)
    if args.audit is not None:
        write_audit(args.audit)
    return ServeCommand(
        model=model_choice(args, config),
        cwd=args.cwd,
        folders=folders,
        layers=folders.layers(config),
        place=place,
        serving=serving,
        drain=args.drain,
        requires_new=args.require_new,
        opens=args.open,
        manager=manager,
    )


def _check_stdio(args: argparse.Namespace, manager: ServiceManager) -> None:
    """Refuse what a server on its standard streams does not have. Raises `ConfigError`."""
    for flag in find_spec("serve").flags:
        is_set = getattr(args, flag.attribute) != (flag.default if flag.takes_value else False)
        if flag.attribute in _OF_SOCKETS and is_set:
            raise ConfigError(f"--stdio has no sockets, so {flag.name} has no meaning\nNext: engine serve --help")
    if manager.sockets:
        raise ConfigError("--stdio takes no sockets, and a service manager has passed some\nNext: engine serve --help")


def _options(args: argparse.Namespace, manager: ServiceManager, place: str) -> ServeOptions:
    """Return how the server is reached. It blocks. Raises `ConfigError`."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together\nNext: add the other one")
    options = ServeOptions(
        host=args.listen,
        port=args.port,
        folder=server_folder(place),
        store=store_label(place),
        public_url=args.public_url,
        tls=None if args.tls_cert is None else TlsFiles(args.tls_cert, args.tls_key),
        plain=args.insecure_plain,
        sockets=manager.sockets,
        takes_over=args.takeover,
        drain_seconds=args.drain,
        exit_idle=args.exit_idle,
        memory=args.max_memory,
        notifier=args.notify or "",
        adapter=_opencode() if args.opencode else None,
    )
    options.check()
    return options


def _opencode() -> HttpAdapter:
    # Not for servers that do without it.
    from engine.control.opencode.opencode_api import OpencodeApi

    return OpencodeApi


def _allow_many_files() -> None:
    """Raise the soft limit on open files: each connection is one, and shells usually set 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if sys.platform == "linux" and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

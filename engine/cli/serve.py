"""`engine serve`: sessions for clients that connect over a WebSocket, HTTP or a Unix socket, or that have started it."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from engine.cli.agent_files import config_with_agents
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.arg_types import add_cwd_flag, command_parser, seconds, whole
from engine.cli.flags.model_flags import add_model_flags, model_choice
from engine.cli.flags.permission_flags import (
    add_permission_flags,
    add_sandbox_flags,
    permission_choice,
)
from engine.cli.flags.store_flags import add_store_flag, resolve_store
from engine.cli.prompt_files import user_prompt_layers
from engine.cli.server_process import ServeCommand, run_server
from engine.cli.terminal.exit_codes import run_command
from engine.control.listen import ServeOptions
from engine.control.service.audit_log import write_audit
from engine.control.service.server_discovery import server_folder, store_label
from engine.control.service.service_manager import ServiceManager
from engine.control.service.tls_files import TlsFiles
from engine.core.errors import ConfigError
from engine.process.own_environment import hide_own_secrets
from engine.process.subreaper import become_subreaper
from engine.session.validation import secrets_of

_MOST_PORT: Final = 65_535
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
)
_MOST_FILES: Final = 65_536
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    if arguments[:1] == ["keys"]:
        from engine.cli.serve_keys import main as keys_main

        return keys_main(arguments[1:])

    def run() -> int:
        # Before anything starts a process: these variables are for this one.
        manager = ServiceManager.take(os.environ)
        command = _parse(arguments, manager)
        config = command.model.config
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        hide_own_secrets(secrets_of(config))
        become_subreaper()
        _allow_many_files()
        tools = default_tools(config.sandbox, knowledge_for(config), command.layers, command.cwd, config.all_agents)
        return run_server(command, tools)

    return run_command("serve", run)


def _parse(arguments: list[str], manager: ServiceManager) -> ServeCommand:
    """Parse *arguments*. It blocks. Raises `SystemExit`, `ConfigError`, `StoreError`."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.stdio and (others := [name for name in _OF_SOCKETS if getattr(args, name) != parser.get_default(name)]):
        parser.error(f"--stdio has no sockets, so --{others[0].replace('_', '-')} has no meaning")
    if args.stdio and manager.sockets:
        parser.error("--stdio takes no sockets, and a service manager has passed some")
    permissions = permission_choice(args)
    configured = config_with_agents(args)
    config = attrs.evolve(configured, sandbox=permissions.box(configured))
    place = resolve_store(args)
    serving = None if args.stdio else _options(args, manager, place)
    if args.audit is not None:
        write_audit(args.audit)
    return ServeCommand(
        model=model_choice(args, config),
        cwd=args.cwd,
        permissions=permissions,
        layers=user_prompt_layers(config, permissions),
        place=place,
        serving=serving,
        drain=args.drain,
        requires_new=args.require_new,
        opens=args.open,
        manager=manager,
    )


def _options(args: argparse.Namespace, manager: ServiceManager, place: str) -> ServeOptions:
    """Return how the server is reached. It blocks. Raises `ConfigError`."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together")
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
    )
    options.check()
    return options


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "serve",
        "Serve sessions to clients on this machine: over a WebSocket and HTTP, with a token, and over a Unix socket, "
        "which needs none. `engine serve keys` lists, adds and revokes tokens.",
        epilog="SIGTERM or Ctrl-C ends it: turns may go on for --drain seconds, then they are stopped and saved; a second "
        "one stops them at once. SIGHUP reads the certificate again. Exit codes: 0 ended, or a server runs already, "
        "1 failed, 2 wrong usage, 11 a server runs already and --require-new is set.",
    )
    _add_address_flags(parser)
    _add_life_flags(parser)
    add_cwd_flag(parser)
    add_store_flag(parser.add_argument_group("sessions"))
    add_permission_flags(parser)
    add_sandbox_flags(parser)
    add_model_flags(parser)
    return parser


def _add_address_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port",
        type=whole(0, _MOST_PORT),
        default=0,
        metavar="N",
        help="the port; default: the one of the last time, or a free one",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen at; default: 127.0.0.1, which only this machine can reach",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="a certificate, with its chain, in PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    parser.add_argument(
        "--insecure-plain",
        action="store_true",
        help="listen at an address of the network without encryption: anybody who sees the traffic can use the token",
    )
    parser.add_argument("--public-url", metavar="URL", help="the address at which a proxy passes requests on")
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="serve only the program that starts it, over standard input and output, a message on each line; "
        "the end of the input drains it",
    )


def _add_life_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("life of the server")
    group.add_argument(
        "--drain",
        type=seconds_or_none,
        default=10.0,
        metavar="SECONDS",
        help="how long turns may go on when the server ends; default: 10",
    )
    group.add_argument(
        "--require-new", action="store_true", help="fail with 11 if a server of this store runs already; default: 0"
    )
    group.add_argument(
        "--takeover",
        action="store_true",
        help="if a server of this store runs, take its sockets, and let it drain: no connection is refused",
    )
    group.add_argument(
        "--exit-idle", type=seconds, metavar="SECONDS", help="end after so long without a client and without a turn"
    )
    group.add_argument(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="such as 2G: above it, no new work is taken, and clients that only watch are disconnected",
    )
    group.add_argument(
        "--notify",
        metavar="COMMAND",
        help="run this with bash when a question waits and no client is connected; $ENGINE_SESSION, $ENGINE_QUESTION",
    )
    group.add_argument(
        "--open", action="store_true", help="open the page in a browser, also that of a server that runs already"
    )
    group.add_argument("--audit", metavar="FILE", help="log who connects, answers, cancels and deletes; - is stderr")


def seconds_or_none(text: str) -> float:
    """Parse a time in seconds, or 0. For `type=`."""
    return 0.0 if text.strip() == "0" else seconds(text)


def memory_size(text: str) -> int:
    """Parse a number of bytes, such as 500M or 2G. For `type=`."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in {"K", "M", "G"} else (text, "")
    if not number.isascii() or not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"must be a size such as 500M or 2G, not {text!r}")
    return int(number) * _UNITS[unit]


def _allow_many_files() -> None:
    """Raise the soft limit on open files: each connection is one, and shells usually set 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if sys.platform == "linux" and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

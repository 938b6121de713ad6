"""`engine serve`: sessions for clients that connect over a WebSocket, HTTP or a Unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.agent_files import config_with_agents
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.arg_types import add_cwd_flag, command_parser, whole
from engine.cli.flags.model_flags import ModelChoice, add_model_flags, model_choice
from engine.cli.flags.permission_flags import (
    PermissionChoice,
    add_permission_flags,
    add_sandbox_flags,
    permission_choice,
)
from engine.cli.flags.store_flags import add_store_flag, open_store, resolve_store
from engine.cli.prompt_files import user_prompt_layers
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.cli.terminal.standard_streams import print_text
from engine.control.listen import ServedAt, ServeOptions, serve
from engine.control.service.server_discovery import server_folder
from engine.core.errors import ConfigError
from engine.core.settings import Settings
from engine.process.own_environment import hide_own_secrets
from engine.process.subreaper import become_subreaper
from engine.prompt.layers import PromptLayers
from engine.session.engine import Engine, engine_runtime, open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions
from engine.session.validation import secrets_of
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.tools.shell_environment import marker
from engine.tools.tool import Tool

_MOST_PORT: Final = 65_535


@attrs.frozen(kw_only=True)
class ServeCommand:
    """The parsed command line.

    Attributes:
        place: the store's location.
    """

    model: ModelChoice
    cwd: Path
    permissions: PermissionChoice
    layers: PromptLayers
    place: str
    serving: ServeOptions


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        command = _parse(arguments)
        config = command.model.config
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        hide_own_secrets(secrets_of(config))
        become_subreaper()
        tools = default_tools(config.sandbox, knowledge_for(config), command.layers, command.cwd, config.all_agents)
        return trio.run(_serve, command, tools)

    return run_command("serve", run)


def _parse(arguments: list[str]) -> ServeCommand:
    """Parse *arguments*. It blocks. Raises `SystemExit`, `ConfigError`, `StoreError`."""
    parser = command_parser(
        "serve",
        "Serve sessions to clients on this machine: over a WebSocket and HTTP, with a token, and over a Unix socket, "
        "which needs none. Ctrl-C ends the server; turns that run are stopped and saved.",
        epilog="Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "--port", type=whole(0, _MOST_PORT), default=0, metavar="N", help="the port; default: a free one"
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen at; default: 127.0.0.1, which only this machine can reach",
    )
    parser.add_argument(
        "--insecure-plain",
        action="store_true",
        help="listen at an address of the network without encryption: anybody who sees the traffic can use the token",
    )
    parser.add_argument("--public-url", metavar="URL", help="the address at which a proxy passes requests on")
    add_cwd_flag(parser)
    add_store_flag(parser.add_argument_group("sessions"))
    add_permission_flags(parser)
    add_sandbox_flags(parser)
    add_model_flags(parser)
    args = parser.parse_args(arguments)
    permissions = permission_choice(args)
    configured = config_with_agents(args)
    config = attrs.evolve(configured, sandbox=permissions.box(configured))
    place = resolve_store(args)
    options = ServeOptions(
        host=args.listen,
        port=args.port,
        folder=server_folder(place),
        public_url=args.public_url,
        plain=args.insecure_plain,
    )
    options.check()
    return ServeCommand(
        model=model_choice(args, config),
        cwd=args.cwd,
        permissions=permissions,
        layers=user_prompt_layers(config, permissions),
        place=place,
        serving=options,
    )


async def _serve(command: ServeCommand, tools: Sequence[Tool]) -> int:
    """Serve until a signal comes. Always a checkpoint. Raises `ConfigError`, `StoreError`."""
    config = command.model.config
    with trio.open_signal_receiver(*termination_signals()) as signals:
        async with (
            open_store(command.place) as store,
            open_engine(
                model=command.model.models,
                config=config,
                tools=tools,
                settings=Settings(options=command.model.options, on_exhausted="ask"),
                permissions=PermissionOptions(approver=command.permissions.policy(config)),
                store=store,
                context=ContextOptions(prompt=command.layers),
                files=FileOptions(snapshots=ProjectSnapshots(left_out=(command.place,))),
            ) as eng,
        ):
            return await _until_signal(eng, command.serving, signals)


async def _until_signal(eng: Engine, options: ServeOptions, signals: AsyncIterator[int]) -> int:
    sessions = engine_runtime(eng).sessions.by_id
    refused: ConfigError | None = None

    def is_ours(mark: str) -> bool:
        return any(mark.startswith(marker(session)) for session in sessions)

    async with trio.open_nursery() as nursery:
        try:
            served = await nursery.start(serve, eng, options)
        except ConfigError as error:
            refused = error  # raised outside of the nursery, which would put it into a group
        else:
            print_text(_where(served, options))
            await watch_signals(
                signals, lambda _: nursery.cancel_scope.cancel(reason="a signal ends the server"), is_ours
            )
    if refused is not None:
        raise refused
    return DONE


def _where(served: ServedAt, options: ServeOptions) -> str:
    """Return how to connect, for a person."""
    assert options.folder is not None
    lines = [
        f"engine serves at {served.url} and at {served.socket}",
        f"The token is in {Path(options.folder) / 'token'}. Try it:",
        f'  curl -H "Authorization: Bearer $(cat {Path(options.folder) / "token"})" {served.url}/v1/sessions',
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines) + "\n"

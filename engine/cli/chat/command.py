"""`engine chat`: a conversation at the terminal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs
import trio

from engine.cli.chat.display.terminal_mode import RawTerminal
from engine.cli.chat.local_chats import ChatSetup, LocalChats
from engine.cli.chat.new_driver import is_accessible
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.default_tools import default_tools, edit_diagnostics, knowledge_for, tool_sources
from engine.cli.export_telemetry import command_telemetry
from engine.cli.flags.default_model import keyed_defaults
from engine.cli.flags.limit_flags import task_limits
from engine.cli.flags.model_flags import model_choice
from engine.cli.flags.permission_flags import PermissionChoice, permission_choice
from engine.cli.flags.store_flags import open_store, resolve_store
from engine.cli.folder_settings import FolderSettings
from engine.cli.open_session import SessionChoice, open_session, session_models, stored_session
from engine.cli.plugin_code import package_hooks
from engine.cli.problems.raised import lines_of_error
from engine.cli.problems.surroundings import Surroundings
from engine.cli.prompt_files import custom_commands
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.exit_codes import check_output, run_command
from engine.cli.terminal.signals import termination_signals
from engine.cli.terminal.standard_streams import standard_output
from engine.core.errors import ConfigError, EngineError, StoreError
from engine.core.settings import Limits, Settings
from engine.process.allocator import map_large_blocks
from engine.process.own_environment import hide_own_secrets
from engine.process.subreaper import become_subreaper, end_adopted, is_subreaper
from engine.prompt.layers import PromptLayers
from engine.session.engine import open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.validation import secrets_of
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.memory import MEMORY
from engine.tools.call_values import GRACE
from engine.tools.tool import Tool

_HINTS: Final[Mapping[type[EngineError], str]] = {StoreError: "Next: engine chat --ephemeral"}


@attrs.frozen(kw_only=True)
class ChatOptions:
    """The parsed command line.

    Attributes:
        choice: the session and its models.
        place: the store's location.
        is_accessible: in lines, and nothing is redrawn.
        other_keys: where there are keys of further providers, if nothing names a model.
    """

    choice: SessionChoice
    permissions: PermissionChoice
    folders: FolderSettings
    layers: PromptLayers
    limits: Limits
    place: str
    has_snapshots: bool
    colour: ColourChoice
    is_accessible: bool
    other_keys: tuple[str, ...]


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    around = Surroundings(env=os.environ, command="chat")

    def run() -> int:
        nonlocal around
        options = parse(arguments)
        around = attrs.evolve(around, config=options.choice.model.config, place=options.place)
        _check_terminal(options)
        hide_own_secrets(secrets_of(options.choice.model.config))
        become_subreaper()
        map_large_blocks()
        return trio.run(_run, options, _tools(options))

    def explain(error: EngineError) -> Sequence[str]:
        return lines_of_error(error, around)

    return run_command("chat", run, hints=_HINTS, explain=explain)


def parse(arguments: list[str]) -> ChatOptions:
    """Parse *arguments*. It blocks. Raises `SystemExit`, `ConfigError`, `StoreError`."""
    args = parse_arguments("chat", arguments)
    if args.fork and args.resume is None:
        raise ConfigError("--fork needs --continue or --resume\nNext: engine chat --continue --fork")
    if args.store == MEMORY and args.resume is not None:
        raise ConfigError("a session that is not saved can't be continued\nNext: leave out --ephemeral")
    permissions = permission_choice(args)
    folders = FolderSettings(args, permissions)
    config = folders.config(args.cwd)
    model = model_choice(args, config)
    return ChatOptions(
        choice=SessionChoice(
            resume=args.resume,
            forks=args.fork,
            cwd=args.cwd,
            model=model,
            profile=permissions.profile,
        ),
        permissions=permissions,
        folders=folders,
        layers=folders.layers(config),
        limits=task_limits(args, config),
        place=resolve_store(args),
        has_snapshots=not args.no_snapshots,
        colour=cast("ColourChoice", args.color),
        is_accessible=args.accessible
        or is_accessible(config.chat.accessible)
        or os.environ.get("TERM", "dumb") == "dumb",
        other_keys=() if model.found is None else tuple(one.found for one in keyed_defaults(os.environ, config))[1:],
    )


def _check_terminal(options: ChatOptions) -> None:
    """Raise `ConfigError` without a terminal to talk in, `OutputClosed` without any output."""
    check_output()
    if not options.is_accessible and not all(
        stream is not None and stream.isatty() for stream in (sys.stdin, standard_output())
    ):
        raise ConfigError("there is no terminal to chat in\nNext: engine chat --accessible")


def _found_model(options: ChatOptions, model: str) -> Sequence[str]:
    """Return what the user reads about the model of a new session, if nothing names one: how to choose another one."""
    found = options.choice.model.found
    if found is None or model != found.name:
        return ()
    others = (
        [f"Other keys: {', '.join(options.other_keys)}. /model chooses another model."] if options.other_keys else []
    )
    return (found.line, *others, found.advice)


def _setup(options: ChatOptions, models: tuple[str, ...]) -> ChatSetup:
    config = options.choice.model.config
    return ChatSetup(
        config=config,
        models=models,
        cwd=options.choice.cwd,
        profile=options.permissions.profile or config.profile or "ask",
        colour=options.colour,
        is_saved=options.place != MEMORY,
        place=options.place,
        effort=options.choice.model.options.effort or "",
        cost_limit=options.limits.cost,
        policy=options.folders.policy,
        own_commands=lambda config, cwd: custom_commands(cwd, options.folders.layers(config))[0],
    )


def _settings(options: ChatOptions) -> Settings:
    return Settings(limits=options.limits, headless="wait", on_exhausted="ask", options=options.choice.model.options)


def _tools(options: ChatOptions) -> tuple[Tool, ...]:
    config = options.choice.model.config
    return default_tools(config.sandbox, knowledge_for(config), options.layers, options.choice.cwd, config.all_agents)


async def _run(options: ChatOptions, tools: Sequence[Tool]) -> int:
    """Open the session, and chat. Always a checkpoint. Raises `EngineError`."""
    terminal = None if options.is_accessible else RawTerminal.open()
    if terminal is None and not options.is_accessible:
        raise ConfigError("there is no controlling terminal\nNext: engine chat --accessible")
    choice = options.choice
    try:
        numbers = (*termination_signals(), signal.SIGWINCH, signal.SIGCONT)
        with trio.open_signal_receiver(*numbers) as signals:
            config = choice.model.config
            async with open_store(options.place, config=config.store) as store, command_telemetry(config) as telemetry:
                row = await stored_session(store, choice.resume, choice.cwd)
                models = session_models(choice.model, row)
                async with open_engine(
                    model=models,
                    config=config,
                    tools=tools,
                    settings=_settings(options),
                    permissions=PermissionOptions(approver=options.folders.policy),
                    store=store,
                    context=ContextOptions(prompt=options.layers),
                    ports=Ports(
                        sources=tool_sources(choice.model.config, trusts=options.permissions.trusts),
                        configure=options.folders.setup,
                        telemetry=telemetry,
                    ),
                    hooks=package_hooks(choice.model.config),
                    files=FileOptions(
                        snapshots=ProjectSnapshots(left_out=(options.place,)) if options.has_snapshots else None,
                        diagnostics=edit_diagnostics(choice.model.config),
                    ),
                ) as eng:
                    session = await open_session(eng, row, choice, models)
                    chats = LocalChats(eng, store, terminal, _setup(options, models))
                    notes = () if row is not None else _found_model(options, models[0])
                    code = await chats.run(session, signals, is_new=row is None, notes=notes)
        if is_subreaper():
            await end_adopted(GRACE)
        return code
    finally:
        if terminal is not None:
            terminal.close()

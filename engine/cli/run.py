"""`engine run`: one task, watched from the terminal."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs
import trio

from engine.cli.agent_files import config_with_agents
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.model_flags import ModelChoice, model_choice
from engine.cli.flags.permission_flags import (
    PermissionChoice,
    permission_choice,
)
from engine.cli.flags.store_flags import open_store, resolve_store
from engine.cli.open_session import SessionChoice, open_session, session_models, stored_session
from engine.cli.prompt_files import TaskFlags, expand_task, user_prompt_layers
from engine.cli.task.standard_input import StandardInput, read_stdin
from engine.cli.task.task_input import TaskInput, build_input
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.exit_codes import run_command
from engine.cli.terminal.keyboard import Keyboard, has_terminal
from engine.cli.terminal.signals import termination_signals
from engine.cli.terminal.standard_streams import print_text
from engine.cli.turn.run_output import RunOutput
from engine.cli.turn.run_record import OutputMode, failure_record
from engine.cli.turn.turn_view import TurnView
from engine.core.errors import ConfigError, EngineError, JournalCorrupt, MissingKey, SessionElsewhere, StoreError
from engine.core.settings import Limits, Settings
from engine.process.own_environment import hide_own_secrets
from engine.process.subreaper import become_subreaper
from engine.prompt.layers import PromptLayers
from engine.session.engine import Engine, open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions
from engine.session.session import Session
from engine.session.turn import Turn
from engine.session.validation import secrets_of
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.memory import MEMORY
from engine.store.store_protocols import SessionRow
from engine.tools.tool import Tool

_WITHOUT_STORE: Final = "(`--ephemeral` runs without saving the session)"
_HINTS: Final[Mapping[type[EngineError], str]] = {
    MissingKey: "Next: `engine models` shows which models work here, and what the others need\n"
    "Or a local model, without a key: engine run --model local:FILE.gguf TASK",
    SessionElsewhere: "(--fork continues in a copy of the session)",
    StoreError: _WITHOUT_STORE,
    JournalCorrupt: _WITHOUT_STORE,
}


@attrs.frozen(kw_only=True)
class OutputOptions:
    """What is printed, and whether a user is asked.

    Attributes:
        mode: what standard output carries.
        stream: write the answer as it comes, also into a pipe.
        file: gets the answer, or the record, as well.
        asks: a user at the terminal may be asked.
        deny_ok: calls that were denied for lack of a user to ask are no failure.
        is_quiet: print nothing but the answer and errors.
        colour: whether there are colours.
    """

    mode: OutputMode = "text"
    stream: bool = False
    file: Path | None = None
    asks: bool = True
    deny_ok: bool = False
    is_quiet: bool = False
    colour: ColourChoice = "auto"


@attrs.frozen(kw_only=True)
class Options:
    """The parsed command line.

    Attributes:
        input: what to do; None: resume the turn that waits for an answer.
        place: the store's location.
        resume: the session to continue; None: a new one.
    """

    input: TaskInput | None
    model: ModelChoice
    cwd: Path
    permissions: PermissionChoice
    layers: PromptLayers
    limits: Limits
    output: OutputOptions
    place: str
    resume: str | None
    forks: bool
    has_snapshots: bool


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        options = parse(arguments)
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        hide_own_secrets(secrets_of(options.model.config))
        become_subreaper()
        return trio.run(_run, options, _tools(options))

    def print_record(message: str, code: int) -> None:
        print_text(f"{json.dumps(failure_record(message, code))}\n")

    if _wants_json(arguments):
        return run_command("run", run, hints=_HINTS, on_error=print_record)
    return run_command("run", run, hints=_HINTS)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the output is JSON, also if other arguments are wrong."""
    pairs = itertools.pairwise((*arguments, ""))
    return any(
        flag == "--json" or f"{flag}={value}".startswith(("--output=json", "--output=stream-json"))
        for flag, value in pairs
    )


def _tools(options: Options) -> tuple[Tool, ...]:
    # Outside of trio: reading skills and agents blocks, and no turn runs yet.
    config = options.model.config
    return default_tools(config.sandbox, knowledge_for(config), options.layers, options.cwd, config.all_agents)


def parse(arguments: list[str]) -> Options:
    """Parse *arguments*. It blocks.

    Raises `SystemExit` after it has printed what is wrong with them, `ConfigError`, `StoreError`.
    """
    args = parse_arguments("run", arguments)
    words, stdin = _words(args)
    permissions = permission_choice(args)
    configured = config_with_agents(args)
    config = attrs.evolve(configured, sandbox=permissions.box(configured))
    layers = user_prompt_layers(config, permissions)
    task = expand_task(
        words, args.words, args.cwd, layers, TaskFlags(config=config, agent=args.agent, model=args.model)
    )
    task_input = None
    if words or stdin.data or args.attach:
        asks = _output_options(args).asks and has_terminal()
        task_input = build_input(task.text, args.attach, args.cwd, stdin, asks=asks)
    # A custom command may name an agent and a model; a flag overrides it.
    args.agent, args.model = task.agent or None, task.model or None
    return Options(
        model=model_choice(args, config),
        layers=layers,
        input=task_input,
        cwd=args.cwd,
        permissions=permissions,
        limits=Limits(steps=args.max_steps, seconds=args.max_seconds, tokens=args.max_tokens, cost=args.max_cost),
        output=_output_options(args),
        place=resolve_store(args),
        resume=args.resume,
        forks=args.fork,
        has_snapshots=not args.no_snapshots,
    )


def _check_combinations(args: argparse.Namespace) -> None:
    """Refuse combinations of flags that argparse can't express. Raises `ConfigError`."""
    if args.fork and args.resume is None:
        raise ConfigError('--fork needs --continue or --resume\nNext: engine run --continue --fork "TASK"')
    if args.store == MEMORY and args.resume is not None:
        raise ConfigError("a session that is not saved can't be continued\nNext: leave out --ephemeral")


def _words(args: argparse.Namespace) -> tuple[str, StandardInput]:
    """Return the task's words, and what standard input adds. Raises `ConfigError` if there is no task."""
    _check_combinations(args)
    is_from_stdin = args.task == "-"
    stdin = read_stdin("wait" if is_from_stdin else args.stdin, limit=args.stdin_max)
    words = "" if is_from_stdin else args.task or ""
    if not (words.strip() or stdin.data.strip() or args.attach) and (args.resume is None or args.fork or words):
        raise ConfigError('the task is missing\nNext: engine run "TASK", or pipe it in')
    return words, stdin


def _output_options(args: argparse.Namespace) -> OutputOptions:
    mode = cast("OutputMode", args.output)
    return OutputOptions(
        mode=mode,
        stream=args.stream,
        file=args.output_file,
        # A program that reads events answers through the control endpoint, not here.
        asks=not args.no_input and mode != "stream-json",
        deny_ok=args.deny_ok,
        is_quiet=args.quiet,
        colour=cast("ColourChoice", args.color),
    )


async def _run(options: Options, tools: Sequence[Tool]) -> int:
    """Run the task to its end. Always a checkpoint. Raises `ConfigError`."""
    keyboard = Keyboard.open() if options.output.asks else None
    try:
        # Signals are caught from here on, and handled as soon as there is a turn to cancel.
        with trio.open_signal_receiver(*termination_signals()) as signals:
            async with open_store(options.place) as store:
                row = await stored_session(store, options.resume, options.cwd)
                models = session_models(options.model, row)
                async with open_engine(
                    model=models,
                    config=options.model.config,
                    tools=tools,
                    settings=_settings(options, is_watched=keyboard is not None),
                    permissions=PermissionOptions(approver=options.permissions.policy(options.model.config)),
                    store=store,
                    context=ContextOptions(prompt=options.layers),
                    files=FileOptions(
                        snapshots=ProjectSnapshots(left_out=(options.place,)) if options.has_snapshots else None
                    ),
                ) as eng:
                    session = await _session(eng, options, row, models)
                    view = TurnView(
                        session,
                        RunOutput.open(options.output.mode, stream=options.output.stream, colour=options.output.colour),
                        keyboard,
                        is_saved=options.place != MEMORY,
                        deny_ok=options.output.deny_ok,
                        is_quiet=options.output.is_quiet,
                        answer_file=options.output.file,
                        task_input=options.input or TaskInput(text=""),
                    )
                    return await view.run(_turn(session, options), signals)
    finally:
        if keyboard is not None:
            keyboard.close()


def _settings(options: Options, *, is_watched: bool) -> Settings:
    return Settings(
        limits=options.limits,
        headless="wait" if is_watched else options.permissions.unattended,
        on_exhausted="ask" if is_watched else "stop",
        options=options.model.options,
    )


async def _session(eng: Engine, options: Options, row: SessionRow | None, models: tuple[str, ...]) -> Session:
    """Return the session to use: a new one, a stored one, or a fork of a stored one. A checkpoint."""
    session = await open_session(eng, row, _choice(options), models)
    # Only the opened session knows whether a turn waits for an answer.
    if options.input is None and session.state.turn is None:
        raise ConfigError(f"nothing to resume in session {session.id}: add a task")
    return session


def _choice(options: Options) -> SessionChoice:
    return SessionChoice(
        resume=options.resume,
        forks=options.forks,
        cwd=options.cwd,
        model=options.model,
        profile=options.permissions.profile,
    )


def _turn(session: Session, options: Options) -> Turn:
    if options.input is None:
        return session.resume()
    return session.prompt(options.input.text, attachments=options.input.media)

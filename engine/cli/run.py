"""`engine run`: one task, watched from the terminal."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs
import trio

from engine.cli.agent_files import config_with_agents
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.config_flags import split_continue
from engine.cli.flags.limit_flags import task_limits
from engine.cli.flags.model_flags import model_choice
from engine.cli.flags.permission_flags import permission_choice
from engine.cli.flags.store_flags import resolve_store
from engine.cli.problems.surroundings import Surroundings
from engine.cli.prompt_files import TaskFlags, expand_task, user_prompt_layers
from engine.cli.run_options import Options, OutputOptions
from engine.cli.run_session import run_task
from engine.cli.task.schema_flag import FROM_STDIN, load_schema
from engine.cli.task.standard_input import StandardInput, StdinPolicy, read_stdin
from engine.cli.task.task_input import build_input
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.debug_log import debug_log
from engine.cli.terminal.exit_codes import INTERNAL, OutputClosed, check_output, crash_lines, run_command
from engine.cli.terminal.keyboard import has_terminal
from engine.cli.terminal.standard_streams import hide_notes, print_text
from engine.cli.turn.record_types import OutputMode
from engine.core.errors import ConfigError, EngineError, JournalCorrupt, StoreError
from engine.process.own_environment import hide_own_secrets
from engine.process.redact import secrets_in
from engine.process.subreaper import become_subreaper
from engine.session.validation import secrets_of
from engine.store.memory import MEMORY
from engine.tools.tool import Tool

_WITHOUT_STORE: Final = 'Next: engine run --ephemeral "TASK"'
_HINTS: Final[Mapping[type[EngineError], str]] = {StoreError: _WITHOUT_STORE, JournalCorrupt: _WITHOUT_STORE}


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    around, is_json = Surroundings(env=os.environ), _wants_json(arguments)

    def run() -> int:
        nonlocal around
        options = parse(arguments)
        around = options.surroundings
        if options.output.file is None:  # before anything is spent on an answer that nothing can receive
            check_output()
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        secrets = secrets_of(options.model.config)
        hide_own_secrets(secrets)
        become_subreaper()
        output = options.output
        with debug_log(output.debug_log, secrets_in(os.environ, secrets), to_stderr=output.verbosity > 1):
            return trio.run(run_task, options, _tools(options))

    def explain(error: EngineError) -> Sequence[str]:
        from engine.cli.problems.raised import lines_of_error

        return lines_of_error(error, around)

    def print_record(error: Exception, code: int, lines: Sequence[str]) -> None:
        if is_json and not isinstance(error, OutputClosed):
            from engine.cli.problems.raised import problem_of_error
            from engine.cli.turn.run_record import failure_record, record_text

            known = problem_of_error(error, around) if isinstance(error, EngineError) else None
            print_text(record_text(failure_record(lines, code, known)))

    try:
        return run_command("run", run, hints=_HINTS, explain=explain, on_error=print_record)
    except Exception as error:  # a fault of the engine, which `engine.cli.main` reports
        print_record(error, INTERNAL, crash_lines(error))
        raise
    finally:
        hide_notes(is_hidden=False)


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
    args = parse_arguments("run", split_continue(arguments))
    hide_notes(is_hidden=args.quiet)
    args.has_dash, args.task, args.words = _without_dash(args.task, args.words)
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
        limits=task_limits(args, config),
        output=_output_options(args),
        place=resolve_store(args),
        resume=args.resume,
        forks=args.fork,
        has_snapshots=not args.no_snapshots,
        max_wait=args.max_wait,
        schema=None if args.schema is None else load_schema(args.schema),
    )


def _check_combinations(args: argparse.Namespace) -> None:
    """Refuse combinations of flags that argparse can't express. Raises `ConfigError`."""
    if args.fork and args.resume is None:
        raise ConfigError('--fork needs --continue or --resume\nNext: engine run --continue --fork "TASK"')
    if args.store == MEMORY and args.resume is not None:
        raise ConfigError("a session that is not saved can't be continued\nNext: leave out --ephemeral")
    if args.quiet and args.verbose:
        raise ConfigError("--quiet and --verbose exclude each other\nNext: leave one of them out")
    if args.schema == FROM_STDIN and args.has_dash:
        raise ConfigError("standard input can't be both the task and the schema\nNext: use --schema FILE")
    if args.schema is not None and args.task is None:
        raise ConfigError("--schema needs a task: a turn that is resumed keeps its own\nNext: leave out --schema")


def _without_dash(task: str | None, words: Sequence[str]) -> tuple[bool, str | None, list[str]]:
    """Return whether `-` is among the words, which says to wait for standard input, and the task and words without it."""
    every = [] if task is None else [task, *words]
    rest = [word for word in every if word != "-"]
    has_dash = len(rest) < len(every)
    return has_dash, rest[0] if rest else "" if has_dash else None, rest[1:]


def _words(args: argparse.Namespace) -> tuple[str, StandardInput]:
    """Return the task's words, and what standard input adds. Raises `ConfigError` if there is no task."""
    _check_combinations(args)
    policy: StdinPolicy = "skip" if args.schema == FROM_STDIN else "wait" if args.has_dash else args.stdin
    stdin = read_stdin(policy, limit=args.stdin_max)
    words = args.task or ""
    if not (words.strip() or stdin.data.strip() or args.attach) and (args.resume is None or args.fork or words):
        raise ConfigError('the task is missing\nNext: engine run "TASK"')
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
        verbosity=args.verbose,
        debug_log=args.debug_log,
    )

"""What `engine run` does once its command line is parsed: open a session, and run one turn of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from engine.cli.default_tools import edit_diagnostics, tool_sources
from engine.cli.export_telemetry import command_telemetry
from engine.cli.flags.limit_flags import check_prices, headless_limits
from engine.cli.flags.store_flags import is_usual_place, open_store
from engine.cli.open_session import SessionChoice, open_session, session_models, stored_session
from engine.cli.plugin_code import package_hooks
from engine.cli.run_options import Options
from engine.cli.task.media_check import check_media
from engine.cli.task.task_input import TaskInput
from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.signals import continue_noted, termination_signals
from engine.cli.terminal.standard_streams import print_note
from engine.cli.turn.run_output import RunOutput
from engine.cli.turn.seen_notices import SeenNotices
from engine.cli.turn.turn_view import TurnView, is_here
from engine.core.errors import ConfigError, StoreError
from engine.core.settings import RetryPolicy, Settings, Timeouts
from engine.journal.state import SessionState
from engine.providers.models.catalog import info_of
from engine.session.engine import Engine, open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.session import Session
from engine.session.turn import Turn
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.memory import MEMORY
from engine.store.store_protocols import SessionRow
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.cli.turn.request_notes import RequestNotes

# Seconds. Without a user, a run must end even if its provider never answers.
MAX_WAIT: Final = 300.0
# What `engine run --continue` says to the model without a task, once a turn has ended before its task was done.
_CONTINUE: Final = "Continue the task where it stopped."


async def run_task(options: Options, tools: Sequence[Tool]) -> int:
    """Run the task to its end. Always a checkpoint. Raises `ConfigError`."""
    keyboard = Keyboard.open() if options.output.asks else None
    code: int | None = None
    try:
        # Signals are caught from here on, and handled as soon as there is a turn to cancel.
        with continue_noted(), trio.open_signal_receiver(*termination_signals()) as signals:
            config = options.model.config
            async with (
                open_store(options.place, config=config.store) as store,
                command_telemetry(config, joins=True) as telemetry,
            ):
                row = await stored_session(store, options.resume, options.cwd)
                models = session_models(options.model, row)
                if options.limits.cost is not None:
                    check_prices(models, config)
                settings = _settings(options, is_watched=keyboard is not None)
                if options.input is not None:
                    check_media(options.input.parts, models[0], config)
                _report_found_model(options, models[0])
                async with open_engine(
                    model=models,
                    config=config,
                    tools=tools,
                    settings=settings,
                    permissions=PermissionOptions(approver=options.permissions.policy(config)),
                    store=store,
                    context=ContextOptions(prompt=options.layers),
                    ports=Ports(sources=tool_sources(config, trusts=options.permissions.trusts), telemetry=telemetry),
                    hooks=package_hooks(config),
                    files=FileOptions(
                        snapshots=ProjectSnapshots(left_out=(options.place,)) if options.has_snapshots else None,
                        diagnostics=edit_diagnostics(config),
                    ),
                ) as eng:
                    session = await _session(eng, options, row, models)
                    view = TurnView(
                        session,
                        RunOutput.open(
                            options.output.mode,
                            stream=options.output.stream,
                            colour=options.output.colour,
                            is_value=options.schema is not None,
                        ),
                        keyboard,
                        is_saved=options.place != MEMORY,
                        deny_ok=options.output.deny_ok,
                        is_quiet=options.output.is_quiet,
                        request_notes=_request_notes() if options.output.verbosity else None,
                        answer_file=options.output.file,
                        max_cost=settings.limits.cost,
                        task_input=options.input or TaskInput(text=""),
                        surroundings=attrs.evolve(options.surroundings, again=_continue_command(session, options)),
                        seen_notices=SeenNotices.of_user(),
                        silence_limit=_silence_limit(options, models[0]),
                    )
                    code = await view.run(_turn(session, options), signals)
    except StoreError:
        # The store failed while it was closed: the view has said so, and has written the record.
        if code is None:
            raise
    finally:
        if keyboard is not None:
            keyboard.close()
    assert code is not None
    return code


def _report_found_model(options: Options, model: str) -> None:
    """Say which model is used, if nothing names one."""
    found = options.model.found
    if found is not None and model == found.name:
        # Two lines: a long name is in both.
        print_note(found.line)
        print_note(found.advice)


def _request_notes() -> RequestNotes:
    from engine.cli.turn.request_notes import RequestNotes

    return RequestNotes()


def _silence_limit(options: Options, model: str) -> float:
    """Return for how many seconds *model* may send nothing."""
    config = options.model.config
    limit = info_of(model, config=config).silence or Timeouts().idle
    return min(limit, options.max_wait or limit)


def _settings(options: Options, *, is_watched: bool) -> Settings:
    # With a user at the terminal, a wait may take as long as they like.
    max_wait = options.max_wait or (None if is_watched else MAX_WAIT)
    retry = RetryPolicy() if max_wait is None else RetryPolicy(longest=max_wait, total=max_wait, silence=max_wait)
    limits = options.limits if is_watched else headless_limits(options.limits, options.model.config)
    return Settings(
        limits=limits,
        retry=retry,
        headless="wait" if is_watched else options.permissions.unattended,
        on_exhausted="ask" if is_watched else "stop",
        options=options.model.options,
    )


async def _session(eng: Engine, options: Options, row: SessionRow | None, models: tuple[str, ...]) -> Session:
    """Return the session to use: a new one, a stored one, or a fork of a stored one. A checkpoint."""
    session = await open_session(eng, row, _choice(options), models)
    # Only the opened session knows whether a turn waits for an answer.
    if options.input is None and session.state.turn is None and not _is_unfinished(session.state):
        raise ConfigError(f'nothing to resume in session {session.id}\nNext: engine run --resume {session.id} "TASK"')
    return session


def _is_unfinished(state: SessionState) -> bool:
    """Tell whether the last turn ended before its task was done: at a limit, by an error or by a cancel."""
    return state.last_result is not None and state.last_result.stop_reason != "completed" and not state.undone


def _continue_command(session: Session, options: Options) -> str:
    """Return the command that continues this session from the current directory."""
    if options.place == MEMORY:
        return 'engine run --ephemeral "TASK"'
    which = "--continue" if is_here(session.state.context.cwd) else f"--resume {session.id}"
    store = "" if is_usual_place(options.place) else f" --store {shlex.quote(options.place)}"
    return f"engine run {which}{store}"


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
        return session.resume() if session.state.turn is not None else session.prompt(_CONTINUE)
    return session.prompt(options.input.text, attachments=options.input.media, output=options.schema)

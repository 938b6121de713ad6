"""`engine run`: one task, watched from the terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.agent_files import find_user_agents
from engine.cli.arg_types import seconds, whole
from engine.cli.default_tools import knowledge_for, offered_tools
from engine.cli.exit_status import BROKEN_PIPE, STOPPED, Tally, closing, exit_code
from engine.cli.interactive import Dialogue, detail_of
from engine.cli.keyboard import Keyboard
from engine.cli.model_flags import ModelChoice, add_model_flags, model_choice
from engine.cli.output import Output, complain
from engine.cli.permission_flags import PermissionChoice, add_permission_flags, add_sandbox_flags, permission_choice
from engine.cli.prompt_files import Flags, task_of, usual_layers
from engine.cli.signals import heeded_signals, watch_signals
from engine.cli.store_flags import LAST, add_store_flag, find_session, open_place, place_of
from engine.cli.terminal import Screen
from engine.cli.terminal_text import visible
from engine.config.config import Config
from engine.core.errors import ConfigError, JournalCorrupt, SessionElsewhere, SessionNotFound, StoreError
from engine.core.events import (
    CallQueued,
    Durable,
    Live,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryAnswered,
    RecoveryAsked,
    RetryScheduled,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, SessionId
from engine.core.messages import MediaPart
from engine.core.settings import Limits, Settings
from engine.core.state import Resync
from engine.process.orphans import find_marked
from engine.prompt.layers import PromptLayers
from engine.session.attachments import attach
from engine.session.engine import Engine, open_engine
from engine.session.session import Session
from engine.session.turn import Turn
from engine.settings_file.config_file import load_config
from engine.snapshots.project import ProjectSnapshots
from engine.store.protocols import SessionRow
from engine.store.sqlite.location import MEMORY
from engine.tools.tool import Tool

USAGE_ERROR: Final = 2
# How long a reader who doesn't read may keep us after somebody cancelled.
_PATIENCE: Final = 1.0
# All is said by then; a model that gives the session a title may have just been asked.
_FOR_A_TITLE: Final = 5.0


@attrs.frozen(kw_only=True)
class Options:
    """What the command line asks for; without a task, to go on with a turn that waits."""

    task: str | None
    model: ModelChoice
    attachments: tuple[str, ...]
    cwd: Path
    permissions: PermissionChoice
    layers: PromptLayers
    limits: Limits
    as_json: bool
    place: str
    resume: str | None
    forks: bool
    has_snapshots: bool


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    try:
        options = parse(arguments)
        return trio.run(_run, options, _tools(options))
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except (ConfigError, SessionNotFound) as error:
        complain(f"engine run: {error}")
        return USAGE_ERROR
    except SessionElsewhere as error:
        complain(f"engine run: {error}\n(--fork goes on in a new session that begins as that one stands)")
        return USAGE_ERROR
    except (StoreError, JournalCorrupt) as error:
        complain(f"engine run: {error}\n(`--store :memory:` works without keeping anything)")
        return STOPPED


def _tools(options: Options) -> tuple[Tool, ...]:
    config = options.model.config
    box = options.permissions.box(config)
    return offered_tools(box, knowledge_for(config), options.layers, options.cwd, config.all_agents)


def parse(arguments: list[str]) -> Options:
    """Return what *arguments* say. Raises `SystemExit` after having told what is wrong with them."""
    parser = argparse.ArgumentParser(
        prog="engine run",
        allow_abbrev=False,
        description="Give the agent a task and watch it work. Ctrl-C cancels it; nothing is left running. "
        "What was said is kept: --continue goes on with it.",
        epilog="While it works, a typed line is given to the model. Exit codes: 0 completed, 1 stopped early, "
        "2 wrong usage, 128 and its number after a signal.",
    )
    parser.add_argument(
        "task",
        nargs="?",
        help="what to do; - reads it from standard input; /NAME is a command of yours. Without one, --continue and "
        "--resume go on with a turn that waited for an answer when its engine ended",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="what the command is given")
    parser.add_argument(
        "--attach", action="append", default=[], metavar="FILE", help="an image, a PDF or a recording; again for more"
    )
    parser.add_argument("--cwd", default=".", help="the folder to work in; default: this one")
    parser.add_argument("--max-steps", type=whole(1), metavar="N", help="requests to the model, at most")
    parser.add_argument("--max-seconds", type=seconds, metavar="S", help="time for the whole task")
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON; asks nobody")
    _add_session_flags(parser)
    add_permission_flags(parser)
    add_sandbox_flags(parser)
    add_model_flags(parser)
    given = parser.parse_args(arguments)
    if given.fork and given.resume is None:
        parser.error("--fork goes with --continue or --resume")
    goes_on = given.task is None
    if goes_on and (given.resume is None or given.fork or given.attach):
        parser.error("the task is missing")
    cwd = Path(given.cwd)
    with suppress(RuntimeError):  # `~somebody`, who has no home here
        cwd = cwd.expanduser()
    if not cwd.is_dir():
        parser.error(f"--cwd: {given.cwd} is no folder")
    permissions = permission_choice(given)
    config = _config(given, cwd.resolve())
    layers = usual_layers(config, permissions)
    words = _read_task() if given.task == "-" else given.task or ""
    flags = Flags(config=config, agent=given.agent, model=given.model)
    task = task_of(words, given.words, cwd.resolve(), layers, flags)
    if not goes_on and not task.text.strip():
        parser.error("the task is empty")
    given.agent, given.model = task.agent or None, task.model or None
    return Options(
        task=None if goes_on else task.text,
        model=model_choice(given, config),
        layers=layers,
        attachments=tuple(given.attach),
        cwd=cwd.resolve(),
        permissions=permissions,
        limits=Limits(steps=given.max_steps, seconds=given.max_seconds),
        as_json=given.json,
        place=place_of(given),
        resume=given.resume,
        forks=given.fork,
        has_snapshots=not given.no_snapshots,
    )


def _config(given: argparse.Namespace, cwd: Path) -> Config:
    """Return the user's configuration, with the agents in files. Raises `ConfigError`."""
    config = load_config(given.config, os.environ)
    found = find_user_agents(config, cwd, trusts=given.trust)
    for path, why in found.problems:
        complain(f"the agent {visible(path)} can't be used: {visible(why)}")
    for folder in found.not_trusted:
        complain(f"{visible(folder)} was not read: the project is not trusted (`engine permissions trust`)")
    return found.merge_into(config)


def _add_session_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which session")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c",
        "--continue",
        dest="resume",
        action="store_const",
        const=LAST,
        help="go on with the newest session of this folder",
    )
    which.add_argument(
        "--resume", metavar="ID", help="go on with that session, in its folder; `engine sessions` lists them"
    )
    group.add_argument("--fork", action="store_true", help="go on in a new session that begins as that one stands")
    add_store_flag(group)
    group.add_argument(
        "--no-snapshots", action="store_true", help="don't note files: what is changed can't be undone then"
    )


def _read_task() -> str:
    return "" if sys.stdin is None else sys.stdin.read()  # None if closed


async def _run(options: Options, tools: Sequence[Tool]) -> int:
    """Run the task to its end. Always a checkpoint. Raises `ConfigError` for what can't work."""
    # Before signals are caught: a pipe that nobody writes to must not keep who presses Ctrl-C.
    attachments = [await attach(path) for path in options.attachments]
    keyboard = None if options.as_json else Keyboard.open()
    try:
        # Signals are caught from here on, and heeded as soon as there is a turn to cancel.
        with trio.open_signal_receiver(*heeded_signals()) as signals:
            async with open_place(options.place) as store:
                row = None if options.resume is None else await find_session(store, options.resume, str(options.cwd))
                if row is not None:
                    _check_folder(row)
                models = _models(options, row)
                async with open_engine(
                    model=models,
                    config=options.model.config,
                    tools=tools,
                    settings=_settings(options, is_watched=keyboard is not None),
                    approver=options.permissions.policy(options.model.config),
                    store=store,
                    prompt=options.layers,
                    snapshots=ProjectSnapshots(left_out=(options.place,)) if options.has_snapshots else None,
                ) as eng:
                    session = await _session(eng, options, row, models)
                    async with trio.open_nursery() as nursery:
                        watch = _Watch(options, session, keyboard, Output.to(sys.stdout))
                        nursery.start_soon(watch.output.run)
                        async with _turn(session, options, attachments) as turn:
                            watch.attach(turn)
                            nursery.start_soon(watch_signals, signals, watch.interrupt, watch.tally.is_ours)
                            await watch.follow(turn)
                        await session.jobs.aclose()
                        code = await watch.finish(turn.result)
                        nursery.cancel_scope.cancel(reason="the command is over")
        return code
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


def _models(options: Options, row: SessionRow | None) -> tuple[str, ...]:
    """Return the models to work with: those that were asked for, or else what the session had."""
    choice = options.model
    if row is None or choice.is_asked or not row.model:
        return choice.models
    # Imported here: a provider costs time, and a new session needs none of this.
    from engine.providers.registry import resolve

    try:
        resolve(row.model, os.environ, choice.config)
    except ConfigError as error:
        complain(f"the session's model can't be used here, {choice.models[0]} is: {error}")
        return choice.models
    return choice.config.chain(row.model, choice.agent)


def _check_folder(row: SessionRow) -> None:
    """Raise `ConfigError` if the session's folder is not here: every tool would fail in it."""
    if not (os.path.isabs(row.cwd) and os.path.isdir(row.cwd)):  # noqa: PTH112, PTH117 - whatever an import has brought
        raise ConfigError(
            f"the folder of session {row.id} is not here: {visible(row.cwd) or 'it has none'}\n"
            f"(`engine sessions export {row.id} -o FILE` and `engine sessions import FILE --cwd FOLDER` let it go on in "
            "another)"
        )


async def _session(eng: Engine, options: Options, row: SessionRow | None, models: tuple[str, ...]) -> Session:
    """Return the session to work in: a new one, one that is stored, or a fork of that. A checkpoint."""
    agent = options.model.agent
    if row is None:
        return await eng.create_session(cwd=options.cwd, model=models, agent=agent)
    if options.forks:
        return await eng.fork_session(row.id, model=models, agent=agent)
    session = await eng.open_session(row.id, model=models, agent=agent)
    if options.task is None and session.state.turn is None:
        raise ConfigError(f"nothing waits in session {session.id}: say what to do")
    return session


def _turn(session: Session, options: Options, attachments: Sequence[MediaPart]) -> Turn:
    if options.task is None:
        return session.resume()
    return session.prompt(options.task, attachments=attachments)


@attrs.define(eq=False)
class _Watch:
    """What is shown of one turn, and what can be done to it from outside."""

    _options: Options
    _session: Session
    _keyboard: Keyboard | None
    output: Output
    _screen: Screen = attrs.field(init=False)
    tally: Tally = attrs.field(factory=Tally, init=False)
    _arguments: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    # Of sub-agents: the arguments of the calls that sent them.
    _errands: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)
    _interrupted_by: int | None = attrs.field(default=None, init=False)
    _cancel: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _started: float = attrs.field(factory=time.monotonic, init=False)
    # Around the last write: a reader who doesn't read must not keep us once somebody wants us to go.
    _last_words: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self._screen = Screen.on(self.output)

    def attach(self, turn: Turn) -> None:
        """From now on, *turn* is what an interruption cancels."""
        self._cancel = turn.cancel
        self.output.on_failure(turn.cancel)

    def interrupt(self, number: int) -> None:
        """A signal has come: cancel the turn. Not a checkpoint."""
        self._interrupted_by = number
        self.tally.mark_cancel()
        self._last_words.deadline = trio.current_time() + _PATIENCE
        self._cancel()

    async def follow(self, turn: Turn) -> None:
        """Show *turn* to its end, and let the person at the keyboard speak. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            dialogue: Dialogue | None = None
            if self._keyboard is not None:
                dialogue = Dialogue(turn=turn, keyboard=self._keyboard, screen=self._screen)
                nursery.start_soon(dialogue.run)
            async for event in turn:
                self.tally.feed(event)
                if self._options.as_json:
                    self.output.write(_json_of(event))
                    continue
                self._screen.show(event)
                if dialogue is not None:
                    self._converse(dialogue, event)
            nursery.cancel_scope.cancel(reason="the turn is over")

    def _converse(self, dialogue: Dialogue, event: Durable | Live | Resync) -> None:
        """Pass on what concerns questions."""
        match event:
            case CallQueued():
                self._arguments[event.call_id] = event.arguments
            case TurnStarted():
                self._errands[event.session_id] = (
                    "" if event.call_id is None else self._arguments.get(event.call_id, "")
                )
            case PermissionAsked():
                detail = detail_of(event, self._arguments.get(event.call_id, ""))
                dialogue.ask(event, detail, self._errands.get(event.session_id, ""))
            case RecoveryAsked() | QuestionAsked():
                dialogue.ask(event, errand=self._errands.get(event.session_id, ""))
            case PermissionAnswered() | RecoveryAnswered() | QuestionAnswered():
                dialogue.answered(event)
            case RetryScheduled():
                self._screen.say("  (Enter tries at once)\n")
            case _:
                pass

    async def finish(self, result: TurnResult) -> int:
        """Say how it went, and return the exit code. Always a checkpoint."""
        lines = "".join(f"{self._screen.symbols.note} {line}\n" for line in self._last_lines(result))
        if self._options.as_json:
            complain(lines.rstrip())
        else:
            self._screen.say(lines)
        with self._last_words:
            await self.output.drain()
            with trio.move_on_after(_FOR_A_TITLE):
                await self._session.titled()
        return self._exit_code(result)

    def _last_lines(self, result: TurnResult) -> Iterator[str]:
        left = find_marked(self.tally.is_of_call)
        pids = ", ".join(str(stray.pid) for stray in left)
        remains = f"still running: processes {pids}" if left else "nothing left running"
        if result.stop_reason == "aborted":
            yield f"cancelled: {self.tally.cancelled}, {remains}"
        else:
            yield closing(result, self.tally, time.monotonic() - self._started)
            if left:
                yield remains
        if self._keyboard is not None and self._options.place != MEMORY:
            flag = "--continue" if _is_here(self._session.state.context.cwd) else f"--resume {self._session.id}"
            yield f"session {self._session.id}: `engine run {flag}` goes on with it"
        was_denied = any(call.status == "denied" for call in self.tally.settled.values())
        if was_denied and self._keyboard is None and result.stop_reason != "aborted":
            yield "calls were denied because nobody is here to allow them: run it in a terminal, or with --yes"

    def _exit_code(self, result: TurnResult) -> int:
        if self.output.is_reader_gone:
            return exit_code(result, self._interrupted_by) if self._interrupted_by else BROKEN_PIPE
        if self.output.failure is not None:
            complain(f"engine run: can't write the output: {self.output.failure.strerror}")
            return STOPPED
        return exit_code(result, self._interrupted_by)


def _is_here(folder: str) -> bool:
    """Tell whether *folder* is where the user is, so that --continue finds what was done there."""
    try:
        return str(Path.cwd().resolve()) == folder
    except OSError:  # it was removed meanwhile
        return False


def _json_of(event: Durable | Live | Resync) -> str:
    # Imported here: cattrs is needed for JSON only.
    from engine.core.codec import encode_event, encode_resync

    return f"{encode_resync(event) if isinstance(event, Resync) else encode_event(event)}\n"

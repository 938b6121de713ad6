"""`engine attach`: a session of a server, watched and driven from the terminal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from engine.cli.chat.chat_drafts import ChatDrafts, default_folder
from engine.cli.chat.display.terminal_mode import RawTerminal
from engine.cli.chat.new_driver import ChatSource, is_accessible, new_driver
from engine.cli.chat.remote_client import RemoteClient
from engine.cli.chat.remote_commands import RemoteCommands
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.prompt_files import custom_commands
from engine.cli.terminal.exit_codes import DONE, FAILED, check_output, run_command
from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.output import Output
from engine.cli.terminal.signals import termination_signals
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.turn.remote_view import RemoteView
from engine.client.control_client import Client, connect_to
from engine.client.find_address import TOKEN_VARIABLE, URL_VARIABLE, find_address
from engine.client.remote_session import RemoteSession
from engine.config.config import Config
from engine.control.protocol.error_kinds import Refusal
from engine.core.errors import (
    ConfigError,
    Draining,
    EngineError,
    NothingParked,
    ServerOffline,
    SessionBusy,
    SessionNotFound,
    TurnParked,
    Unauthorized,
)
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.permission.user_policy import UserFiles
from engine.prompt.commands import Commands
from engine.prompt.layers import PromptLayers
from engine.settings_file.config_file import load_config

_NAME: Final = "terminal"
_MOST_LISTED: Final = 200
# After the grace of its calls, a server says at once how a turn has ended.
_SILENT_SECONDS: Final = 1.0
_HINTS: Final[Mapping[type[EngineError], str]] = {
    ServerOffline: f"Next: engine serve\nor: set {URL_VARIABLE} to the URL of a server",
    Unauthorized: f"Next: set {TOKEN_VARIABLE} to the token; `engine serve` prints the name of its file",
    SessionNotFound: "Next: engine attach",
    SessionBusy: "Next: engine attach ID",
    NothingParked: "Next: engine attach ID --prompt TEXT",
    TurnParked: "Next: engine attach ID --resume",
    Draining: "Next: try again in a moment",
}


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        args = parse_arguments("attach", arguments)
        try:
            return trio.run(_attach, args)
        except Refusal as error:
            print_error(f"engine attach: the server refuses that: {error}\nNext: engine help attach")
            return FAILED

    return run_command("attach", run, hints=_HINTS)


async def _attach(args: argparse.Namespace) -> int:
    """Connect and do what is asked for. Always a checkpoint. Raises errors of the engine and `Refusal`."""
    address = await find_address(args.url, None, store=args.store)
    async with connect_to(address, name=_NAME) as client:
        session = await _session(client, args)
        if args.cancel:
            return await _cancel(session)
        check_output()
        config = await to_thread(load_config, None, os.environ)
        in_lines = args.accessible or is_accessible(config.chat.accessible)
        if args.prompt is not None or not (in_lines or _has_terminal()):
            return await _watch(session, args, redraws=not in_lines)
        terminal = None if in_lines or os.environ.get("TERM", "dumb") == "dumb" else RawTerminal.open()
        return await _chat(client, session, config, terminal, resumes=args.resume)


def _has_terminal() -> bool:
    """Return whether a user sits there; else the session is only watched."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


async def _watch(session: RemoteSession, args: argparse.Namespace, *, redraws: bool) -> int:
    """Watch a session, or the turn of a prompt, and ask its questions; return the exit code. A checkpoint."""
    keyboard = Keyboard.open()
    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            output = Output.to(sys.stdout, args.color)
            output.has_status = output.has_status and redraws
            view = RemoteView(session, output, keyboard, stays=keyboard is not None and args.prompt is None)
            if args.prompt is not None:
                return await view.run(signals, lambda: session.prompt(args.prompt))
            return await view.run(signals, session.resume if args.resume else None)
    finally:
        if keyboard is not None:
            keyboard.close()


async def _chat(
    client: Client, session: RemoteSession, config: Config, terminal: RawTerminal | None, *, resumes: bool
) -> int:
    """Chat with a session of the server, without a *terminal* in lines; return the exit code.

    A checkpoint. Raises what the server refuses.
    """
    head = await session.head()
    own = await to_thread(_own_commands, config)
    source = ChatSource(
        client=RemoteClient(client, session, config, resumes=resumes),
        commands=RemoteCommands(client, session, config, own),
        drafts=ChatDrafts(default_folder(), "", session.id),
        leave_at_once=_leave_at_once,
        heading=f"engine {__version__}, session {session.id} of a server (/help; Ctrl+D detaches)",
        folder=os.getcwd,
        is_remote=True,
        profile=head.profile,
        config=config,
    )
    try:
        with trio.open_signal_receiver(*termination_signals(), signal.SIGWINCH, signal.SIGCONT) as signals:
            code = await new_driver(terminal, source, "auto").run(signals)
    finally:
        if terminal is not None:
            terminal.close()
    print_error(f"Detached.\nNext: engine attach {session.id}")
    return code


def _own_commands(config: Config) -> Commands:
    """Return the commands that the user has defined on this machine, and in the project here. It blocks."""
    layers = PromptLayers(plugins=config.plugins, is_trusted=UserFiles.default().trust.is_trusted)
    return custom_commands(Path.cwd(), layers)[0]


async def _leave_at_once(number: int) -> None:
    """Leave without waiting for anything. Never returns; a checkpoint in name only."""
    await trio.lowlevel.checkpoint()
    os._exit(128 + number)


async def _session(client: Client, args: argparse.Namespace) -> RemoteSession:
    """Return the session that is meant. A checkpoint. Raises `SessionNotFound`, `ConfigError`."""
    if args.session is None and args.prompt is not None:
        return await client.create_session(cwd=Path.cwd())
    rows = await client.list(limit=_MOST_LISTED)
    if args.session is None:
        busy = [row for row in rows if row.status in {"busy", "waiting"}]
        if not rows:
            raise ConfigError("the server has no session yet\nNext: engine attach --prompt TEXT")
        return client.session((busy or rows)[0].id)
    # One that is too old for the list is known by its whole id.
    return client.session(_match(args.session, [row.id for row in rows]) or args.session)


def _match(name: str, ids: Sequence[str]) -> str | None:
    """Return the id that *name* is, begins or ends. Raises `SessionNotFound` if that fits several."""
    if name in ids:
        return name
    begin = name.removeprefix("ses_")
    matches = [each for each in ids if each.removeprefix("ses_").startswith(begin)]
    matches = matches or [each for each in ids if each.endswith(name)]
    if len(matches) > 1:
        raise SessionNotFound(f"{name!r} is ambiguous: {', '.join(matches[:5])}")
    return matches[0] if matches else None


async def _cancel(session: RemoteSession) -> int:
    """Cancel the running turn; return the exit code. A checkpoint."""
    head = await session.head()
    if head.turn is None:
        print_error(f"engine attach: no turn runs in session {session.id}\nNext: engine attach {session.id}")
        return FAILED
    turn = session.turn(head.turn.turn_id)
    until = await turn.cancel()
    result = None
    with trio.move_on_after(_SILENT_SECONDS + _grace(until)):
        result = await turn.wait()
    if result is None:
        print_error(
            f"engine attach: no answer from the server: the turn may still run\nNext: engine attach {session.id}"
        )
        return FAILED
    print_text(f"cancelled: the turn has ended ({result.stop_reason})\n")
    return DONE


def _grace(until: float | None) -> float:
    """Return how long the calls may clean up yet."""
    return 0.0 if until is None else max(0.0, until - time.time())

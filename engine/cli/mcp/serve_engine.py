"""`engine mcp serve`: the engine as an MCP server, for the agent that has started it or over HTTP."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import attrs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.served_engine import ServedSetup
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.own_streams import take_standard_streams
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.cli.terminal.standard_streams import print_text
from engine.control.service.server_discovery import server_folder
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.core.threads import to_thread
from engine.mcp_server.root_folder import folder_below
from engine.process.subreaper import become_subreaper
from engine.session.engine import Engine, engine_runtime
from engine.tools.shell_environment import marker

if TYPE_CHECKING:
    from engine.mcp_server.engine_tools import EngineTools


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        args = parse_arguments("mcp serve", arguments)
        if args.port and not args.http:
            raise ConfigError("--port is for the server behind HTTP\nNext: add --http")
        # Before anything can print: the client reads every byte of standard output.
        streams = None if args.http else take_standard_streams()
        setup = ServedSetup(args)
        root = os.path.realpath(args.root or args.cwd)
        folder = folder_below(root, str(args.cwd))
        load_server()
        become_subreaper()
        place = server_folder(setup.place) / "mcp" if args.http else None
        command = _Command(
            root=root, folder=folder, question_timeout=args.question_timeout, port=args.port, place=place
        )
        return trio.run(_serve, setup, command, streams)

    return run_command("mcp serve", run)


def load_server() -> ModuleType:
    """Import what needs the SDK. It blocks. Raises `ConfigError` with advice."""
    try:
        import engine.mcp_server.sdk_server as module
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("engine."):
            raise
        raise ConfigError("engine mcp serve needs the extra 'mcp'\nNext: pip install 'nursery-engine[mcp]'") from error
    return module


@attrs.frozen(kw_only=True)
class _Command:
    """The parsed command line.

    Attributes:
        root: where sessions may work.
        folder: where new ones do.
        question_timeout: seconds after which an open question counts as denied.
        port: of HTTP.
        place: the folder of its token; None: the server is for the program that has started it.
    """

    root: str
    folder: str
    question_timeout: float
    port: int
    place: Path | None


async def _serve(setup: ServedSetup, command: _Command, streams: tuple[int, int] | None) -> int:
    """Serve until the client closes our input, or a signal comes. A checkpoint. Raises `ConfigError`."""
    from engine.mcp_server.engine_tools import EngineTools

    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            # In a thread: it may look for a model on this machine.
            opening = await to_thread(setup.open_engine)
            async with opening as engine, trio.open_nursery() as nursery:
                tools = EngineTools(
                    engine, root=command.root, folder=command.folder, question_timeout=command.question_timeout
                )
                server = _over_http(tools, command) if streams is None else _over_pipes(tools, command, streams)

                def leave(_number: int) -> None:
                    server.leave()

                nursery.start_soon(watch_signals, signals, leave, _OwnProcesses(engine).is_ours)
                await server.run()
                nursery.cancel_scope.cancel(reason="the server has ended")
    except BaseExceptionGroup as group:
        raise public(group) from None
    return DONE


@attrs.frozen
class _Serving:
    """A server: what runs it, and what asks it to end."""

    run: Callable[[], Awaitable[None]]
    leave: Callable[[], None]


def _over_pipes(tools: EngineTools, command: _Command, streams: tuple[int, int]) -> _Serving:
    from engine.mcp_server.message_lines import MessageLines
    from engine.mcp_server.sdk_server import serve_tools

    reading, writing = streams
    lines = MessageLines(trio.StapledStream(trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading)))

    async def run() -> None:
        async with lines.open() as messages:
            await serve_tools(tools, messages, question_timeout=command.question_timeout)

    return _Serving(run, lines.leave)


def _over_http(tools: EngineTools, command: _Command) -> _Serving:
    from engine.mcp_server.http_listener import HttpServer

    assert command.place is not None
    token = command.place / "token"
    server = HttpServer(tools, port=command.port, folder=command.place, question_timeout=command.question_timeout)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            print_text(
                f"engine serves MCP at {server.url}\n"
                f"The token is in {token}. Add it to Claude Code:\n"
                f"  claude mcp add --transport http engine {server.url} "
                f'--header "Authorization: Bearer $(cat {shlex.quote(str(token))})"\n'
                "Ctrl-C ends it.\n"
            )

    return _Serving(run, server.leave)


class _OwnProcesses:
    """Tells the processes of the engine's sessions from others."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def is_ours(self, mark: str) -> bool:
        """Return whether a process with this mark belongs to one of the sessions."""
        return any(mark.startswith(marker(session_id)) for session_id in engine_runtime(self._engine).sessions.by_id)

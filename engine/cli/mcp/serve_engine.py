"""`engine mcp serve`: the engine as an MCP server for the agent that has started it."""

from __future__ import annotations

import os
from types import ModuleType

import attrs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.served_engine import ServedSetup
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.own_streams import take_standard_streams
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.mcp_server.root_folder import folder_below
from engine.process.subreaper import become_subreaper
from engine.session.engine import Engine, engine_runtime
from engine.tools.shell_environment import marker


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        args = parse_arguments("mcp serve", arguments)
        # Before anything can print: the client reads every byte of standard output.
        streams = take_standard_streams()
        setup = ServedSetup(args)
        root = os.path.realpath(args.root or args.cwd)
        folder = folder_below(root, str(args.cwd))
        load_server()
        become_subreaper()
        return trio.run(_serve, setup, _Folders(root, folder), args.question_timeout, streams)

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


@attrs.frozen
class _Folders:
    """Where sessions may work, and where new ones do."""

    root: str
    default: str


async def _serve(setup: ServedSetup, folders: _Folders, question_timeout: float, streams: tuple[int, int]) -> int:
    """Serve the client until it closes our input, or a signal comes. A checkpoint."""
    from engine.mcp_server.engine_tools import EngineTools
    from engine.mcp_server.message_lines import MessageLines
    from engine.mcp_server.sdk_server import serve_tools

    reading, writing = streams
    lines = MessageLines(trio.StapledStream(trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading)))

    def leave(_number: int) -> None:
        lines.leave()

    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            async with setup.open_engine() as engine, trio.open_nursery() as nursery:
                nursery.start_soon(watch_signals, signals, leave, _OwnProcesses(engine).is_ours)
                tools = EngineTools(
                    engine, root=folders.root, folder=folders.default, question_timeout=question_timeout
                )
                async with lines.open() as messages:
                    await serve_tools(tools, messages, question_timeout=question_timeout)
                nursery.cancel_scope.cancel(reason="the client has gone")
    except BaseExceptionGroup as group:
        raise public(group) from None
    return DONE


class _OwnProcesses:
    """Tells the processes of the engine's sessions from others."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def is_ours(self, mark: str) -> bool:
        """Return whether a process with this mark belongs to one of the sessions."""
        return any(mark.startswith(marker(session_id)) for session_id in engine_runtime(self._engine).sessions.by_id)

"""`engine acp`: the agent of an editor that speaks the Agent Client Protocol and has started it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import final

import trio

from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import LIMITS, EditorConnection
from engine.acp.editor_host import EditorCommand
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.prompt_files import TaskFlags, custom_commands, expand_task
from engine.cli.served_engine import ServedSetup
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.own_streams import take_standard_streams
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.control.transport.line_transport import LineTransport
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.process.subreaper import become_subreaper
from engine.session.engine import Engine


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        args = parse_arguments("acp", arguments)
        # Before anything can print: the editor reads every byte of standard output.
        streams = take_standard_streams()
        host = _EditorHost(args)
        become_subreaper()
        return trio.run(_serve, host, args.question_timeout, streams)

    return run_command("acp", run)


async def _serve(host: _EditorHost, question_timeout: float | None, streams: tuple[int, int]) -> int:
    """Serve the editor until it closes our input, or a signal comes. A checkpoint."""
    reading, writing = streams
    stream = trio.StapledStream(trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading))
    connection = EditorConnection(LineTransport(stream, message_bytes=LIMITS.bytes))
    agent = EditorAgent(connection, host, question_timeout=question_timeout)

    def leave(_number: int) -> None:
        agent.leave()

    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch_signals, signals, leave, agent.is_ours)
                await agent.run()
                nursery.cancel_scope.cancel(reason="the editor has gone")
    except BaseExceptionGroup as group:
        raise public(group) from None
    return DONE


@final
class _EditorHost:
    """The engine and the commands of the user, as the flags and the configuration have them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._setup = ServedSetup(args)

    def open_engine(self) -> AbstractAsyncContextManager[Engine]:
        """Return the engine to use. It blocks. Raises `ConfigError` if no model can be used."""
        return self._setup.open_engine()

    def commands(self, cwd: str) -> Sequence[EditorCommand]:
        """Return the custom commands in that folder. It blocks."""
        commands, _ = custom_commands(Path(cwd), self._setup.layers)
        return [EditorCommand(each.name, each.description) for each in commands.available]

    def expand(self, text: str, cwd: str) -> str:
        """Return a prompt with a custom command at its beginning expanded; any other text as it is. It blocks."""
        try:
            return expand_task(text, (), Path(cwd), self._setup.layers, TaskFlags(config=self._setup.config)).text
        except ConfigError:  # no such command: it may be an ordinary sentence
            return text

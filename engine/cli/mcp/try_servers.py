"""`engine mcp test, approve, login`: a server is started for the command, and ended with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import attrs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.mcp.manage_servers import require_server
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.mcp_config import McpConfig, McpServer
from engine.core.errors import ConfigError
from engine.core.threads import to_thread
from engine.mcp.approvals import review
from engine.mcp.managed_server import CheckedTools
from engine.mcp.mcp_servers import McpServers
from engine.mcp.server_state import ServerState
from engine.mcp.server_text import one_line
from engine.process.crash_cleanup import end_leftovers, look_once

Work = Callable[[McpServers, McpServer, argparse.Namespace], Awaitable[int]]


def test_main(arguments: list[str]) -> int:
    """Run `test`; return the exit code."""
    return run_command("mcp", lambda: _with_server("mcp test", arguments, _test))


def approve_main(arguments: list[str]) -> int:
    """Run `approve`; return the exit code."""
    return run_command("mcp", lambda: _with_server("mcp approve", arguments, _approve))


def login_main(arguments: list[str]) -> int:
    """Run `login`; return the exit code."""
    return run_command("mcp", lambda: _login(parse_arguments("mcp login", arguments)))


def _with_server(command: str, arguments: Sequence[str], work: Work) -> int:
    args = parse_arguments(command, arguments)
    # Here there is no session, and the approval is the same.
    server = attrs.evolve(require_server(args), per_session=False)

    async def main() -> int:
        if crashed := look_once():
            await end_leftovers(crashed)
        servers = McpServers(McpConfig(servers={args.name: server}), retries=())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(servers.run)
            code = await work(servers, server, args)
            nursery.cancel_scope.cancel(reason="the command is done")
        return code

    return trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)


async def _test(servers: McpServers, server: McpServer, args: argparse.Namespace) -> int:  # noqa: ARG001  # as the others
    name = cast("str", args.name)
    state = await servers.wait_settled(name)
    print_text(_shown(state))
    if state.phase != "ready":
        return FAILED
    offer = servers.offer_of(name)
    lines = [f"  {one_line(tool.own_name)}" for tool in servers.foreign_tools(name)]
    lines += [f"  {one_line(one.tool.name)} ({one.what}: waits for your approval)" for one in offer.withheld]
    lines += [f"  {one_line(tool)} (can't be used: {one_line(reason)})" for tool, reason in offer.refused]
    print_text("".join(f"{escape_control_chars(line)}\n" for line in ["Tools:", *(lines or ["  none"])]))
    if offer.withheld:
        print_text(f"Next: engine mcp approve {escape_control_chars(name)}\n")
    return DONE


async def _approve(servers: McpServers, server: McpServer, args: argparse.Namespace) -> int:
    name = cast("str", args.name)
    state = await servers.wait_settled(name)
    if state.phase == "needs_approval":
        print_text(_lines("The project or a plugin names this server:", server.details()))
        if not await _confirm("Start it, to see its tools?", yes=args.yes):
            return FAILED
        servers.start_again(name)
        state = await servers.wait_settled(name)
    if state.phase != "ready":
        print_error(f"engine mcp: {_shown(state).rstrip()}")
        return FAILED
    offer = servers.offer_of(name)
    print_text(_shown(state))
    if not offer.withheld and not _gone(offer):
        await servers.approve(name)
        return print_text("Nothing has changed since you approved it.\n")
    print_text("".join(f"{escape_control_chars(line)}\n" for line in review(offer.withheld, offer.listed)))
    if gone := _gone(offer):
        print_text(_lines("No longer there:", gone))
    count = len(offer.withheld)
    if not await _confirm(f"Approve {count} tool{'s' * (count != 1)} of {name}?", yes=args.yes):
        return FAILED
    await servers.approve(name)
    return print_text(f"The tools of {escape_control_chars(name)} are approved as they are.\n")


def _gone(offer: CheckedTools) -> list[str]:
    there = {tool.name for tool in offer.listed.tools}
    return [one_line(name) for name in offer.approved.tools if name not in there]


def _login(args: argparse.Namespace) -> int:
    server = require_server(args)
    if not server.url:
        raise ConfigError(f"{args.name} is a program: it needs no login here\nNext: engine mcp test {args.name}")
    # Imported here: it brings the SDK.
    try:
        from engine.mcp.oauth import log_in
    except ModuleNotFoundError as error:
        raise ConfigError("MCP servers need the extra 'mcp'\nNext: pip install 'nursery-engine[mcp]'") from error

    def show(url: str) -> None:
        print_text(f"Open this page in a browser on this machine, and log in:\n{escape_control_chars(url)}\n")

    trio.run(log_in, args.name, server, show, restrict_keyboard_interrupt_to_checkpoints=True)
    return print_text(f"You are logged in to {escape_control_chars(args.name)}.\n")


def _shown(state: ServerState) -> str:
    what = f"{one_line(state.title) or 'The server'} speaks MCP {state.protocol}" if state.protocol else "The server"
    heading = f"{what}: {state.phase}"
    reason = [line for line in state.reason.splitlines() if line]
    return _lines(heading, [*reason, *state.notes])


def _lines(heading: str, lines: Sequence[str]) -> str:
    return "".join(f"{escape_control_chars(line)}\n" for line in [heading, *(f"  {line}" for line in lines)])


async def _confirm(question: str, *, yes: bool) -> bool:
    """Ask the user; without a terminal, it is a no. A checkpoint."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print_error("engine mcp: no terminal to ask for confirmation\nNext: engine mcp approve NAME --yes")
        return False
    sys.stderr.write(f"{escape_control_chars(question)} [y/N] ")
    sys.stderr.flush()
    answer = await to_thread(sys.stdin.readline)
    return answer.strip().lower() in {"y", "yes"}

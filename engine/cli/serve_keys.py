"""`engine serve keys`: the tokens with which programs connect to a server, by name and role."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.store_flags import resolve_store
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.control.service.server_discovery import server_folder
from engine.control.token_file import add_token, list_tokens, revoke_token


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return _run("serve keys list", arguments, _list)


def add_main(arguments: list[str]) -> int:
    """Run `add`; return the exit code."""
    return _run("serve keys add", arguments, _add)


def revoke_main(arguments: list[str]) -> int:
    """Run `revoke`; return the exit code."""
    return _run("serve keys revoke", arguments, _revoke)


def _run(name: str, arguments: Sequence[str], work: Callable[[Namespace], int]) -> int:
    return run_command(name, lambda: work(parse_arguments(name, arguments)))


def _list(args: Namespace) -> int:
    rows = [f"{login.name:<24} {login.role}\n" for login in list_tokens(server_folder(resolve_store(args)))]
    return print_text("".join(rows) or "no tokens: the first start of a server makes one\n") or DONE


def _add(args: Namespace) -> int:
    return print_text(f"{add_token(server_folder(resolve_store(args)), args.name, args.role)}\n")


def _revoke(args: Namespace) -> int:
    if revoke_token(server_folder(resolve_store(args)), args.name):
        return print_text(f"{args.name} is revoked\n")
    print_error(f"engine serve keys: unknown token {args.name}\nNext: engine serve keys list")
    return FAILED

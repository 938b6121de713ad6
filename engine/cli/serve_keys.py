"""`engine serve keys`: the tokens with which programs connect to a server, by name and role."""

from __future__ import annotations

from engine.cli.flags.arg_types import command_parser
from engine.cli.flags.store_flags import add_store_flag, resolve_store
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.control.protocol.handshake import ROLES
from engine.control.service.server_discovery import server_folder
from engine.control.token_file import add_token, list_tokens, revoke_token


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_command("serve keys", lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    """Parse *arguments*, and do it. It blocks. Raises `SystemExit`, `ConfigError`, `StoreError`."""
    parser = command_parser(
        "serve keys",
        "List, add and revoke the tokens of the server of a store. A server that runs knows of it within a second: the connections of "
        "a revoked token are closed.",
        epilog="Exit codes: 0 done, 1 there is no such token, 2 wrong usage.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "add", "revoke"),
        default="list",
        help="list the names and roles (the default); make a token, and print it, which can't be done again; or make one useless",
    )
    parser.add_argument(
        "name", nargs="?", help="of the token; owner: the one in the file, and all browsers that are logged in"
    )
    parser.add_argument(
        "--role",
        choices=ROLES,
        default="full",
        help="of a new token. read: see everything; answer: also answer questions and cancel turns; full: everything "
        "(the default)",
    )
    add_store_flag(parser)
    args = parser.parse_args(arguments)
    if (args.name is None) != (args.action == "list"):
        parser.error(f"{args.action} takes {'no name' if args.action == 'list' else 'a name'}")
    folder = server_folder(resolve_store(args))
    match args.action:
        case "add":
            return print_text(f"{add_token(folder, args.name, args.role)}\n")
        case "revoke":
            if revoke_token(folder, args.name):
                return print_text(f"{args.name} is revoked\n")
            print_error(f"engine serve keys: there is no token called {args.name}")
            return FAILED
        case _:
            rows = [f"{login.name:<24} {login.role}\n" for login in list_tokens(folder)]
            return print_text("".join(rows) or "no tokens: the first start of a server makes one\n") or DONE

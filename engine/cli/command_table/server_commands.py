"""`engine serve` and `engine attach`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import attrs

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import ACCESSIBLE, CWD, PORT, STORE
from engine.cli.command_table.turn_flags import COLOR, MODEL_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS
from engine.cli.flags.arg_types import seconds
from engine.cli.terminal.exit_codes import MEANINGS
from engine.control.protocol.handshake import ROLES

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def seconds_or_none(text: str) -> float:
    """Parse a time in seconds, or 0. For `parse=`."""
    return 0.0 if text.strip() == "0" else seconds(text)


def memory_size(text: str) -> int:
    """Parse a number of bytes, such as 500M or 2G. For `parse=`."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in {"K", "M", "G"} else (text, "")
    if not number.isascii() or not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"must be a size such as 500M or 2G, not {text!r}")
    return int(number) * _UNITS[unit]


_ADDRESS: Final = FlagGroup(
    "address",
    (
        PORT,
        Flag(
            names=("--listen",),
            value="ADDRESS",
            help="listen at this address",
            default="127.0.0.1",
            default_text="127.0.0.1, which only this machine can reach",
            example="--listen 127.0.0.1",
        ),
        Flag(
            names=("--tls-cert",),
            value="FILE",
            help="use this certificate, with its chain, in PEM",
            parse=Path,
            example="--tls-cert cert.pem --tls-key key.pem",
            completes="file",
        ),
        Flag(
            names=("--tls-key",),
            value="FILE",
            help="use this key of the certificate",
            parse=Path,
            example="--tls-cert cert.pem --tls-key key.pem",
            completes="file",
        ),
        Flag(
            names=("--insecure-plain",),
            help="listen at an address of the network without encryption",
            detail="Anybody who sees the traffic can use the token.",
            example="--listen 192.168.1.5 --insecure-plain",
        ),
        Flag(
            names=("--public-url",),
            value="URL",
            help="name the address at which a proxy passes requests on",
            detail="Or another name of this machine: requests for names that it does not know are refused.",
            example="--public-url https://engine.example.com",
        ),
        Flag(
            names=("--stdio",),
            help="serve only the program that starts it, over its pipes",
            detail="Over standard input and output, a message on each line; the end of the input drains it.",
        ),
    ),
)

_LIFE: Final = FlagGroup(
    "life of the server",
    (
        Flag(
            names=("--drain",),
            value="SECONDS",
            help="let turns continue for so long when the server ends",
            parse=seconds_or_none,
            default=10.0,
            default_text="10",
            example="--drain 60",
        ),
        Flag(
            names=("--require-new",),
            help="fail with 11 if a server of this store runs already",
            detail="By default that is no failure.",
        ),
        Flag(
            names=("--takeover",),
            help="take the sockets of a server that runs, and let it drain",
            detail="No connection is refused.",
        ),
        Flag(
            names=("--exit-idle",),
            value="SECONDS",
            help="end after so long without a client and without a turn",
            parse=seconds,
            example="--exit-idle 600",
        ),
        Flag(
            names=("--max-memory",),
            value="SIZE",
            help="take no new work above this size, such as 2G",
            detail="Clients that only watch are disconnected then.",
            parse=memory_size,
            example="--max-memory 2G",
        ),
        Flag(
            names=("--notify",),
            value="COMMAND",
            help="run this when a question waits and no client is connected",
            detail="It is run with bash; $ENGINE_SESSION and $ENGINE_QUESTION are set.",
            example="--notify 'notify-send \"$ENGINE_QUESTION\"'",
        ),
        Flag(
            names=("--opencode",),
            help="serve clients that were made for opencode, too",
            detail="A part of its HTTP API, for its SDK; the token is the password.",
        ),
        Flag(
            names=("--open",),
            help="open the page in a browser",
            detail="Also that of a server that runs already.",
        ),
        Flag(
            names=("--audit",),
            value="FILE",
            help="log who connects, answers, cancels and deletes",
            detail="- is standard error.",
            example="--audit audit.log",
            completes="file",
        ),
    ),
)

_OF_TURNS: Final = frozenset({1, 2, 4, 5, 6, 7, 8, 9, 70, 74, 141})
_KEY_CODES: Final = {0: "done", 1: "there is no such token", 2: "wrong usage"}
_TOKEN: Final = Argument(name="name", help="the token's name")

KEYS: Final = CommandSpec(
    name="serve keys",
    help="list, add and revoke the tokens of a server",
    description="List, add and revoke the tokens of the server of a store. A server that runs knows of it within a second: the "
    "connections of a revoked token are closed.",
    default="list",
    subcommands=(
        CommandSpec(
            name="serve keys list",
            help="list the names and roles of tokens",
            description="List the names and roles of the tokens of a store's server.",
            run="engine.cli.serve_keys:list_main",
            groups=(FlagGroup("flags", (STORE,)),),
            exit_codes={0: "listed", 2: "wrong usage"},
            examples=(("serve keys", "list the tokens"),),
        ),
        CommandSpec(
            name="serve keys add",
            help="make a token, and print it",
            description="Make a token, and print it, which can't be done again.",
            run="engine.cli.serve_keys:add_main",
            arguments=(_TOKEN,),
            groups=(
                FlagGroup(
                    "flags",
                    (
                        Flag(
                            names=("--role",),
                            choices=ROLES,
                            default="full",
                            help="give the token this role",
                            detail="read: see everything. answer: also answer questions and cancel turns. full: everything.",
                            example="--role read",
                        ),
                        STORE,
                    ),
                ),
            ),
            exit_codes={0: "done", 2: "wrong usage"},
            sample="phone",
            examples=(("serve keys add phone --role answer", "let a phone answer questions"),),
        ),
        CommandSpec(
            name="serve keys revoke",
            help="make a token useless",
            description="Make a token useless. The name owner is that of the token in the file, and of all browsers that are "
            "logged in.",
            run="engine.cli.serve_keys:revoke_main",
            arguments=(_TOKEN,),
            groups=(FlagGroup("flags", (STORE,)),),
            exit_codes=_KEY_CODES,
            sample="phone",
            examples=(("serve keys revoke phone", "close the connections of that token"),),
        ),
    ),
)

SERVE: Final = CommandSpec(
    name="serve",
    help=summary("serve"),
    description="Serve sessions to clients on this machine: over a WebSocket and HTTP, with a token, and over a Unix socket, "
    "which needs none. `engine serve keys` lists, adds and revokes tokens.",
    run="engine.cli.serve:main",
    subcommands=(KEYS,),
    groups=(
        _ADDRESS,
        _LIFE,
        FlagGroup("sessions", (CWD, STORE)),
        PERMISSION_FLAGS,
        SANDBOX_FLAGS,
        MODEL_FLAGS,
    ),
    notes=(
        "SIGTERM or Ctrl-C ends it: turns may continue for --drain seconds, then they are stopped and saved; a second one stops "
        "them at once. SIGHUP reads the certificate again.",
    ),
    exit_codes={
        0: "ended, or a server runs already",
        1: "failed",
        2: "wrong usage",
        11: "a server runs already and --require-new is set",
        74: "a file can't be read or written",
    },
    examples=(
        ("serve --open", "serve this folder, and open the page in a browser"),
        ("serve --stdio", "serve the program that starts it"),
    ),
)

ATTACH: Final = CommandSpec(
    name="attach",
    help=summary("attach"),
    description="Watch a session of a server, answer its questions, and talk to it: a line that you type is a prompt, or goes to "
    "the running turn. Ctrl-D detaches; the turn continues.",
    run="engine.cli.chat.attach:main",
    arguments=(
        Argument(
            name="session",
            label="ID",
            count="optional",
            help="the session: its id, or the beginning or end of it",
            detail="Default: the newest that works or waits, or else the newest; with --prompt, a new one in this folder.",
            completes="session",
        ),
    ),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(
                    names=("-p", "--prompt"),
                    value="TEXT",
                    help="send a prompt, and watch its turn to the end",
                    example='--prompt "run the tests"',
                    excludes="action",
                ),
                Flag(names=("--cancel",), help="cancel the running turn, and wait for its end", excludes="action"),
                Flag(
                    names=("--resume",),
                    help="continue a turn that waits or was interrupted",
                    detail="Or begin with what is queued.",
                    excludes="action",
                ),
                Flag(
                    names=("--url",),
                    value="URL",
                    help="connect to this server: https://…, or unix: with a path",
                    default_text="$ENGINE_URL, or the server of the store on this machine",
                    example="--url http://127.0.0.1:8421",
                ),
                attrs.evolve(
                    STORE,
                    help="connect to the server of this store",
                    default_text="$ENGINE_STORE, or the user's own",
                    detail="",
                ),
                COLOR,
                ACCESSIBLE,
            ),
        ),
    ),
    # Those of the turn that was watched to its end. A signal detaches.
    exit_codes={
        0: "detached, or the turn completed",
        **{code: meaning for code, meaning in MEANINGS.items() if code in _OF_TURNS},
    },
    examples=(("attach", "watch the session that works"),),
)

"""`engine sessions` with its subcommands, `engine stats` and `engine trace`."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag
from engine.cli.command_table.session_edit_commands import EDITS
from engine.cli.command_table.session_flags import (
    CODES,
    FORCE_FILE,
    MODEL,
    OUTPUT,
    SESSION,
    STORE_FLAGS,
    TURN,
    session_flags,
)
from engine.cli.command_table.shared_flags import CONFIG_FLAGS, JSON
from engine.cli.flags.arg_types import whole

_ALL: Final = Flag(names=("--all",), help="include sessions of all folders")
_LIMIT: Final = Flag(
    names=("--limit",),
    value="N",
    help="print at most N results; 0: no limit",
    parse=whole(0),
    default_text="20, no limit with --json",
    example="--limit 5",
)

_VIEWS: Final = (
    CommandSpec(
        name="sessions list",
        help="list the sessions of this folder, newest first",
        description="List the sessions of this folder, newest first.",
        run="engine.cli.sessions.list:list_main",
        groups=session_flags(_ALL, _LIMIT, JSON),
        exit_codes=CODES,
        examples=(("sessions list --all", "list the sessions of all folders"),),
    ),
    CommandSpec(
        name="sessions search",
        help="find sessions by title or content",
        description="Find sessions by their messages or titles.",
        run="engine.cli.sessions.list:search_main",
        arguments=(
            Argument(
                name="words",
                label="WORD",
                count="some",
                help="all words must be in one message",
                detail="The last one may be incomplete.",
            ),
        ),
        groups=session_flags(_ALL, _LIMIT, JSON),
        exit_codes=CODES,
        sample="flaky",
        examples=(("sessions search flaky test", "find messages with both words"),),
    ),
    CommandSpec(
        name="sessions show",
        help="print a session's conversation",
        description="Print a session's conversation. Each heading ends with the end of the message's id, for `engine sessions "
        "fork ID --at`.",
        run="engine.cli.sessions.show:main",
        arguments=(SESSION,),
        groups=session_flags(
            Flag(names=("--usage",), help="show tokens and cost of each request and turn as well"),
            Flag(names=("--results",), help="show the results of tool calls as well"),
            JSON,
        ),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions show last --results", "print everything of the newest session"),),
    ),
    CommandSpec(
        name="sessions diff",
        help="show how a turn changed files",
        description="Show how a turn changed files.",
        run="engine.cli.sessions.undo:diff_main",
        arguments=(SESSION,),
        groups=session_flags(TURN),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions diff last", "show what the newest turn with changes did"),),
    ),
    CommandSpec(
        name="sessions versions",
        help="list the contents that a file has had",
        description="List the contents that a file has had while the session worked, the oldest first. `engine sessions "
        "restore --version` restores one.",
        run="engine.cli.sessions.undo:versions_main",
        arguments=(
            SESSION,
            Argument(name="path", help="the file, relative to the session's folder", completes="file"),
        ),
        groups=STORE_FLAGS,
        exit_codes=CODES,
        sample="last README.md",
        examples=(("sessions versions last README.md", "list the versions of a file"),),
    ),
    CommandSpec(
        name="sessions context",
        help="show what fills the model's context window",
        description="Show what would fill the model's context window in the next request.",
        run="engine.cli.sessions.context:context_main",
        arguments=(SESSION,),
        groups=session_flags(
            attrs.evolve(MODEL, help="use this model's window", default_text="the session's model"), *CONFIG_FLAGS, JSON
        ),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions context last", "show how full the window is"),),
    ),
)

SESSIONS: Final = CommandSpec(
    name="sessions",
    help=summary("sessions"),
    description="Work with stored sessions. Name a session by its id, by the beginning or the end of the id, or by `last`: the "
    "newest of this folder. `engine run --resume ID` continues one.",
    subcommands=(*_VIEWS, *EDITS),
    default="list",
)

STATS: Final = CommandSpec(
    name="stats",
    help=summary("stats"),
    description="Show tokens and money spent: in total, by model and by day. Deleted sessions are included.",
    run="engine.cli.sessions.stats:main",
    groups=session_flags(
        Flag(
            names=("--days",),
            value="N",
            help="show the last N days, including today",
            parse=whole(1, 36_500),
            default=30,
            example="--days 7",
            excludes="since",
        ),
        Flag(names=("--all",), help="show all time", excludes="since"),
        Flag(
            names=("--by",),
            choices=("day", "model", "folder", "session"),
            help="show only this table, with all rows",
            example="--by folder",
        ),
        JSON,
    ),
    notes=(
        "Prices are those of the catalogue at the time of the request. A sub-agent counts for the session that started it.",
    ),
    exit_codes={0: "done", 1: "failed", 2: "wrong usage", 74: "a file can't be read or written"},
    examples=(("stats --days 1", "show what was spent today"),),
)

TRACE: Final = CommandSpec(
    name="trace",
    help=summary("trace"),
    description="Draw what ran when in a session: every turn, request, tool call and sub-agent as a bar, every question, and "
    "what a cancel did. With --html as a page with all details: one file that needs no network. It holds the beginnings "
    "of arguments and results.",
    run="engine.cli.sessions.trace:main",
    arguments=(SESSION,),
    groups=session_flags(
        attrs.evolve(
            OUTPUT,
            names=("--html",),
            dest="output",
            help="write a page to FILE instead; - is standard output",
            default_text="",
            example="--html trace.html",
            excludes="form",
        ),
        FORCE_FILE,
        Flag(
            names=("--requests",),
            help="print the bodies of the requests, as JSON lines",
            detail="They are encoded again from the record, without the schemas of the tools.",
            excludes="form",
        ),
        *CONFIG_FLAGS,
    ),
    exit_codes=CODES,
    sample="last",
    examples=(
        ("trace last", "draw the newest session of this folder"),
        ("trace last --html trace.html", "the same as a page"),
        ("trace last --requests", "what the model was sent"),
    ),
)
